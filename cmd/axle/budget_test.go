//go:build !scripted

package main

import (
	"bytes"
	"math"
	"runtime/debug"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/axle-llm/axle/internal/budget"
)

// TestSmallMachine (T7): on a machine of 2 GB what requests may take is less, which is said at the
// start with each part; on a larger one nothing is said. Go's own limit is where the budget is,
// plus what models hold, unless GOMEMLIMIT says another.
func TestSmallMachine(t *testing.T) {
	before := debug.SetMemoryLimit(-1)
	defer func() {
		budget.Set(budget.Full())
		debug.SetMemoryLimit(before)
	}()
	machine := func(total string) fstest.MapFS {
		return fstest.MapFS{"proc/meminfo": {Data: []byte("MemTotal: " + total + " kB\nMemAvailable: " + total + " kB\n")}}
	}
	none := func(string) string { return "" }
	var said bytes.Buffer
	l := setBudget(machine("16000000"), none, newLog(&said, false))
	if said.Len() > 0 || budget.Get() != budget.Full() || debug.SetMemoryLimit(-1) != budget.Full().Sum()-besideGo {
		t.Errorf("a large machine: %s, %v, %d", said.String(), budget.Get(), debug.SetMemoryLimit(-1))
	}
	l.holds("a", 100<<20)
	l.holds("a", 50<<20)
	l.holds("b", 1<<20)
	if n := debug.SetMemoryLimit(-1); n != budget.Full().Sum()-besideGo+101<<20 {
		t.Errorf("with two models: %d", n)
	}
	setBudget(machine("2000000"), none, newLog(&said, false))
	if s := said.String(); !strings.Contains(s, "little memory") || !strings.Contains(s, "pictures while they are decoded") ||
		strings.Count(s, "\n") != 1 {
		t.Errorf("a small machine: %s", s)
	}
	if b := budget.Get(); b.Sum() > 512<<20 || b.Requests >= budget.Full().Requests || debug.SetMemoryLimit(-1) != b.Sum()-besideGo {
		t.Errorf("a small machine: %v", b)
	}
	debug.SetMemoryLimit(math.MaxInt64)
	setBudget(machine("2000000"), func(name string) string { return map[string]string{"GOMEMLIMIT": "3GiB"}[name] }, newLog(&said, false))
	if n := debug.SetMemoryLimit(-1); n != math.MaxInt64 {
		t.Errorf("GOMEMLIMIT is passed over: %d", n)
	}
}
