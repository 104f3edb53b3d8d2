//go:build cgo && !fake && linux

package native

/*
#include <stdlib.h>
#include "native.h"
*/
import "C"

import (
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"unsafe"

	"github.com/axle-llm/axle/axcl"
)

// closer is a model, a net or a buffer of a device.
type closer interface{ Close() error }

type device struct {
	lib    *library
	c      *C.axn_card
	index  int
	id     int32
	sys    atomic.Pointer[string] // the card's folder in sysfs, where there is one
	open   []closer
	stage  *C.axn_stage   // nil: no buffer was made
	memory unsafe.Pointer // on board, the stage's
	lost   error          // the fatal error, if there was one
	closed bool
}

// ready is the first thing every call asks. Whether the thread is the owner's is asked in C, by
// axn_enter.
func (d *device) ready() error {
	switch {
	case d.closed:
		return axcl.ErrClosed
	case d.lost != nil:
		return fmt.Errorf("axcl: %w, after: %w", axcl.ErrLost, d.lost)
	}
	return nil
}

// wrap makes an error of what C recorded, and abandons the card where it must.
func (d *device) wrap(rc C.int, path string) error {
	e := &d.c.err
	switch rc {
	case C.AXN_OK:
		return nil
	case C.AXN_THREAD:
		return axcl.ErrThread
	case C.AXN_GONE:
		return fmt.Errorf("axcl: %w, after: %w", axcl.ErrLost, d.lost)
	case C.AXN_MODEL:
		if C.GoString(e.op) == C.AXN_UNOPENED {
			return fmt.Errorf("axcl: %w: the library could not open %s: it must be readable, and there must be memory to map it",
				axcl.ErrModel, path)
		}
		return fmt.Errorf("axcl: %w: %s: %s (%d)", axcl.ErrModel, path, C.GoString(e.op), e.code)
	}
	x := &axcl.Error{Op: C.GoString(e.op), Layer: int(e.layer), Code: uint32(e.code), Path: path}
	if d.lib.kind == AXCL {
		x.Kind = meant(x.Op, x.Code)
	}
	if strings.HasPrefix(x.Op, "AX_") && !bool(d.c.lost) {
		// The on-board library's own codes say nothing to us; the call does.
		if x.Kind = axcl.ErrModel; strings.Contains(x.Op, "Alloc") {
			x.Kind = axcl.ErrMemory
		}
	}
	if x.Op == "axclrtSetDevice" && x.Code == axcl.Taken {
		x.Note = "another process has the card: end it, or choose another card with --device axcl:N"
	}
	if x.Op == "axclrtEngineExecuteAsync" && x.Code == 4 { // as 2.25 answers each
		x.Kind, x.Note = axcl.ErrTooOld, axcl.ErrTooOld.Error()+": install a newer axclhost"
	}
	if x.Op == "axclrtEngineLoadFromFile" && (x.Code == 0x80300703 || x.Code == 0x80300704) {
		x.Kind = axcl.ErrModel // the file is missing, or no model
	}
	if !bool(d.c.lost) && d.Gone() {
		x.Kind, x.Note = axcl.ErrLost, "the card is gone from the PCIe bus"
		d.c.lost = true
	}
	if bool(d.c.lost) && !axcl.Fatal(x) {
		x.Kind = axcl.ErrLost
	}
	if bool(d.c.lost) && d.lost == nil {
		d.lost = x
	}
	return x
}

// meant is what a code of libaxcl_rt.so stands for where only the call tells. Lack of card memory
// is an execute that failed, of the memory or of the engine: it means that nowhere but where memory
// is taken. A task's failure is whatever its function on the card returned.
func meant(op string, code uint32) error {
	switch op {
	case "axclrtMalloc", "axclrtEngineLoadFromFile", "axclrtEngineCreateContext":
		if code == 0x8030050c || code == 0x8030070c {
			return axcl.ErrMemory
		}
	case "axclrtSynchronizeStreamWithTimeout":
		if C.axn_raw(C.uint32_t(code)) {
			return axcl.ErrTask
		}
	}
	return nil
}

// fatal is C's view of a code, which axcl.Fatal must share.
func fatal(code uint32) bool { return bool(C.axn_fatal(C.uint32_t(code))) }

// inform asks the library about a card, or with id < 0 about itself. A card that does not tell in
// time goes on: that is axcl.ErrLate.
func (d *device) inform(id int32, i *C.axn_info) error {
	rc := C.axn_inform(d.c, C.int32_t(id), i)
	err := d.wrap(rc, "")
	if errors.Is(err, axcl.ErrTimeout) && !bool(d.c.lost) {
		return fmt.Errorf("axcl: %w: %v", axcl.ErrLate, err)
	}
	return err
}

// findLink asks for the card's address, so that a lost link can be told from the file system. A
// card that does not tell in time is asked again with the next Info.
func (d *device) findLink() error {
	if d.lib.kind != AXCL {
		return nil
	}
	var i C.axn_info
	if err := d.inform(d.id, &i); err != nil {
		if errors.Is(err, axcl.ErrLate) {
			return nil
		}
		return err
	}
	d.linkAt(&i)
	return nil
}

func (d *device) linkAt(i *C.axn_info) {
	if dir := "/sys/bus/pci/devices/" + busAddress(i); vendor(dir) != "" {
		d.sys.Store(&dir)
	}
}

func vendor(dir string) string {
	b, err := os.ReadFile(dir + "/vendor")
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(b))
}

// Gone looks whether a card that was on the bus still answers there. It touches no library and may
// be called from any goroutine.
func (d *device) Gone() bool {
	at := d.sys.Load()
	if at == nil {
		return false
	}
	sys := *at
	// A removed card's folder is gone. One that is off the link keeps its folder, in which the
	// kernel shows ids that it read long ago; of the configuration space it reads anew, and who is
	// not there is all ones.
	if vendor(sys) == "" {
		return true
	}
	f, err := os.Open(sys + "/config")
	if err != nil {
		return false
	}
	defer f.Close()
	var id [2]byte
	_, err = io.ReadFull(f, id[:])
	//rule:D8 TestLinkGone err == nil => false
	return err == nil && id == [2]byte{0xff, 0xff}
}

// Info implements axcl.Device by axclrtGetDeviceProperties; on board from the kernel's files.
func (d *device) Info() (axcl.Info, error) {
	if err := d.ready(); err != nil {
		return axcl.Info{}, err
	}
	return d.info(d.id)
}

// forget takes a closed model off the device's list.
func (d *device) forget(c closer) {
	for i, o := range d.open {
		if o == c {
			d.open = append(d.open[:i], d.open[i+1:]...)
			return
		}
	}
}

// Close implements axcl.Device: models, then the engine, the device, and for the last device the
// library.
func (d *device) Close() error {
	switch {
	case d.closed:
		return axcl.ErrClosed
	case C.axn_thread() != d.c.owner:
		return axcl.ErrThread
	}
	var errs []error
	for len(d.open) > 0 {
		errs = append(errs, d.open[0].Close())
	}
	errs = append(errs, d.closeStage())
	d.closed = true
	if d.lost == nil {
		errs = append(errs, d.wrap(C.axn_detach(d.c), ""))
	}
	d.c.switches = false // its context is gone
	libraries.Lock()
	d.lib.devices = slices.DeleteFunc(d.lib.devices, func(o *device) bool { return o == d })
	errs = append(errs, d.lib.stop(d))
	libraries.Unlock()
	C.free(unsafe.Pointer(d.c))
	d.c = nil
	died(d)
	return errors.Join(errs...)
}
