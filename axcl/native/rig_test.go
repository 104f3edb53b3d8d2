//go:build cgo && !fake && linux

package native

import (
	"fmt"
	"os"
	"runtime"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/axle-llm/axle/axcl"
	"github.com/axle-llm/axle/axcl/axcltest"
	"github.com/axle-llm/axle/axcl/native/simhook"
	"github.com/axle-llm/axle/axcl/simcard"
)

// This file is what the other tests stand on: the simulated cards, how a test gets one to itself,
// and passes to run on it.

// simLibs are the simulated card's libraries, built once for all tests.
var simLibs simcard.Libs

// sims ask the simulated cards by kind.
var sims = map[Kind]*simhook.Sim{}

func TestMain(m *testing.M) {
	os.Exit(testMain(m))
}

func testMain(m *testing.M) int {
	var err error
	if simLibs, err = simcard.Build("", strings.Fields(os.Getenv("AXLE_SIM_CFLAGS"))...); err != nil {
		fmt.Fprintln(os.Stderr, "building the simulated card:", err)
		return 1
	}
	os.Setenv(EnvAXCL, simLibs.AXCL)
	os.Setenv(EnvEngine, simLibs.Engine)
	os.Setenv("AXSIM_HAZARDS", "strict") // what no card checks, and a program should keep to all the same
	for k, path := range map[Kind]string{AXCL: simLibs.AXCL, Engine: simLibs.Sys} {
		if sims[k], err = simhook.Attach(path); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
	}
	code := m.Run()
	if err := goleak.Find(); code == 0 && err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	// Every handle that was made was closed, on this side and on the card's.
	live.Lock()
	defer live.Unlock()
	for h, k := range live.handles {
		fmt.Fprintf(os.Stderr, "left open: %T on %s\n", h, k)
		code = 1
	}
	for k, s := range sims {
		if c := s.Live(); c != (simhook.Counts{}) {
			fmt.Fprintf(os.Stderr, "left on the %s card: %+v\n", k, c)
			code = 1
		}
	}
	dumpCoverage()
	return code
}

var kinds = []Kind{AXCL, Engine}

// onCard runs f for each library with a locked thread and a card as configured; afterwards the card
// is as new, also after a fatal error.
func onCard(t *testing.T, config string, f func(t *testing.T, k Kind, sim *simhook.Sim)) {
	t.Helper()
	for _, k := range kinds {
		t.Run(string(k), func(t *testing.T) {
			runtime.LockOSThread()
			defer runtime.UnlockOSThread()
			sim := sims[k]
			configure(t, sim, config)
			defer func() {
				if err := sim.Reset(); err != nil {
					t.Error(err)
				}
				revive(k)
			}()
			f(t, k, sim)
		})
	}
}

func configure(t testing.TB, sim *simhook.Sim, config string) {
	t.Helper()
	if err := sim.Configure(config); err != nil {
		t.Fatal(err)
	}
}

// revive lets an abandoned library be used again, as a new process would; the simulated card must
// have been reset.
func revive(k Kind) {
	libraries.Lock()
	defer libraries.Unlock()
	for _, l := range libraries.byName {
		if l.kind == k {
			l.lost = false
		}
	}
}

func open(t testing.TB, k Kind) *device {
	t.Helper()
	d, err := Open(k, 0)
	if err != nil {
		t.Fatal(err)
	}
	return d.(*device)
}

func closeAll(t testing.TB, d axcl.Device) {
	t.Helper()
	if err := d.Close(); err != nil {
		t.Error(err)
	}
}

func write(t testing.TB, y axcltest.Tiny) axcl.LoadSpec {
	t.Helper()
	spec, err := y.Write(t.TempDir(), "tiny")
	if err != nil {
		t.Fatal(err)
	}
	return spec
}

// rowPass is a pass of one row in the cell after those it sees.
func rowPass(s axcl.Shape, past int) *axcl.Pass {
	p := &axcl.Pass{Hidden: axcltest.Rows(uint64(past), 1, s.Hidden), Pos: []uint32{uint32(past)}, Cell: []uint32{uint32(past)},
		SeeCells: make([]uint64, axcl.Words(s.Cells)), SeeRows: make([]uint64, 1), Want: []int{0}, Logits: make([]uint16, s.Out),
		LayerInputs: axcltest.Rows(uint64(past)+1, s.Layers, s.LayerInputs)}
	for c := range past {
		p.SeeCells[c/64] |= 1 << (c % 64)
	}
	return p
}

// widePass is a pass of n causal rows from cell 0.
func widePass(s axcl.Shape, n int, want ...int) *axcl.Pass {
	w := axcl.Words(n)
	p := &axcl.Pass{Hidden: axcltest.Rows(77, n, s.Hidden), SeeCells: make([]uint64, n*axcl.Words(s.Cells)), SeeRows: make([]uint64, n*w),
		Want: want, Logits: make([]uint16, len(want)*s.Out), LayerInputs: axcltest.Rows(78, n*s.Layers, s.LayerInputs)}
	for r := range n {
		p.Pos, p.Cell = append(p.Pos, uint32(r)), append(p.Cell, uint32(r))
		for e := range r {
			p.SeeRows[r*w+e/64] |= 1 << (e % 64)
		}
	}
	return p
}

func copyCalls(copies bool) int {
	if copies {
		return 6
	}
	return 0
}

func head(s string) string { return s[:min(len(s), 2000)] }
