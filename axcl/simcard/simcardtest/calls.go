//go:build cgo && !fake && linux

package simcardtest

import (
	"bufio"
	"cmp"
	"fmt"
	"io"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"
)

// Calls reads a trace of the simulated card (its option trace) in canonical form: what the card was
// asked to do, in order, and nothing that differs from run to run. A line is a call:
//
//	Memcpy dst=card3+128 src=pinned0+64 count=128 kind=1 = 0x80300601
//
// Numbers, times, threads, costs and the code 0 are left out, and so are the queries of a card's or
// a library's properties, which come as time goes by. Memory is numbered in the order in which it
// was given, with what an address is beyond its beginning; handles and models are numbered as they
// are first seen. Memory that the card did not give, a Go slice's, is "host": the runtime places
// it. Of a path there is the file's name.
//
// One goroutine reads it; the card must be at rest meanwhile, or the last line may not be whole.
// Close ends it.
type Calls struct {
	file   *os.File
	text   *bufio.Reader
	blocks []block // by address
	given  map[string]int
	seen   map[string]string // a handle's or a model's number
}

type block struct {
	from, to uint64
	name     string
}

// properties are what may be asked at any time and changes nothing.
var properties = []string{"axclrtGetVersion", "axclrtGetFullVersion", "axclrtGetSocName", "axclrtGetDeviceProperties"}

// ReadCalls opens a trace. The card must be open already, or have been.
func ReadCalls(file string) (*Calls, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	return &Calls{file: f, text: bufio.NewReader(f), given: map[string]int{}, seen: map[string]string{}}, nil
}

// Close closes the file.
func (c *Calls) Close() error { return c.file.Close() }

// Next gives the calls since the last Next.
func (c *Calls) Next() (calls []string, err error) {
	for {
		line, err := c.text.ReadString('\n')
		if err == io.EOF && line == "" {
			return calls, nil
		}
		if err != nil {
			return calls, fmt.Errorf("simcardtest: a line of the trace is not whole: %q: %w", line, err)
		}
		if strings.HasPrefix(line, "#") {
			continue
		}
		call, err := c.canonical(strings.TrimSuffix(line, "\n"))
		if err != nil {
			return calls, err
		}
		if call != "" {
			calls = append(calls, call)
		}
	}
}

// canonical is a line's call, or empty for one that is left out.
func (c *Calls) canonical(line string) (string, error) {
	// number time thread call(operands) = code cost; a path may hold anything.
	open, end := strings.IndexByte(line, '('), strings.LastIndex(line, ") = ")
	if open < 0 || end < open {
		return "", fmt.Errorf("simcardtest: no line of a trace: %q", line)
	}
	name := line[strings.LastIndexByte(line[:open], ' ')+1 : open]
	code, _, _ := strings.Cut(line[end+len(") = "):], " ")
	if slices.Contains(properties, name) && code == "0x00000000" {
		return "", nil
	}
	var out strings.Builder
	out.WriteString(strings.TrimPrefix(strings.TrimPrefix(strings.TrimPrefix(name, "axclrtEngine"), "axclrt"), "axcl"))
	operands := line[open+1 : end]
	if p, ok := strings.CutPrefix(operands, "path="); ok {
		fmt.Fprintf(&out, " path=%s", path.Base(p))
		operands = ""
	}
	size, freed := uint64(0), ""
	for _, o := range strings.Fields(operands) {
		key, value, _ := strings.Cut(o, "=")
		switch key {
		case "size", "count":
			size, _ = strconv.ParseUint(value, 10, 64)
		case "model", "ctx":
			value = c.number(key, value)
		case "id":
			if strings.HasPrefix(name, "axclrtEngine") {
				value = c.number("model", value)
			}
		case "made":
			value = c.give(name, value, size)
		default:
			if strings.HasPrefix(value, "0x") {
				value = c.address(key, value)
			}
		}
		if key == "p" {
			freed = value
		}
		fmt.Fprintf(&out, " %s=%s", key, value)
	}
	if strings.HasPrefix(name, "axclrtFree") {
		c.blocks = slices.DeleteFunc(c.blocks, func(b block) bool { return b.name == freed })
	}
	if code != "0x00000000" {
		fmt.Fprintf(&out, " = %s", code)
	}
	return out.String(), nil
}

// give names memory that the card gave.
func (c *Calls) give(call, address string, size uint64) string {
	kind := "card"
	if call == "axclrtMallocHost" {
		kind = "pinned"
	}
	at, _ := strconv.ParseUint(address, 0, 64)
	b := block{at, at + size, fmt.Sprint(kind, c.given[kind])}
	c.given[kind]++
	i, _ := slices.BinarySearchFunc(c.blocks, b.from, func(b block, at uint64) int { return cmp.Compare(b.from, at) })
	c.blocks = slices.Insert(c.blocks, i, b)
	return b.name
}

// address is what a pointer points to: memory that the card gave, a handle, or the host's own
// memory.
func (c *Calls) address(key, address string) string {
	switch key {
	case "io", "info", "stream", "event":
		return c.number(key, address)
	}
	at, _ := strconv.ParseUint(address, 0, 64)
	i, found := slices.BinarySearchFunc(c.blocks, at, func(b block, at uint64) int { return cmp.Compare(b.from, at) })
	if !found {
		i--
	}
	if i < 0 || at >= c.blocks[i].to {
		return "host"
	}
	if off := at - c.blocks[i].from; off > 0 {
		return fmt.Sprintf("%s+%d", c.blocks[i].name, off)
	}
	return c.blocks[i].name
}

// number numbers handles of a kind as they are first seen.
func (c *Calls) number(kind, handle string) string {
	key := kind + " " + handle
	if _, ok := c.seen[key]; !ok {
		c.seen[key] = strconv.Itoa(c.given[kind])
		c.given[kind]++
	}
	return c.seen[key]
}
