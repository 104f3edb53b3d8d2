package bench

import (
	"strings"
	"testing"
	"time"

	"github.com/axle-llm/axle/axcl"
	"github.com/axle-llm/axle/axcl/axcltest"
	"github.com/axle-llm/axle/axcl/soft"
	"github.com/axle-llm/axle/axmodel/axmodeltest"
	"github.com/axle-llm/axle/axmodel/compile"
)

// TestApart: a device that runs layer by layer is a device like any other, but for layers that use
// the K and V of others, which it refuses.
func TestApart(t *testing.T) {
	for _, c := range axcltest.Checks(axcltest.Options{Open: func() (axcl.Device, error) { return apart(t), nil }}) {
		if strings.Contains(c.Name, "lent") {
			continue
		}
		t.Run(c.Name, func(t *testing.T) { c.Run(t) })
	}
	for _, arch := range []string{"qwen3", "gemma3"} { // gemma3 has local layers
		d := apart(t)
		r, err := axmodeltest.Against(d, t.TempDir(), arch, 1, compile.Options{})
		if err != nil {
			t.Fatal(err)
		}
		if r.Cosine < 0.9999 || r.Wrong > 0 {
			t.Errorf("%s: %v", arch, r)
		}
		_ = d.Close()
	}
}

func apart(t testing.TB) *Apart {
	t.Helper()
	d, err := soft.Open(soft.Options{Threads: 2})
	if err != nil {
		t.Fatal(err)
	}
	start := time.Now()
	return &Apart{Device: d, Clock: func() time.Duration { return time.Since(start) }}
}

// TestApartTimes: each layer's time is its own, and the head's what the last run takes longer.
func TestApartTimes(t *testing.T) {
	inner := &ticking{rate: 1e9, layer: 2e6, head: 7e6}
	d := &Apart{Device: inner, Clock: func() time.Duration { return inner.now }}
	m, err := axcl.Load(t.Context(), d, axcl.LoadSpec{Layers: make([]string, 3), Head: "head"})
	if err != nil {
		t.Fatal(err)
	}
	s := m.Shape()
	if s.Layers != 3 || s.Out != 10 {
		t.Fatalf("%+v", s)
	}
	p, err := row(s)
	if err != nil {
		t.Fatal(err)
	}
	// A run takes 70 us, a layer 3 ms, the head 8.
	const layer, head = 3070 * time.Microsecond, 8 * time.Millisecond
	for range 2 {
		if err := m.Run(p); err != nil {
			t.Fatal(err)
		}
		l := d.Last()
		if len(l.Layers) != 3 || l.Layers[0] != layer || l.Layers[2] != layer || l.Head != head || l.Again != layer {
			t.Errorf("%+v", l)
		}
		if got := (&Pass{Apart: l}).parts(nil); got.Layers != 3*layer || got.Head != head || got.Again != layer || got.Upload != 0 {
			t.Errorf("%+v", got)
		}
	}
	p.Want, p.Logits = nil, nil
	if err := m.Run(p); err != nil {
		t.Fatal(err)
	}
	if l := d.Last(); len(l.Layers) != 3 || l.Head != 0 || l.Again != 0 {
		t.Errorf("without a head: %+v", l)
	}
}
