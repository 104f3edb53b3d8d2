package axcltest

import (
	"testing"

	"github.com/axle-llm/axle/axcl"
	"github.com/axle-llm/axle/axcl/soft"
)

func TestSoft(t *testing.T) {
	for _, c := range Checks(Options{Open: func() (axcl.Device, error) { return soft.Open(soft.Options{CMM: 64 << 20}) }}) {
		t.Run(c.Name, func(t *testing.T) { c.Run(t) })
	}
}

// TestPackage: what a user's card is put through with a vendor's model, on a card that can do
// everything.
func TestPackage(t *testing.T) {
	spec, err := DefaultTiny().Write(t.TempDir(), "tiny")
	if err != nil {
		t.Fatal(err)
	}
	d := openSoft(t)
	if a := CheckPackage(t, d, spec, func(hidden int, token uint64) []uint16 { return Rows(token, 1, hidden) }); a !=
		(Abilities{Wide: true, Chunk: true, Mixed: true, Scatter: true, Place: true, Ordered: true, Anywhere: true}) {
		t.Errorf("%+v", a)
	}
}

// staleModel gives the cells of its second and further wide passes what the pass before had for
// them.
type staleModel struct {
	axcl.Model
	last []byte
}

func (m *staleModel) Run(p *axcl.Pass) error {
	if err := m.Model.Run(p); err != nil || p.Rows() == 1 {
		return err
	}
	now := make([]byte, p.Rows()*m.Shape().RowBytes())
	if err := m.Save(p.Cell, now); err != nil {
		return err
	}
	stale := append([]byte(nil), now...)
	copy(stale, m.last)
	m.last = now
	return m.Restore(p.Cell, stale)
}

// TestTryWide (G23): a card whose second wide pass keeps the first one's rows is found to lack wide
// passes, not only short ones.
func TestTryWide(t *testing.T) {
	//proves:G23
	spec, err := DefaultTiny().Write(t.TempDir(), "tiny")
	if err != nil {
		t.Fatal(err)
	}
	d := openSoft(t)
	a, lacks, err := Try(&staleModel{Model: load(t, d, spec)}, func(token uint64) []uint16 { return Rows(token, 1, DefaultTiny().Hidden) })
	if err != nil || a.Wide || a.Chunk || a.Mixed || len(lacks) == 0 {
		t.Errorf("%+v, %q, %v", a, lacks, err)
	}
}
