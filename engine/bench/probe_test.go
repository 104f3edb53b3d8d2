package bench

import (
	"context"
	"errors"
	"math"
	"testing"
	"time"

	"github.com/axle-llm/axle/axcl"
	"github.com/axle-llm/axle/axcl/axcltest"
)

func TestReadProbe(t *testing.T) {
	spec := func(layers int) axcl.LoadSpec { return axcl.LoadSpec{Layers: make([]string, layers), Head: "head"} }
	for _, argmax := range []bool{true, false} {
		for _, layers := range []int{2, 5, 36} {
			d := &ticking{rate: 21e9, layer: 15e6 + 8e6, head: 155e6, argmax: argmax}
			p, err := ReadProbe(t.Context(), d, spec(layers), 15e6, 8e6, 155e6, func() time.Duration { return d.now })
			if err != nil || math.Abs(p.Rate/21e9-1) > 1e-4 {
				t.Errorf("%d layers: %v, %v", layers, p, err)
			}
		}
	}
	d := &ticking{rate: 21e9, layer: 15e6, head: 155e6}
	clock := func() time.Duration { return d.now }
	for _, c := range []struct {
		name string
		spec axcl.LoadSpec
		head int64
	}{{"one layer", spec(1), 155e6}, {"no head", axcl.LoadSpec{Layers: make([]string, 4)}, 0}, {"a small head", spec(4), 9e6}} {
		if p, err := ReadProbe(t.Context(), d, c.spec, 15e6, 0, c.head, clock); err == nil {
			t.Errorf("%s: %v", c.name, p)
		}
	}
	d.head = 1
	if p, err := ReadProbe(t.Context(), d, spec(4), 15e6, 0, 155e6, clock); err == nil {
		t.Errorf("a head quicker than a layer: %v", p)
	}
	d.loads, d.full = 0, true
	if _, err := ReadProbe(t.Context(), d, spec(4), 15e6, 0, 155e6, clock); !errors.Is(err, axcl.ErrMemory) {
		t.Errorf("a full card: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	d.full = false
	if _, err := ReadProbe(ctx, d, spec(4), 15e6, 0, 155e6, clock); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
}

// ticking is a card on which each execute takes a millisecond and what it reads; only time passes.
type ticking struct {
	now         time.Duration
	rate        float64
	layer, head float64 // bytes
	loads       int
	full        bool
	argmax      bool
}

func (d *ticking) Info() (axcl.Info, error) { return axcl.Info{}, nil }

func (d *ticking) Close() error { return nil }

func (d *ticking) NewBuffer(int) (axcl.Buffer, error)    { return nil, axcl.ErrMemory }
func (d *ticking) LoadNet(path string) (axcl.Net, error) { return nil, axcl.ErrModel }

func (d *ticking) Loader(spec axcl.LoadSpec) (axcl.Loader, error) {
	if d.loads++; d.full && d.loads > 1 {
		return nil, axcl.ErrMemory
	}
	return axcltest.LoadSteps(nil, func(context.Context, int) (axcl.Model, error) { return d.load(spec), nil }), nil
}

func (d *ticking) load(spec axcl.LoadSpec) axcl.Model {
	s := axcl.Shape{Layers: len(spec.Layers), Hidden: 4, KV: 2, Cells: 8, Groups: []axcl.Group{{Rows: 1, Cells: 8}}, Argmax: d.argmax}
	if spec.Head != "" {
		s.Out = 10
	}
	return &tickingModel{d, s}
}

type tickingModel struct {
	d *ticking
	s axcl.Shape
}

func (m *tickingModel) Shape() axcl.Shape { return m.s }

func (m *tickingModel) Close() error { return nil }

func (*tickingModel) Clear([]uint32) error { return nil }

func (m *tickingModel) Save(cells []uint32, to []byte) error { return m.s.CheckRows(cells, len(to)) }

func (m *tickingModel) Restore(cells []uint32, b []byte) error {
	return m.s.CheckRows(cells, len(b))
}

func (m *tickingModel) Head(rows, logits []uint16) error {
	return m.s.CheckHead(len(rows), len(logits))
}

func (m *tickingModel) SaveState(slot uint32, at int, to []byte) error {
	return m.s.CheckState(slot, at, len(to))
}

func (m *tickingModel) RestoreState(slot uint32, at int, b []byte) error {
	return m.s.CheckState(slot, at, len(b))
}

func (m *tickingModel) Copy(to, from []uint32) error { return m.s.CheckCopy(to, from) }

func (m *tickingModel) Run(p *axcl.Pass) error {
	if err := p.Check(m.s); err != nil {
		return err
	}
	took := float64(m.s.Layers)*(1e6+m.d.layer/m.d.rate*1e9) + float64(len(p.Want))*(1e6+m.d.head/m.d.rate*1e9)
	m.d.now += 70*time.Microsecond + time.Duration(took)
	return nil
}
