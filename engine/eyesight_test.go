package engine

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/axle-llm/axle/axcl"
	"github.com/axle-llm/axle/axcl/axcltest"
	"github.com/axle-llm/axle/axcl/cards"
	"github.com/axle-llm/axle/axmodel/axmodeltest"
)

// TestProbes: of models with random weights the nine probes find all right but what colours are
// called.
func TestProbes(t *testing.T) { testProbes(t, openSoft) } //proves:G21

func testProbes(t *testing.T, open func() (axcl.Device, string, error)) {
	for _, a := range axmodeltest.SightArchs() {
		t.Run(a.Name, func(t *testing.T) {
			dir, _ := sightPackage(t, a)
			m, _ := load(t, dir, open, OpenOptions{})
			want := []cards.State{cards.OK, cards.Problem, cards.Problem, cards.OK, cards.OK, cards.OK, cards.OK, cards.OK, cards.OK}
			if len(a.Sight.Deep) == 0 {
				want[4] = cards.Note
			}
			if a.Interval > 0 {
				want[8] = cards.Note // each text has a state of its own, and goes alone
			}
			expect(t, m, want)
			expect(t, m, want) // what was probed goes on as before
		})
	}
}

func expect(t *testing.T, m *Model, want []cards.State) {
	t.Helper()
	var got []Probe
	if err := m.ProbeSight(context.Background(), func(p Probe) { got = append(got, p) }); err != nil {
		t.Fatal(err)
	}
	for i, p := range got {
		t.Logf("%d %s %s: %s -> %s", i+1, p.State, p.Name, p.Gave, p.Means)
		if i >= len(want) || p.State != want[i] || p.Name == "" || p.Gave == "" || p.Means == "" {
			t.Errorf("probe %d: %+v", i+1, p)
		}
	}
	if len(got) != len(want) {
		t.Errorf("%d probes, want %d", len(got), len(want))
	}
}

// TestProbesFind: a card or an engine that gets pictures wrong is found out by the probe that is
// about it.
func TestProbesFind(t *testing.T) {
	dir, _ := sightPackage(t, axmodeltest.SightArchs()[0])
	for name, c := range map[string]struct {
		spoil func(*axcl.Pass)
		probe int
	}{
		"what is added between layers is lost": {func(p *axcl.Pass) { p.Add, p.Added = nil, nil }, 5},
		"positions go wrong in the middle of a picture": {func(p *axcl.Pass) {
			if n := len(p.Pos); p.Pos[0] != p.Pos[1] && n > 3 { // the first row is in the midst of a grid
				for i := range n / 3 {
					p.Pos[3*i+1] += 5
				}
			}
		}, 7},
	} {
		t.Run(name, func(t *testing.T) {
			m, _ := load(t, dir, func() (axcl.Device, string, error) {
				d, why, err := openSoft()
				return &spoiling{d, c.spoil}, why, err
			}, OpenOptions{})
			var got []Probe
			if err := m.ProbeSight(context.Background(), func(p Probe) { got = append(got, p) }); err != nil {
				t.Fatal(err)
			}
			if p := got[c.probe-1]; p.State != cards.Problem {
				t.Errorf("probe %d: %+v", c.probe, p)
			}
		})
	}
	m, b := load(t, dir, openSoft, OpenOptions{})
	err := b.card.Do(context.Background(), func(axcl.Device) error { // the worker reads them
		enc := b.m.pictures.encoder.enc
		b.m.pictures.encoder, b.m.pictures.blind = nil, errors.New("no room")
		return enc.Close()
	})
	if err != nil {
		t.Fatal(err)
	}
	err = m.ProbeSight(context.Background(), func(Probe) {})
	if !errors.Is(err, ErrUnsupported) || !strings.Contains(err.Error(), "no room") {
		t.Errorf("one that cannot see: %v", err)
	}
}

// spoiling is a card that does something else than it was asked for.
type spoiling struct {
	axcl.Device
	spoil func(*axcl.Pass)
}

func (d *spoiling) Loader(spec axcl.LoadSpec) (axcl.Loader, error) {
	l, err := d.Device.Loader(spec)
	return axcltest.LoadAs(l, err, func(m axcl.Model) axcl.Model { return &spoiledModel{m, d.spoil} })
}

type spoiledModel struct {
	axcl.Model
	spoil func(*axcl.Pass)
}

func (m *spoiledModel) Run(p *axcl.Pass) error {
	wrong := *p
	wrong.Pos = slices.Clone(p.Pos)
	m.spoil(&wrong)
	return m.Model.Run(&wrong)
}

// TestVerdicts: what a model said of colours and corners is told apart.
func TestVerdicts(t *testing.T) {
	for _, c := range []struct {
		red, blue, means string
		state            cards.State
	}{
		{"Red.", "It is **blue**", "the encoder's order", cards.OK},
		{"The picture is blue", "Red", "exchanged", cards.Problem},
		{"", "\ufffd\ufffd", "no colour", cards.Problem},
		{"red", "black", "named wrong", cards.Problem},
	} {
		if p := judgeColours(c.red, c.blue); p.State != c.state || !strings.Contains(p.Means, c.means) {
			t.Errorf("%q, %q: %+v", c.red, c.blue, p)
		}
	}
	for _, c := range []struct {
		said  []string
		means string
		state cards.State
	}{
		{[]string{"Red", "a green field", "blue", "Yellow, not red"}, "where they belong", cards.OK},
		{[]string{"green", "red", "yellow", "blue"}, "left and right", cards.Problem},
		{[]string{"blue", "yellow", "red", "green"}, "top and bottom", cards.Problem},
		{[]string{"red", "blue", "green", "yellow"}, "rows and columns", cards.Problem},
		{[]string{"yellow", "blue", "green", "red"}, "both sides", cards.Problem},
		{[]string{"red", "green", "blue", "orange"}, "one of four", cards.Note},
		{[]string{"red", "red", "red", "red"}, "1 of 4", cards.Problem},
	} {
		if p := judgeQuarters(c.said); p.State != c.state || !strings.Contains(p.Means, c.means) {
			t.Errorf("%q: %+v", c.said, p)
		}
	}
	if d, away, ok := near([]float32{1, 0}, []float32{1, 0}, []float32{1, 0}); ok || d != 0 || away != 0 {
		t.Error("what cannot be told from a wrong answer is right")
	}
}
