package bf16

import (
	"math"
	"testing"
)

// Every bf16 survives, and a float32 between two of them becomes the nearer one, or the even one
// where both are as near.
func TestRound(t *testing.T) {
	for v := range uint32(1 << 16) {
		f := Float32(uint16(v))
		if got := Round(f); got != uint16(v) && (f == f || Float32(got) == Float32(got)) {
			t.Fatalf("%04x became %04x", v, got)
		}
		if f != f || math.IsInf(float64(f), 0) {
			continue
		}
		even := v + v&1
		for rest, want := range map[uint32]uint32{1: v, 0x7fff: v, 0x8000: even, 0x8001: v + 1, 0xffff: v + 1} {
			if got := Round(math.Float32frombits(v<<16 | rest)); uint32(got) != want {
				t.Fatalf("%04x%04x became %04x, not %04x", v, rest, got, want)
			}
		}
	}
	// What is no number stays none, with its sign, where its upper half alone would be infinity.
	for _, b := range []uint32{0x7f800001, 0xff800001} {
		if got := Round(math.Float32frombits(b)); Float32(got) == Float32(got) || uint32(got)>>15 != b>>31 {
			t.Errorf("%08x became %04x", b, got)
		}
	}
}

func TestValues(t *testing.T) {
	for _, c := range []struct {
		in   float32
		want uint16
	}{{0, 0}, {1, 0x3f80}, {-1, 0xbf80}, {1.00390625, 0x3f80}, {1.01171875, 0x3f82}, {float32(math.Inf(1)), 0x7f80},
		{math.MaxFloat32, 0x7f80}, {1e-45, 0}} {
		if got := Round(c.in); got != c.want {
			t.Errorf("%g is %04x, want %04x", c.in, got, c.want)
		}
	}
	if got := Round(float32(math.NaN())); Float32(got) == Float32(got) {
		t.Errorf("NaN became %04x", got)
	}
}
