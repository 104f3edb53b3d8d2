//go:build cgo && !fake && linux

package native

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/axle-llm/axle/axcl"
	"github.com/axle-llm/axle/axcl/axcltest"
	"github.com/axle-llm/axle/axcl/native/simhook"
)

// TestAddCalls: a pass that adds nothing between layers makes the calls written down here, which
// are those of a card that has never heard of additions; one that does makes three more after each
// of its layers, on board as many as its copies take, and nothing else changes. Both are one call
// into C, which allocates nothing.
func TestAddCalls(t *testing.T) {
	for _, k := range kinds {
		t.Run(string(k), func(t *testing.T) {
			runtime.LockOSThread()
			defer runtime.UnlockOSThread()
			sim := sims[k]
			defer func() {
				if err := sim.Reset(); err != nil {
					t.Error(err)
				}
			}()
			trace := filepath.Join(t.TempDir(), "trace")
			configure(t, sim, "trace="+trace)
			y := axcltest.DefaultTiny()
			y.Layers = 3
			d := open(t, k)
			m, err := axcl.Load(context.Background(), d, write(t, y))
			if err != nil {
				t.Fatal(err)
			}
			s := m.Shape()
			calls := func(p *axcl.Pass) []string {
				if err := m.Run(p); err != nil { // once, so that the mask is there
					t.Fatal(err)
				}
				before := len(traceNames(t, trace))
				if err := m.Run(p); err != nil {
					t.Fatal(err)
				}
				return traceNames(t, trace)[before:]
			}
			up, down, layer := []string{"MemcpyAsync"}, []string{"MemcpyAsync"}, []string{"ExecuteAsync"}
			keep := []string{"MemcpyAsync"}
			sync := []string{"SynchronizeStreamWithTimeout"}
			if k == Engine {
				up, down, layer = []string{"MinvalidateCache", "MflushCache"}, []string{"MinvalidateCache"}, []string{"RunGroupIOSync"}
				keep, sync = []string{"MinvalidateCache", "MinvalidateCache", "MflushCache"}, nil
			}
			for _, tt := range []struct {
				name     string
				pass     *axcl.Pass
				from, to uint32
			}{{"a row", rowPass(s, 3), 0, 0}, {"rows", widePass(s, 5), 1, 3}} {
				tt.pass.HiddenOut = make([]uint16, len(tt.pass.Hidden))
				tt.pass.Want, tt.pass.Logits = nil, nil
				plain := calls(tt.pass)
				var want, added []string
				take := func(names ...[]string) {
					want, added = append(want, slices.Concat(names...)...), append(added, slices.Concat(names...)...)
				}
				take(up, up) // rows and positions
				for l := range y.Layers {
					take(layer)
					if l != 1 {
						added = append(added, slices.Concat(down, sync, up)...)
					}
				}
				take(down)
				if tt.name == "rows" { // K and V go home
					take(keep, keep, keep, keep, keep, keep)
				}
				take(sync)
				if !slices.Equal(plain, want) {
					t.Errorf("%s, nothing added:\n%q, want\n%q", tt.name, plain, want)
				}
				withAdd(s, tt.pass, tt.from, tt.to)
				if got := calls(tt.pass); !slices.Equal(got, added) {
					t.Errorf("%s, with additions:\n%q, want\n%q", tt.name, got, added)
				}
				into := runtime.NumCgoCall()
				const runs = 4
				allocs := testing.AllocsPerRun(runs, func() {
					if err := m.Run(tt.pass); err != nil {
						t.Error(err)
					}
				})
				if crossed := runtime.NumCgoCall() - into; allocs != 0 || crossed != runs+1 {
					t.Errorf("%s, with additions: %v allocations, %d calls into C for %d", tt.name, allocs, crossed, runs+1)
				}
				tt.pass.Add, tt.pass.Added = nil, nil
				if got := calls(tt.pass); !slices.Equal(got, want) {
					t.Errorf("%s, nothing added any more:\n%q, want\n%q", tt.name, got, want)
				}
			}
			closeAll(t, d)
		})
	}
}

// withAdd gives a pass something to add: after layer 0 to rows from and to, after layer 2 to row
// from.
func withAdd(s axcl.Shape, p *axcl.Pass, from, to uint32) *axcl.Pass {
	p.Add = []axcl.Addition{{Layer: 0, Row: from}, {Layer: 0, Row: to}, {Layer: 2, Row: from}}
	if from == to {
		p.Add = []axcl.Addition{{Layer: 0, Row: from}, {Layer: 2, Row: from}}
	}
	p.Added = axcltest.Rows(9, len(p.Add), s.Hidden)
	return p
}

// traceNames are the calls in a trace, without what their names begin with.
func traceNames(t *testing.T, file string) (names []string) {
	t.Helper()
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.SplitSeq(string(b), "\n") {
		f := strings.SplitN(line, " ", 4)
		if len(f) < 4 || strings.HasPrefix(line, "#") || !strings.Contains(f[3], "(") {
			continue
		}
		name, _, _ := strings.Cut(f[3], "(")
		for _, prefix := range []string{"axclrtEngine", "axclrt", "AX_ENGINE_", "AX_SYS_"} {
			if rest, ok := strings.CutPrefix(name, prefix); ok {
				name = rest
				break
			}
		}
		names = append(names, name)
	}
	return names
}

// TestAddFails: a copy that fails while rows are added to is named with its layer, and the next
// pass is as if it had not been.
func TestAddFails(t *testing.T) {
	onCard(t, "", func(t *testing.T, k Kind, sim *simhook.Sim) {
		y := axcltest.DefaultTiny()
		y.Layers = 3
		d := open(t, k)
		defer closeAll(t, d)
		m, err := axcl.Load(context.Background(), d, write(t, y))
		if err != nil {
			t.Fatal(err)
		}
		s := m.Shape()
		pass := func() *axcl.Pass { return withAdd(s, widePass(s, 5, 4), 1, 3) }
		want := pass()
		if err := m.Run(want); err != nil {
			t.Fatal(err)
		}
		// After layer 0 rows come down and go up, after layer 2 they come down; before that come
		// the rows' and the positions' uploads.
		faults := map[string]int{"MemcpyAsync:2": 0, "MemcpyAsync:3": 0, "MemcpyAsync:4": 2}
		if k == Engine {
			faults = map[string]int{"MinvalidateCache:2": 0, "MflushCache:2": 0, "MinvalidateCache:4": 2, "MflushCache:3": 2}
		}
		for what, layer := range faults {
			configure(t, sim, "fault="+what+":0x80300703")
			var e *axcl.Error
			if err := m.Run(pass()); !errors.As(err, &e) || axcl.Fatal(err) || e.Layer != layer || e.Code != 0x80300703 {
				t.Errorf("%s: %v, want layer %d", what, err, layer)
			}
			configure(t, sim, "")
			got := pass()
			if err := m.Run(got); err != nil || !slices.Equal(got.Logits, want.Logits) {
				t.Errorf("after a failed %s: %v, or other logits", what, err)
			}
		}
	})
}

// TestAddHangs: the wait between layers has the pass's time-out.
func TestAddHangs(t *testing.T) {
	onCard(t, "", func(t *testing.T, k Kind, sim *simhook.Sim) {
		if k == Engine {
			t.Skip("on board the copies are this processor's own")
		}
		y := axcltest.DefaultTiny()
		y.Layers = 3
		spec := write(t, y)
		spec.Timeout = 300 * time.Millisecond
		d := open(t, k)
		m, err := axcl.Load(context.Background(), d, spec)
		if err != nil {
			t.Fatal(err)
		}
		configure(t, sim, "fault=ExecuteAsync:0:hang")
		if err := m.Run(withAdd(m.Shape(), widePass(m.Shape(), 5), 1, 3)); !errors.Is(err, axcl.ErrTimeout) || !axcl.Fatal(err) {
			t.Fatalf("a layer that hangs gave %v", err)
		}
		if err := d.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
}

// TestAddRounds: between layers that change nothing the sums are those of axcl.Sum, bit for bit,
// NaN and infinities among them.
func TestAddRounds(t *testing.T) {
	onCard(t, "", func(t *testing.T, k Kind, _ *simhook.Sim) {
		d := open(t, k)
		defer closeAll(t, d)
		spec := sweepModel(t)
		spec.Layers = spec.Layers[:3]
		m, err := axcl.Load(context.Background(), d, spec)
		if err != nil {
			t.Fatal(err)
		}
		p := widePass(m.Shape(), 3)
		p.HiddenOut = make([]uint16, len(p.Hidden))
		withAdd(m.Shape(), p, 0, 2)
		for i, v := range []uint16{0x7f80, 0x7fc0, 0xff80, 0x7f7f, 0x0001, 0x8000} {
			p.Added[i] = v
		}
		if err := m.Run(p); err != nil {
			t.Fatal(err)
		}
		if err := addedRight(m.Shape(), p); err != nil {
			t.Error(err)
		}
	})
}
