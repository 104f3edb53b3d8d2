// Package cards chooses a device: the vendor's libraries where this build has them and a card
// answers, the card in software otherwise.
//
// Open may be called from any goroutine; the device it gives belongs to the caller, who holds its
// OS thread and closes it (see package axcl).
package cards

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/axle-llm/axle/axcl"
	"github.com/axle-llm/axle/axcl/soft"
)

// Open opens the device that spec names and says in one sentence which it is and why:
//
//	auto, ""    the first AXCL card, else the board's own NPU, else the software card; a card that is there and fails is an error
//	axcl        the first AXCL card; axcl:1 the second in the library's list, or, past its end, the one with that PCIe bus number
//	axengine    the board's own NPU
//	soft        the card in software; soft:threads=2,cmm=4G,kernels=go one with two threads, 4 GiB and plain Go's arithmetic
//
// Errors: a spec that is none of these; ErrNoDevice where the device is not there, or this build
// was made without cgo; and what the library answers.
func Open(spec string) (axcl.Device, string, error) {
	kind, arg, _ := strings.Cut(spec, ":")
	switch kind {
	case "", "auto":
		if arg == "" {
			return auto()
		}
	case "axcl":
		index := 0
		if arg != "" {
			n, err := strconv.ParseUint(arg, 10, 16)
			if err != nil {
				return nil, "", fmt.Errorf("cards: %q: the number of a card is expected after the colon", spec)
			}
			index = int(n)
		}
		d, err := openNative(kind, index)
		return d, "the card axcl:" + strconv.Itoa(index) + " was asked for", err
	case "axengine":
		if arg == "" {
			d, err := openNative(kind, 0)
			return d, "the board's own NPU was asked for", err
		}
	case "soft":
		d, err := openSoft(arg)
		return d, "the software card was asked for" + arithmetic(d, ": it computes with "), err
	}
	return nil, "", fmt.Errorf("cards: unknown device %q: use auto, axcl, axcl:N, axengine or soft", spec)
}

func auto() (axcl.Device, string, error) {
	d, cardErr := openNative("axcl", 0)
	if cardErr == nil {
		return d, "an AXCL card is there", nil
	}
	if !errors.Is(cardErr, axcl.ErrNoDevice) {
		return nil, "", fmt.Errorf("%w; the software card takes the place of a card that is not there, not of one that does not answer: "+
			"soft asks for it", cardErr)
	}
	d, boardErr := openNative("axengine", 0)
	if boardErr == nil {
		return d, "this board has an NPU of its own", nil
	}
	why := fmt.Sprintf("no card can be used (%s), so the software card computes", reason(cardErr))
	if !errors.Is(boardErr, axcl.ErrNoDevice) {
		why = fmt.Sprintf("no card (%s) and no on-board NPU (%s) can be used, so the software card computes", reason(cardErr),
			reason(boardErr))
	}
	//rule:D1 ./cmd/axle TestNoCard d, err := openSoft("") => err := cardErr
	d, err := openSoft("")
	return d, why + arithmetic(d, " with "), err
}

// arithmetic names a software card's kernels, after some words.
func arithmetic(d axcl.Device, words string) string {
	if s, ok := d.(*soft.Device); ok {
		return words + s.Kernels()
	}
	return ""
}

// reason is an error's text without the packages' prefixes.
func reason(err error) string {
	s := strings.TrimPrefix(err.Error(), "axcl: ")
	return strings.TrimPrefix(s, "no device: ")
}
