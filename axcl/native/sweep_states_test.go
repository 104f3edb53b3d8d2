//go:build cgo && !fake && linux

package native

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/axle-llm/axle/axcl"
	"github.com/axle-llm/axle/axcl/axcltest"
	"github.com/axle-llm/axle/axcl/native/simhook"
	"github.com/axle-llm/axle/axmodel"
	"github.com/axle-llm/axle/internal/lane"
)

// TestSweepStates fails every call of a life with layers that keep a state, once and for good, as
// TestSweep does.
func TestSweepStates(t *testing.T) {
	//proves:G1
	lane.Slow(t)
	lane.NoRace(t)
	y := axcltest.DefaultStates()
	y.ShapeOnly = true
	spec := write(t, y)
	spec.Slots = 3
	sweepLife(t, spec, lifeOf(stateLife), 200)
}

// TestSweepShared does so with a layer that uses the K and V of another, and with layer inputs.
func TestSweepShared(t *testing.T) {
	//proves:G1
	lane.Slow(t)
	lane.NoRace(t)
	y := axcltest.DefaultGemma4()
	y.ShapeOnly, y.Layers, y.Pattern, y.Shared = true, 3, 2, 1
	y.Groups = []axmodel.SoftGroup{{Rows: 1, Cells: 12, Cache: 12}, {Rows: 4, Cells: 0, Cache: 1}, {Rows: 4, Cells: 6, Cache: 6}}
	sweepLife(t, write(t, y), lifeOf(sharedKVLife), 120)
}

// sweepLife fails every call of a life, of which there are this many at least.
func sweepLife(t *testing.T, spec axcl.LoadSpec, life func(Kind, axcl.LoadSpec) error, least int) {
	step := 1
	if testing.Short() {
		step = 5
	}
	for _, k := range kinds {
		t.Run(string(k), func(t *testing.T) {
			t.Parallel() // the two libraries share nothing
			runtime.LockOSThread()
			defer runtime.UnlockOSThread()
			sim := sims[k]
			defer func() {
				if err := sim.Reset(); err != nil {
					t.Error(err)
				}
				revive(k)
			}()
			calls := lifeCalls(t, k, sim, spec, life)
			if len(calls) < least {
				t.Fatalf("only %d calls in a life", len(calls))
			}
			for i := 0; i < len(calls); i += step {
				for n, how := range []string{"", ":sticky"} {
					c, code := calls[i], sweepCodes[(i+3*n+i/len(sweepCodes))%len(sweepCodes)]
					configure(t, sim, fmt.Sprintf("fault=*:%d:0x%08x%s", i, code, how))
					err := life(k, spec)
					why := judge(k, sim, c, i, code, how != "", len(spec.Layers), err)
					if axcl.Fatal(err) {
						if e := sim.Reset(); e != nil {
							t.Fatal(e)
						}
						revive(k)
					}
					if why != "" {
						t.Fatalf("call %d, %s, code 0x%08x%s: %s; the error: %v", i, c.name, code, how, why, err)
					}
				}
				if i%64 == 0 {
					configure(t, sim, "")
					if err := life(k, spec); err != nil {
						t.Fatalf("after a fault in call %d: %v", i, err)
					}
				}
			}
			t.Logf("%d calls, each failed twice", len(calls))
		})
	}
}

// lifeCalls lists the calls of a life without a fault.
func lifeCalls(t *testing.T, k Kind, sim *simhook.Sim, spec axcl.LoadSpec, life func(Kind, axcl.LoadSpec) error) (calls []traced) {
	t.Helper()
	trace := filepath.Join(t.TempDir(), "trace")
	configure(t, sim, "trace="+trace)
	if err := life(k, spec); err != nil {
		t.Fatal(err)
	}
	configure(t, sim, "")
	b, err := os.ReadFile(trace)
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(b)) {
		if f := strings.SplitN(line, " ", 4); len(f) == 4 && !strings.HasPrefix(line, "#") && strings.Contains(f[3], "(") {
			name, _, _ := strings.Cut(f[3], "(")
			calls = append(calls, traced{name, anyLayer})
		}
	}
	return calls
}

// lifeOf is a device from open to close, with what a model is used for between. It returns the
// first error, and goes on to close what is open.
func lifeOf(use func(axcl.Model) error) func(Kind, axcl.LoadSpec) error {
	return func(k Kind, spec axcl.LoadSpec) (err error) {
		d, err := Open(k, 0)
		if err != nil {
			return err
		}
		defer func() {
			if e := d.Close(); err == nil {
				err = e
			} else {
				err = worse(err, e)
			}
		}()
		m, err := axcl.Load(context.Background(), d, spec)
		if err != nil {
			return err
		}
		return use(m)
	}
}

// stateLife sends a chunk into a slot, at once and row by row, rows from slot to slot and in place,
// and saves and restores states. A pass that failed has left what it went on from as it was.
func stateLife(m axcl.Model) error {
	s := m.Shape()
	sent, got := make([]byte, s.State), make([]byte, s.State)
	for i := range sent {
		sent[i] = byte(i*7) &^ 0x40
	}
	if err := m.RestoreState(1, 0, sent); err != nil {
		return err
	}
	for _, single := range []bool{false, true} {
		p := widePass(s, 5, 4)
		p.To, p.Single = 2, single
		if err := m.Run(p); err != nil {
			return err
		}
	}
	for _, slots := range [][2]uint32{{2, 3}, {2, 2}, {2, 2}} {
		p := rowPass(s, 5)
		p.From, p.To = slots[0], slots[1]
		if err := m.Run(p); err != nil {
			if !axcl.Fatal(err) && m.SaveState(1, 0, got) == nil && !bytes.Equal(got, sent) {
				return errors.New("a slot that no pass named is another")
			}
			return err
		}
	}
	if err := m.SaveState(1, 0, got); err != nil {
		return err
	}
	if !bytes.Equal(got, sent) {
		return errors.New("a state came home as another")
	}
	return nil
}

// sharedKVLife sends chunks that see no cell and some, a row, copies rows and clears cells.
func sharedKVLife(m axcl.Model) error {
	s := m.Shape()
	first, later := widePass(s, 3), widePass(s, 3, 2)
	for r := range later.Cell {
		later.Cell[r] += 3
		later.SeeCells[r*axcl.Words(s.Cells)] = 1<<3 - 1
	}
	for _, p := range []*axcl.Pass{first, later, rowPass(s, 6)} {
		p.HiddenOut = make([]uint16, len(p.Hidden))
		if err := m.Run(p); err != nil {
			return err
		}
		if !slices.Equal(p.HiddenOut, p.Hidden) {
			return errors.New("a model without weights gives other rows than it was given")
		}
	}
	if err := copyRows(m); err != nil {
		return err
	}
	return m.Clear([]uint32{2, 3})
}
