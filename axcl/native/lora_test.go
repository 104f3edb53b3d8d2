//go:build cgo && !fake && linux

package native

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"testing"

	"github.com/axle-llm/axle/axcl"
	"github.com/axle-llm/axle/axcl/axcltest"
	"github.com/axle-llm/axle/axcl/native/simhook"
	"github.com/axle-llm/axle/axcl/soft"
)

// TestAdapters: with each of its adapters and with none a model gives what the software card gives,
// in narrow and wide passes and after every change from one to another; without one it gives what
// the model gives that takes none. A change binds the inputs of the pass's group, and only a change
// does.
func TestAdapters(t *testing.T) {
	trace := filepath.Join(t.TempDir(), "trace")
	y := axcltest.DefaultTiny()
	plain := write(t, y)
	y.Rank = 4
	spec := write(t, y)
	spec.Adapters = []func(int) ([]byte, error){y.Adapter(1), y.Adapter(2)}
	softly, err := soft.Open(soft.Options{Threads: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer softly.Close()
	load := func(d axcl.Device, spec axcl.LoadSpec) axcl.Model {
		m, err := axcl.Load(context.Background(), d, spec)
		if err != nil {
			t.Fatal(err)
		}
		return m
	}
	want, bare := load(softly, spec), load(softly, plain)
	onCard(t, "trace="+trace, func(t *testing.T, k Kind, _ *simhook.Sim) {
		d := open(t, k)
		defer closeAll(t, d)
		m := load(d, spec)
		s := m.Shape()
		if s.Adapters != 2 || want.Shape().Adapters != 2 || bare.Shape().Adapters != 0 {
			t.Fatalf("%d adapters", s.Adapters)
		}
		run := func(m axcl.Model, p *axcl.Pass) []uint16 {
			t.Helper()
			if err := m.Run(p); err != nil {
				t.Fatal(err)
			}
			return slices.Clone(p.Logits)
		}
		var last []uint16
		for i, adapter := range []int{0, 1, 1, 2, 0, 2, 1} {
			for _, p := range []*axcl.Pass{widePass(s, 5, 4), rowPass(s, 5)} {
				p.Adapter = adapter
				before := 0
				if k == AXCL {
					before = len(traceNames(t, trace))
				}
				got := run(m, p)
				if k == AXCL {
					bound := 0
					for _, name := range traceNames(t, trace)[before:] {
						if name == "SetInputBufferByIndex" {
							bound++
						}
					}
					if changed := i > 0 && i != 2; bound != map[bool]int{true: 14 * y.Layers}[changed] {
						t.Errorf("pass %d, adapter %d: %d inputs bound", i, adapter, bound)
					}
				}
				ref := run(want, p)
				if off := axcltest.Distance(got, ref); off > 0.02 {
					t.Errorf("pass %d, adapter %d: %g from the software card's", i, adapter, off)
				}
				if adapter == 0 {
					if off := axcltest.Distance(got, run(bare, p)); off > 0.02 {
						t.Errorf("without an adapter: %g from a model's that takes none", off)
					}
				}
				if p.Rows() > 1 {
					continue
				}
				if last != nil && (i == 2) != (axcltest.Distance(got, last) < 0.02) {
					t.Errorf("pass %d: adapters that differ give the same, or one gives another", i)
				}
				last = got
			}
		}
		p := rowPass(s, 3)
		for _, p.Adapter = range []int{-1, 3} {
			if err := m.Run(p); !errors.Is(err, axcl.ErrPass) {
				t.Errorf("adapter %d: %v", p.Adapter, err)
			}
		}
	})
}

// TestAdaptersFail: a change that fails midway ends its pass, and the next one binds all anew.
func TestAdaptersFail(t *testing.T) {
	y := axcltest.DefaultTiny()
	y.Rank = 4
	spec := write(t, y)
	spec.Adapters = []func(int) ([]byte, error){y.Adapter(1)}
	onCard(t, "", func(t *testing.T, k Kind, sim *simhook.Sim) {
		if k == Engine {
			t.Skip("on board an input is bound by its address, which no call of the library sees")
		}
		d := open(t, k)
		defer closeAll(t, d)
		m, err := axcl.Load(context.Background(), d, spec)
		if err != nil {
			t.Fatal(err)
		}
		p := widePass(m.Shape(), 5, 4)
		var want [2][]uint16
		for _, p.Adapter = range []int{0, 1, 0} {
			if err := m.Run(p); err != nil {
				t.Fatal(err)
			}
			want[p.Adapter] = slices.Clone(p.Logits)
		}
		for _, nth := range []int{1, 15} { // of 14 for each layer
			p.Adapter = 1
			configure(t, sim, fmt.Sprintf("fault=SetInputBufferByIndex:%d:0x80300703", nth))
			var e *axcl.Error
			if err := m.Run(p); !errors.As(err, &e) || axcl.Fatal(err) || e.Layer != nth/14 {
				t.Errorf("input %d: %v", nth, err)
			}
			configure(t, sim, "")
			for _, p.Adapter = range []int{0, 1, 0} {
				if err := m.Run(p); err != nil || !slices.Equal(p.Logits, want[p.Adapter]) {
					t.Errorf("after input %d, adapter %d: %v, or other logits", nth, p.Adapter, err)
				}
			}
		}
	})
}

// TestAdaptersRefused: an adapter of another size, one that cannot be read, and one for a model
// that takes none end the load, and leave nothing on the card.
func TestAdaptersRefused(t *testing.T) {
	y := axcltest.DefaultTiny()
	plain := write(t, y)
	y.Rank = 4
	spec := write(t, y)
	lost := errors.New("unreadable")
	give := y.Adapter(1)
	short := func(layer int) ([]byte, error) {
		b, err := give(layer)
		return b[:len(b)-2*layer], err
	}
	onCard(t, "", func(t *testing.T, k Kind, _ *simhook.Sim) {
		d := open(t, k)
		defer closeAll(t, d)
		softly, err := soft.Open(soft.Options{Threads: 1})
		if err != nil {
			t.Fatal(err)
		}
		defer softly.Close()
		for _, d := range []axcl.Device{d, softly} {
			for _, tt := range []struct {
				spec axcl.LoadSpec
				give func(int) ([]byte, error)
				want error
			}{{plain, give, axcl.ErrModel}, {spec, short, axcl.ErrModel}, {spec, func(int) ([]byte, error) { return nil, lost }, lost}} {
				tt.spec.Adapters = []func(int) ([]byte, error){tt.give}
				if _, err := axcl.Load(context.Background(), d, tt.spec); !errors.Is(err, tt.want) {
					t.Errorf("%v, want %v", err, tt.want)
				}
			}
		}
	})
}
