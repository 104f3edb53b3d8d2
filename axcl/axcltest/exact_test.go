package axcltest

import (
	"strings"
	"testing"

	"github.com/axle-llm/axle/axcl"
	"github.com/axle-llm/axle/axcl/soft"
	"github.com/axle-llm/axle/internal/lane"
)

// TestExactFigures: in each check that plays scripts, over every form of model, the software card's
// rows are about as far from exact ones as bf16 arithmetic is. A card that is less precise passes,
// and is well further off.
func TestExactFigures(t *testing.T) {
	lane.NoRace(t)
	check := func(t *testing.T, c Check) Figures {
		m := &measured{T: t}
		c.Run(m)
		return m.figures
	}
	open := func() (axcl.Device, error) { return soft.Open(soft.Options{CMM: 64 << 20}) }
	poor := Checks(Options{Open: func() (axcl.Device, error) {
		d, err := open()
		return coarse{d}, err
	}})
	n := 0
	for i, c := range Checks(Options{Open: open}) {
		plays := strings.HasPrefix(c.Name, "model/") || strings.HasPrefix(c.Name, "rows copied") || c.Name == "no head"
		if !plays {
			continue
		}
		n++
		t.Run(c.Name, func(t *testing.T) {
			f := check(t, c)
			// bf16 has eight bits: a row that is rounded once is 0.2 % off. Models with states of
			// bf16 are asked for less, as Same is.
			most := 0.02
			if strings.Contains(c.Name, "bf16 states") {
				most = 0.08
			}
			if f.BF16 < 0.001 || f.BF16 > most || f.Card < f.BF16/2 || f.Card > 1.5*f.BF16 {
				t.Errorf("%+v", f)
			}
		})
		if c.Name == "no head" || c.Name == "rows copied instead of placed" {
			t.Run(c.Name+", a coarse card", func(t *testing.T) {
				if f := check(t, poor[i]); f.Card < 1.7*f.BF16 {
					t.Errorf("%+v", f)
				}
			})
		}
	}
	if n < 15 {
		t.Errorf("%d checks", n)
	}
}

// TestDistance: the length of the difference, and the furthest there is for what is no number.
func TestDistance(t *testing.T) {
	nan := uint16(0x7fc0)
	b := axcl.BFloat16
	for _, tt := range []struct {
		got, want []uint16
		is        float64
	}{{[]uint16{b(3), b(4)}, []uint16{b(3), b(4)}, 0}, {[]uint16{b(3), b(5)}, []uint16{b(3), b(4)}, 0.2}, {[]uint16{0}, []uint16{0}, 0},
		{[]uint16{b(1)}, []uint16{0}, Furthest}, {[]uint16{nan}, []uint16{b(1)}, Furthest}, {[]uint16{b(1)}, []uint16{nan}, Furthest}} {
		if d := Distance(tt.got, tt.want); d != tt.is {
			t.Errorf("%v, %v: %v", tt.got, tt.want, d)
		}
	}
}

// measured is a test that remembers the largest figures of a check.
type measured struct {
	*testing.T
	figures Figures
	rows    [][]uint16
}

func (m *measured) Measure(f Figures) {
	m.figures = Figures{max(m.figures.Card, f.Card), max(m.figures.BF16, f.BF16)}
}

func (m *measured) Sample(rows [][]uint16) { m.rows = rows }

// coarse is a card that keeps five bits of a hidden state's fraction where bf16 has seven.
type coarse struct{ axcl.Device }

func (d coarse) Loader(spec axcl.LoadSpec) (axcl.Loader, error) {
	l, err := d.Device.Loader(spec)
	return LoadAs(l, err, func(m axcl.Model) axcl.Model { return coarseModel{m} })
}

type coarseModel struct{ axcl.Model }

func (m coarseModel) Run(p *axcl.Pass) error {
	err := m.Model.Run(p)
	if p == nil {
		return err
	}
	for i, v := range p.HiddenOut {
		p.HiddenOut[i] = (v + 2) &^ 3
	}
	return err
}
