//go:build cgo && !fake && linux

// Package simhook asks a simulated card (axcl/simcard) what no vendor's library tells: what is
// still alive on it, how many calls it saw, what time it is there. It is for tests and benchmarks
// of native code, which load the same library; its functions may be called from any goroutine.
// Nothing needs closing.
package simhook

/*
#cgo LDFLAGS: -ldl
#include <dlfcn.h>
#include <stdint.h>
#include <stdlib.h>
#include "../../simcard/c/axsim.h"

static int32_t text(void *f, const char *s) { return ((int32_t (*)(const char *))f)(s); }
static int32_t plain(void *f) { return ((int32_t (*)(void))f)(); }
static int32_t counts(void *f, axsim_counts *c) { return ((int32_t (*)(axsim_counts *))f)(c); }
static uint64_t number(void *f) { return ((uint64_t (*)(void))f)(); }
static uint64_t takes(void *f, uint64_t a, uint64_t b) { return ((uint64_t (*)(uint64_t, uint64_t))f)(a, b); }
static void until(void *f, uint64_t t) { ((void (*)(uint64_t))f)(t); }
static uint64_t named(void *f, const char *s) { return ((uint64_t (*)(const char *))f)(s); }
*/
import "C"

import (
	"fmt"
	"time"
	"unsafe"
)

// Sim is a loaded simulated card.
type Sim struct{ configure, reset, live, left, clock, busy, calls, crossings, host, until unsafe.Pointer }

// Attach loads the library at path, or finds it loaded: libaxcl_rt.so, or libax_sys.so for the
// on-board one.
func Attach(path string) (*Sim, error) {
	name := C.CString(path)
	defer C.free(unsafe.Pointer(name))
	h := C.dlopen(name, C.RTLD_NOW|C.RTLD_GLOBAL)
	if h == nil {
		return nil, fmt.Errorf("simhook: %s", C.GoString(C.dlerror()))
	}
	s := &Sim{}
	for _, f := range []struct {
		name string
		to   *unsafe.Pointer
	}{{"axsim_configure", &s.configure}, {"axsim_reset", &s.reset}, {"axsim_live", &s.live}, {"axsim_left", &s.left},
		{"axsim_clock_ns", &s.clock},
		{"axsim_busy_ns", &s.busy}, {"axsim_calls", &s.calls}, {"axsim_crossings", &s.crossings},
		{"axsim_host_ns", &s.host}, {"axsim_until", &s.until}} {
		sym := C.CString(f.name)
		*f.to = C.dlsym(h, sym)
		C.free(unsafe.Pointer(sym))
		if *f.to == nil {
			return nil, fmt.Errorf("simhook: %s has no %s: it is not the simulated card", path, f.name)
		}
	}
	return s, nil
}

// Configure sets options, as lines of name=value; see axsim_configure.
func (s *Sim) Configure(text string) error {
	c := C.CString(text)
	defer C.free(unsafe.Pointer(c))
	if rc := C.text(s.configure, c); rc != 0 {
		return fmt.Errorf("simhook: axsim_configure(%q): 0x%08x", text, uint32(rc))
	}
	return nil
}

// Reset takes the card back to its first state: hangs end, everything is released.
func (s *Sim) Reset() error {
	if rc := C.plain(s.reset); rc != 0 {
		return fmt.Errorf("simhook: axsim_reset: 0x%08x", uint32(rc))
	}
	return nil
}

// Counts are things a program made and did not release.
type Counts struct {
	Contexts, Streams, Events, Models, Infos, IOs, EngineContexts, DeviceBlocks, DeviceBytes, HostBlocks, HostBytes, Workers uint64
}

func (s *Sim) count(f unsafe.Pointer) Counts {
	var c C.axsim_counts
	C.counts(f, &c)
	return Counts{uint64(c.contexts), uint64(c.streams), uint64(c.events), uint64(c.models), uint64(c.infos), uint64(c.ios),
		uint64(c.engine_contexts),
		uint64(c.device_blocks), uint64(c.device_bytes), uint64(c.host_blocks), uint64(c.host_bytes), uint64(c.workers)}
}

// Live counts what is alive now.
func (s *Sim) Live() Counts { return s.count(s.live) }

// Left counts what the library had to clear up itself since the last Reset.
func (s *Sim) Left() Counts { return s.count(s.left) }

// Clock is the card's time in nanoseconds, Busy the part of it in which the NPU worked.
func (s *Sim) Clock() uint64 { return uint64(C.number(s.clock)) }

// Busy: see Clock.
func (s *Sim) Busy() uint64 { return uint64(C.number(s.busy)) }

// Takes is how long work of the host's processor takes by the profile: see axsim_host_ns.
func (s *Sim) Takes(bytes, products int64) time.Duration {
	return time.Duration(C.takes(s.host, C.uint64_t(bytes), C.uint64_t(products)))
}

// WaitUntil moves a virtual clock on to this time.
func (s *Sim) WaitUntil(t time.Duration) { C.until(s.until, C.uint64_t(max(t, 0))) }

// Calls counts calls of a function since the library was initialised; of all for an empty name.
func (s *Sim) Calls(name string) uint64 {
	if name == "" {
		return uint64(C.named(s.calls, nil))
	}
	c := C.CString(name)
	defer C.free(unsafe.Pointer(c))
	return uint64(C.named(s.calls, c))
}

// Crossings counts copies over PCIe.
func (s *Sim) Crossings() uint64 { return uint64(C.number(s.crossings)) }
