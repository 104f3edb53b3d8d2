//go:build cgo && !fake && linux

package native

import (
	"context"
	"errors"
	"path/filepath"
	"slices"
	"testing"

	"github.com/axle-llm/axle/axcl"
	"github.com/axle-llm/axle/axcl/axcltest"
	"github.com/axle-llm/axle/axcl/native/simhook"
)

// TestSharedKVCalls: what a pass asks of a library where layers use the K and V of others and have
// layer inputs: an upload for each layer's inputs; of each layer whose K and V are shared a copy of
// K and of V, from behind its cache to its cell, for one row, and four for a chunk that sees fewer
// cells than there are.
func TestSharedKVCalls(t *testing.T) {
	trace := filepath.Join(t.TempDir(), "trace")
	onCard(t, "trace="+trace, func(t *testing.T, k Kind, _ *simhook.Sim) {
		if k == Engine {
			t.Skip("on board the copies are the CPU's own, the library does not see them")
		}
		y := axcltest.DefaultGemma4()
		d := open(t, k)
		m, err := axcl.Load(context.Background(), d, write(t, y))
		if err != nil {
			t.Fatal(err)
		}
		s := m.Shape()
		if !s.Place {
			t.Fatal("rows are not placed")
		}
		calls := func(p *axcl.Pass) []string {
			p.Want, p.Logits = nil, nil
			if err := m.Run(p); err != nil { // once, so that the mask is there
				t.Fatal(err)
			}
			before := len(traceNames(t, trace))
			if err := m.Run(p); err != nil {
				t.Fatal(err)
			}
			return traceNames(t, trace)[before:]
		}
		copies := func(n int) []string { return slices.Repeat([]string{"MemcpyAsync"}, n) }
		layers := func(shared int) (all []string) {
			for l := range y.Layers {
				if all = append(all, "ExecuteAsync"); l == 1 || l == 2 { // the last of either length before the three that use others'
					all = append(all, copies(shared)...)
				}
			}
			return all
		}
		sync := []string{"SynchronizeStreamWithTimeout"}
		want := slices.Concat(copies(2+y.Layers), layers(2), sync)
		if got := calls(rowPass(s, 3)); !slices.Equal(got, want) {
			t.Errorf("a row:\n%q, want\n%q", got, want)
		}
		first, later := widePass(s, 5), widePass(s, 5)
		for r := range later.Cell {
			later.Cell[r] += 5
			later.SeeCells[r*axcl.Words(s.Cells)] = 1<<5 - 1
		}
		home := slices.Concat(copies(2*(y.Layers-y.Shared)), sync)
		for name, p := range map[string]*axcl.Pass{"two copies of a chunk that sees no cell": first, "four of one that sees some": later} {
			n := 4
			if p == first {
				n = 2
			}
			if got, want := calls(p), slices.Concat(copies(2+y.Layers), layers(n), home); !slices.Equal(got, want) {
				t.Errorf("%s:\n%q, want\n%q", name, got, want)
			}
		}
		// To another cell nothing is bound anew but the rows of the one layer that shares none.
		p, before := rowPass(s, 4), 0
		before = len(traceNames(t, trace))
		p.Want, p.Logits = nil, nil
		if err := m.Run(p); err != nil {
			t.Fatal(err)
		}
		bound := 0
		for _, name := range traceNames(t, trace)[before:] {
			if name == "SetOutputBufferByIndex" {
				bound++
			}
		}
		if bound != 2 {
			t.Errorf("%d buffers were bound for a row in another cell, not 2", bound)
		}
		closeAll(t, d)
	})
}

// TestSharedKVFails: a copy that fails between layers, or an upload of a layer's inputs, is
// named with its layer, and the next pass is as if it had not been.
func TestSharedKVFails(t *testing.T) {
	onCard(t, "", func(t *testing.T, k Kind, sim *simhook.Sim) {
		d := open(t, k)
		defer closeAll(t, d)
		m, err := axcl.Load(context.Background(), d, write(t, axcltest.DefaultGemma4()))
		if err != nil {
			t.Fatal(err)
		}
		s := m.Shape()
		for i, p := range []*axcl.Pass{widePass(s, 5, 4), rowPass(s, 5)} {
			if err := m.Run(p); err != nil {
				t.Fatal(err)
			}
			want := slices.Clone(p.Logits)
			// Rows and positions go up, then the inputs of each of the six layers; layers 1 and 2
			// share their K and V.
			faults := map[string]int{"MemcpyAsync:2": 0, "MemcpyAsync:7": 5, "MemcpyAsync:8": 1, "MemcpyAsync:9": 1, "MemcpyAsync:10": 2}
			if k == Engine {
				faults = map[string]int{"MflushCache:2": 0, "MflushCache:7": 5, "MflushCache:8": 1, "MflushCache:9": 1, "MflushCache:10": 2}
			}
			for what, layer := range faults {
				configure(t, sim, "fault="+what+":0x80300703")
				var e *axcl.Error
				if err := m.Run(p); !errors.As(err, &e) || axcl.Fatal(err) || e.Layer != layer || e.Code != 0x80300703 {
					t.Errorf("pass %d, %s: %v, want layer %d", i, what, err, layer)
				}
				configure(t, sim, "")
				if err := m.Run(p); err != nil || !slices.Equal(p.Logits, want) {
					t.Errorf("pass %d, after a failed %s: %v, or other logits", i, what, err)
				}
			}
		}
	})
}
