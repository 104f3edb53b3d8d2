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

// TestPackage: what a user's card is put through with a vendor's model, on a card that can do everything.
func TestPackage(t *testing.T) {
	spec, err := DefaultTiny().Write(t.TempDir(), "tiny")
	if err != nil {
		t.Fatal(err)
	}
	d := openSoft(t)
	if a := CheckPackage(t, d, spec, func(hidden int, token uint64) []uint16 { return Rows(token, 1, hidden) }); a !=
		(Abilities{Chunk: true, Mixed: true, Scatter: true, Place: true, Ordered: true, Anywhere: true}) {
		t.Errorf("%+v", a)
	}
}
