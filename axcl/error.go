package axcl

import (
	"errors"
	"fmt"

	"github.com/axle-llm/axle/ask"
)

// What can go wrong, for errors.Is. An [Error] from a library matches the one that its code stands
// for.
var (
	ErrNoDevice = errors.New("no device")
	ErrLost     = errors.New("device lost")
	ErrMemory   = ask.ErrMemory
	ErrTimeout  = errors.New("time-out")
	ErrModel    = errors.New("bad model")
	ErrTask     = errors.New("a task on the card failed")
	ErrClosed   = errors.New("closed")
	ErrPass     = errors.New("axcl: bad pass")
	ErrThread   = errors.New("axcl: called from a thread that does not own the device")
	// ErrLate: the card did not tell its state in time. It may do so the next time, and does
	// everything else.
	ErrLate = errors.New("the card did not tell its state in time")
	// ErrTooOld: the installed runtime lacks what axle cannot do without. Starting again does not
	// help.
	ErrTooOld = errors.New("this AXCL runtime is too old: 3.6 or later is needed")
)

// NoLayer is Error.Layer where the call belongs to no layer.
const NoLayer = -1

// Head is Error.Layer for the post model.
const Head = -2

// Error is a failed call of a vendor's library.
type Error struct {
	Op    string // the C function, e.g. "axclrtEngineExecute"
	Layer int    // the layer, Head, or NoLayer
	Code  uint32
	Path  string // the model file, where one was being loaded
	Kind  error  // the sentinel this stands for, where Code alone does not tell; may be nil
	Note  string // what else is known: what the machine shows, what to do; may be empty
}

// Error prints as "axcl: axclrtEngineExecute, layer 17: engine: execute failed (0x8030070c)".
func (e *Error) Error() string {
	where := ""
	switch {
	case e.Layer >= 0:
		where = fmt.Sprintf(", layer %d", e.Layer)
	case e.Layer == Head:
		where = ", head"
	}
	if e.Path != "" {
		where += ", " + e.Path
	}
	text := CodeText(e.Code)
	if e.Kind == ErrMemory || e.Kind == ErrTask { // the code's own text says something else, or nothing
		text = e.Kind.Error()
	}
	s := fmt.Sprintf("axcl: %s%s: %s (0x%08x)", e.Op, where, text, e.Code)
	if e.Note != "" {
		s += ": " + e.Note
	}
	return s
}

// Is matches Kind, and the sentinel that the code stands for; a code that is not understood stands
// for ErrLost, but only without a Kind, and so does one without a subsystem for what its id says.
// "No connection" as the library starts is a driver that sees no card on the bus.
func (e *Error) Is(target error) bool {
	if e.Op == "axclInit" && e.Code == NoCard {
		return target == ErrNoDevice
	}
	if e.Kind != nil && (target == e.Kind || bare(e.Code) || !understood(e.Code)) {
		return target == e.Kind
	}
	return target == sentinel(e.Code)
}

// Codes with a meaning of their own, depending on the call.
const (
	NoCard   = 0x80300181 // of axclInit: the driver is there, no card is on the bus
	NoPorts  = 0x80300186 // the card has no ports left for another process
	Taken    = 0x80300106 // of axclrtSetDevice: another process has the card
	NoWorker = 0x8030010b // of axclrtSetDevice: the card's worker for this process did not start, or the nodes cannot be opened
)

var subsystems = [...]string{1: "device", 2: "context", 3: "stream", 4: "task", 5: "memory", 6: "config", 7: "engine", 8: "syslog",
	9: "sysctrl", 10: "latency", 11: "p2p", 12: "worker"}

var common = [...]string{1: "failed", 2: "null pointer", 3: "illegal parameter", 4: "unsupported", 5: "timed out", 6: "busy",
	7: "no memory",
	8: "encode failed", 9: "decode failed", 10: "unexpected response", 11: "open failed", 12: "execute failed"}

var special = map[uint32]string{
	0x0180: "query failed", 0x0181: "no connection", 0x0182: "probe failed", 0x0183: "not active", 0x0184: "invalid id",
	0x0185: "no active device",
	0x0186: "port allocation failed", 0x0187: "reboot failed", 0x0188: "port destruction failed",
	0x0281: "create failed", 0x0282: "destroy failed", 0x0283: "cannot bind to the thread", 0x0284: "no context bound to this thread",
	0x0381: "create failed", 0x0382: "destroy failed", 0x0383: "synchronisation timed out", 0x0384: "wait failed",
	0x0405: "no answer in time", 0x040c: "the message could not be sent: the card is offline", 0x0481: "the stream takes no more",
	0x0581: "not device memory", 0x0781: "invalid index",
	0x0c81: "cannot open file", 0x0c82: "empty file", 0x0c83: "process not found", 0x0c84: "invalid path", 0x0c85: "cannot open channel",
	0x0c86: "send failed", 0x0c87: "buffer too small",
}

// bare: an id without module and subsystem, as some calls give it.
func bare(code uint32) bool { return code > 0 && code < 0x10 }

func isAXCL(code uint32) bool {
	return code&0xf0ff0000 == 0x80300000 && code>>24&0xf <= 2 && int(code>>8&0xff) < len(subsystems)
}

// understood: the code is one that the vendor's scheme gives a meaning.
func understood(code uint32) bool {
	if !isAXCL(code) && !bare(code) {
		return false
	}
	id := int(code & 0xff)
	return special[code&0xffff] != "" || id < len(common) && common[id] != ""
}

// CodeText says in words what an AXCL code means.
func CodeText(code uint32) string {
	if !isAXCL(code) && !bare(code) {
		return "unknown error"
	}
	sub, id := code>>8&0xff, code&0xff
	name := "runtime"
	if int(sub) < len(subsystems) && subsystems[sub] != "" {
		name = subsystems[sub]
	}
	if s, ok := special[code&0xffff]; ok {
		return name + ": " + s
	}
	if int(id) < len(common) && common[id] != "" {
		return name + ": " + common[id]
	}
	return name + ": unknown error"
}

func sentinel(code uint32) error {
	if !understood(code) {
		return ErrLost
	}
	sub, id := code>>8&0xff, code&0xff
	switch {
	case id == 5 || sub == 3 && id == 0x83:
		return ErrTimeout
	case sub == 4: // messages to the card: where one cannot be sent, none can from then on
		return ErrLost
	case id == 7:
		return ErrMemory
	case sub == 1 && (id == 0x0b || id == 0x84 || id == 0x85):
		return ErrNoDevice
	//rule:D5 ./axcl/native TestFatalAgrees , id == 0x0a =>
	case sub == 1 && id == 0x81, id == 8, id == 9, id == 0x0a:
		return ErrLost
	case sub == 2 && id == 0x84:
		return ErrThread
	}
	return nil
}

// Fatal reports whether err leaves the device unusable: it is lost, it timed out, it fell out of
// step, or the code is unknown. What a bad pass, a bad model, a lack of memory or a single failed
// execute or task leave behind is a device that still works.
func Fatal(err error) bool { return errors.Is(err, ErrLost) || errors.Is(err, ErrTimeout) }
