package axcl

import (
	"errors"
	"fmt"
	"testing"
)

func TestErrorText(t *testing.T) {
	for _, tt := range []struct {
		err  Error
		want string
	}{
		{Error{Op: "axclrtEngineExecute", Layer: 17, Code: 0x8030070c},
			"axcl: axclrtEngineExecute, layer 17: engine: execute failed (0x8030070c)"},
		{Error{Op: "axclInit", Layer: NoLayer, Code: 0x8030010b, Note: "no driver"},
			"axcl: axclInit: device: open failed (0x8030010b): no driver"},
		{Error{Op: "axclrtEngineLoadFromFile", Layer: Head, Code: 0x80300707, Path: "post.axmodel"},
			"axcl: axclrtEngineLoadFromFile, head, post.axmodel: engine: no memory (0x80300707)"},
		{Error{Op: "axclrtSynchronizeStreamWithTimeout", Layer: NoLayer, Code: 0x80300383},
			"axcl: axclrtSynchronizeStreamWithTimeout: stream: synchronisation timed out (0x80300383)"},
		{Error{Op: "AX_ENGINE_RunGroupIOSync", Layer: 0, Code: 0x8006010a},
			"axcl: AX_ENGINE_RunGroupIOSync, layer 0: unknown error (0x8006010a)"},
		{Error{Op: "axclrtMemcpyAsync", Layer: 2, Code: 0x8030040c},
			"axcl: axclrtMemcpyAsync, layer 2: task: the message could not be sent: the card is offline (0x8030040c)"},
		{Error{Op: "axclrtEngineExecuteAsync", Layer: 0, Code: 4},
			"axcl: axclrtEngineExecuteAsync, layer 0: runtime: unsupported (0x00000004)"},
		{Error{Op: "axclrtMalloc", Layer: 2, Code: 0x8030050c, Kind: ErrMemory, Note: "8 MiB were free"},
			"axcl: axclrtMalloc, layer 2: out of card memory (0x8030050c): 8 MiB were free"},
		{Error{Op: "axclrtSynchronizeStreamWithTimeout", Layer: NoLayer, Code: 0xffffffff, Kind: ErrTask},
			"axcl: axclrtSynchronizeStreamWithTimeout: a task on the card failed (0xffffffff)"},
		{Error{Op: "f", Layer: NoLayer, Code: 0x803007f0}, "axcl: f: engine: unknown error (0x803007f0)"},
		{Error{Op: "f", Layer: NoLayer, Code: 0x81300001}, "axcl: f: runtime: failed (0x81300001)"},
	} {
		if got := tt.err.Error(); got != tt.want {
			t.Errorf("got  %s\nwant %s", got, tt.want)
		}
	}
}

func TestErrorMeaning(t *testing.T) {
	sentinels := []error{ErrNoDevice, ErrLost, ErrMemory, ErrTimeout, ErrModel, ErrClosed, ErrPass, ErrThread, ErrLate, ErrTooOld}
	for _, tt := range []struct {
		name  string
		code  uint32
		kind  error
		want  []error // exactly these
		fatal bool
	}{
		{"one failed execute", 0x8030070c, nil, nil, false},
		{"driver missing", 0x8030010b, nil, []error{ErrNoDevice}, false},
		{"no such id", 0x80300184, nil, []error{ErrNoDevice}, false},
		{"no connection", 0x80300181, nil, []error{ErrLost}, true},
		{"offline", 0x8030040c, nil, []error{ErrLost}, true},
		{"stream full", 0x80300481, nil, []error{ErrLost}, true},
		{"any other of messages", 0x80300401, nil, []error{ErrLost}, true},
		{"no answer in time", 0x80300405, nil, []error{ErrTimeout}, true},
		{"bare, unsupported", 4, nil, nil, false},
		{"bare, no memory", 7, nil, []error{ErrMemory}, false},
		{"bare, time-out", 5, nil, []error{ErrTimeout}, true},
		{"bare, time-out, and the call may be refused", 5, ErrModel, []error{ErrModel}, false},
		{"bare, unknown", 0xd, nil, []error{ErrLost}, true},
		{"asynchronous executes unsupported", 4, ErrTooOld, []error{ErrTooOld}, false},
		{"no context", 0x80300284, nil, []error{ErrThread}, false},
		{"no memory", 0x80300507, nil, []error{ErrMemory}, false},
		{"no memory, engine", 0x80300707, nil, []error{ErrMemory}, false},
		{"time-out", 0x80300705, nil, []error{ErrTimeout}, true},
		{"synchronisation time-out", 0x80300383, nil, []error{ErrTimeout}, true},
		{"encode", 0x80300708, nil, []error{ErrLost}, true},
		{"decode", 0x80300709, nil, []error{ErrLost}, true},
		{"unexpected response", 0x8030070a, nil, []error{ErrLost}, true},
		{"native module", 0x8130070c, nil, nil, false},
		{"unknown id", 0x8030070d, nil, []error{ErrLost}, true},
		{"unknown special", 0x80300799, nil, []error{ErrLost}, true},
		{"unknown subsystem", 0x80301301, nil, []error{ErrLost}, true},
		{"unknown module", 0x83300701, nil, []error{ErrLost}, true},
		{"another scheme", 0x8006010a, nil, []error{ErrLost}, true},
		{"another scheme, refused load", 0x8006010a, ErrModel, []error{ErrModel}, false},
		{"link gone behind a mild code", 0x8030070c, ErrLost, []error{ErrLost}, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			err := fmt.Errorf("wrapped: %w", &Error{Op: "f", Code: tt.code, Kind: tt.kind})
			for _, s := range sentinels {
				want := false
				for _, w := range tt.want {
					want = want || w == s
				}
				if got := errors.Is(err, s); got != want {
					t.Errorf("errors.Is(%v, %v) = %v", err, s, got)
				}
			}
			if got := Fatal(err); got != tt.fatal {
				t.Errorf("Fatal(%v) = %v", err, got)
			}
		})
	}
	none := &Error{Op: "axclInit", Code: 0x80300181}
	if !errors.Is(none, ErrNoDevice) || errors.Is(none, ErrLost) || Fatal(none) {
		t.Error("a library that starts and finds no card on the bus has lost one")
	}
	if Fatal(nil) || Fatal(errors.New("x")) || Fatal(ErrPass) || Fatal(ErrModel) || !Fatal(ErrTimeout) || !Fatal(ErrLost) {
		t.Error("Fatal is wrong about a sentinel")
	}
}
