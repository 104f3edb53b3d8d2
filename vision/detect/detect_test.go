package detect

import (
	"cmp"
	"errors"
	"math"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"
)

// TestRead: the shapes of the nets that are known, and those that are refused.
func TestRead(t *testing.T) {
	heads := func(h, w, n int) [][]int {
		return [][]int{{1, h / 8, w / 8, n}, {1, h / 16, w / 16, n}, {1, h / 32, w / 32, n}}
	}
	for _, c := range []struct {
		name    string
		w, h    int
		shapes  [][]int
		classes int // 0: refused
		outputs []int
	}{
		{"yolo11s", 640, 640, heads(640, 640, 144), 80, []int{0, 1, 2}},
		{"wider than high", 640, 384, heads(384, 640, 65), 1, []int{0, 1, 2}},
		{"heads in another order", 320, 320, [][]int{{1, 10, 10, 70}, {1, 20, 20, 70}, {1, 40, 40, 70}}, 6, []int{2, 1, 0}},
		{"with key points", 640, 640, append([][]int{{1, 80, 80, 51}, {1, 40, 40, 51}}, heads(640, 640, 65)...), 1, []int{2, 3, 4}},
		{"yolov9-tiny, a row for each number", 320, 320, [][]int{{1, 84, 2100}}, 80, []int{0}},
		{"a row for each box", 320, 320, [][]int{{1, 2100, 84}}, 80, []int{0}},
		{"more numbers than boxes", 32, 32, [][]int{{1, 21, 54}}, 50, []int{0}},
		{"two heads", 640, 640, heads(640, 640, 144)[:2], 0, nil},
		{"heads of unequal classes", 640, 640, append(heads(640, 640, 144)[:2], []int{1, 20, 20, 143}), 0, nil},
		{"heads without classes", 640, 640, heads(640, 640, 64), 0, nil},
		{"heads of another size", 320, 320, heads(640, 640, 144), 0, nil},
		{"boxes that are chosen already", 640, 640, [][]int{{1, 300, 6}}, 0, nil},
		{"no classes", 320, 320, [][]int{{1, 4, 2100}}, 0, nil},
		{"too many classes", 640, 640, heads(640, 640, 64+5000), 0, nil},
		{"too many boxes", 16384, 16384, [][]int{{1, 84, 4194304 + 1048576 + 262144}}, 0, nil},
		{"two pictures", 320, 320, [][]int{{2, 84, 2100}}, 0, nil},
		{"nothing", 320, 320, nil, 0, nil},
	} {
		f, err := Read(c.w, c.h, c.shapes)
		if (err == nil) != (c.classes > 0) || f.Classes != c.classes || !slices.Equal(f.Outputs, c.outputs) {
			t.Errorf("%s: %+v, %v", c.name, f, err)
		}
		if err != nil && !strings.HasPrefix(err.Error(), "its outputs are ") {
			t.Errorf("%s: %v", c.name, err)
		}
	}
}

// TestDecodeHeads: a cell's bins and logits become a box, in the middle of a cell and at each
// stride.
func TestDecodeHeads(t *testing.T) {
	f, err := Read(64, 32, [][]int{{1, 4, 8, 66}, {1, 2, 4, 66}, {1, 1, 2, 66}})
	if err != nil {
		t.Fatal(err)
	}
	out := [][]float32{make([]float32, 4*8*66), make([]float32, 2*4*66), make([]float32, 1*2*66)}
	for _, v := range out {
		for i := range v {
			if i%66 >= 64 {
				v[i] = -10
			}
		}
	}
	// Stride 8, row 2, column 5: the sides are 1, 2, 3 and 4 cells away, each by a bin of its own.
	row := out[0][(2*8+5)*66:]
	for s, bin := range []int{1, 2, 3, 4} {
		row[16*s+bin] = 200
	}
	row[64], row[65] = 1, 3
	// Stride 32, column 1: each bin is as likely, so that each side is 7.5 cells away.
	out[2][66+64] = 2
	got, err := f.Decode(out, 0.5)
	want := []Box{{1, 1 / (1 + math.Exp(-3)), (5.5 - 1) * 8, (2.5 - 2) * 8, (5.5 + 3) * 8, (2.5 + 4) * 8},
		{0, 1 / (1 + math.Exp(-2)), (1.5 - 7.5) * 32, (0.5 - 7.5) * 32, (1.5 + 7.5) * 32, (0.5 + 7.5) * 32}}
	if err != nil || !near(got, want) {
		t.Errorf("%+v, %v; want %+v", got, err, want)
	}
	if got, err := f.Decode(out, 0.9); err != nil || !near(got, want[:1]) {
		t.Errorf("of 0.9 and more: %+v, %v", got, err)
	}
	for _, at := range []int{(2*8+5)*66 + 65, (2*8+5)*66 + 3, 0*66 + 64} {
		was := out[0][at]
		for _, bad := range []float64{math.NaN(), math.Inf(1)} {
			if out[0][at] = float32(bad); at%66 == 65 && math.IsInf(bad, 1) {
				continue // an endless logit is as sure as can be
			}
			if at%66 == 64 && math.IsInf(bad, 1) {
				continue
			}
			if _, err := f.Decode(out, 0.5); !errors.Is(err, ErrNonsense) {
				t.Errorf("%g at %d: %v", bad, at, err)
			}
		}
		out[0][at] = was
	}
}

// TestDecodeTable: a table gives the same whether its rows are boxes or numbers, and what has no
// size is none.
func TestDecodeTable(t *testing.T) {
	rows, err := Read(64, 64, [][]int{{1, 84, 7}})
	if err != nil {
		t.Fatal(err)
	}
	turned, err := Read(64, 64, [][]int{{1, 7, 84}})
	if err != nil {
		t.Fatal(err)
	}
	boxes, numbers := make([]float32, 84*7), make([]float32, 84*7)
	put := func(box int, v ...float32) {
		for i, x := range v {
			boxes[box*7+i], numbers[i*84+box] = x, x
		}
	}
	put(3, 32, 30, 20, 10, 0.1, 0.2, 0.9)
	put(80, 5, 6, 7, 8, 0.5, 0.5, 0.1)
	put(81, 5, 6, 0, 8, 0.9, 0.5, 0.1)
	put(82, 5, 6, 7, -8, 0.9, 0.5, 0.1)
	put(83, 60, 60, 4, 4, 0, 1.25, 0)
	want := []Box{{2, float64(float32(0.9)), 22, 25, 42, 35}, {0, 0.5, 1.5, 2, 8.5, 10}, {1, 1, 58, 58, 62, 62}}
	for i, f := range []Form{rows, turned} {
		v := [][]float32{boxes, numbers}[i]
		got, err := f.Decode([][]float32{v}, 0.4)
		if err != nil || !near(got, want) {
			t.Errorf("%d: %+v, %v; want %+v", i, got, err, want)
		}
		for _, at := range []int{3*7 + 1, 3*7 + 6, 80*7 + 4} {
			v := slices.Clone(v)
			if i == 1 {
				at = at%7*84 + at/7
			}
			v[at] = float32(math.NaN())
			if _, err := f.Decode([][]float32{v}, 0.4); !errors.Is(err, ErrNonsense) {
				t.Errorf("%d: NaN at %d: %v", i, at, err)
			}
		}
		v = slices.Clone(v)
		v[[]int{3*7 + 1, 84 + 3}[i]] = float32(math.Inf(-1))
		if _, err := f.Decode([][]float32{v}, 0.4); !errors.Is(err, ErrNonsense) {
			t.Errorf("%d: a side at no place: %v", i, err)
		}
	}
}

// TestSuppress: of 10,000 random sets the same boxes are left as the definition leaves.
func TestSuppress(t *testing.T) {
	rng := rand.New(rand.NewPCG(37, 4))
	left, cut := 0, 0
	for set := range 10_000 {
		classes, spread := 1+rng.IntN(4), []float64{10, 60, 300}[rng.IntN(3)]
		found := make([]Box, rng.IntN(60))
		for i := range found {
			x, y := rng.Float64()*spread, rng.Float64()*spread
			found[i] = Box{rng.IntN(classes), rng.Float64(), x, y, x + 1 + rng.Float64()*40, y + 1 + rng.Float64()*40}
			if rng.IntN(4) == 0 { // equal scores, and boxes that are there twice
				found[i].Score = math.Round(found[i].Score*4) / 4
			}
			if i > 0 && rng.IntN(8) == 0 {
				found[i] = found[i-1]
			}
		}
		share, most := rng.Float64(), 1+rng.IntN(80)
		before := slices.Clone(found)
		got, want := Suppress(found, share, most), naive(found, share)
		if left += len(want); len(want) > most {
			want = want[:most]
			cut++
		}
		if len(got) != len(want) || len(got) > 0 && !reflect.DeepEqual(got, want) {
			t.Fatalf("set %d, share %g, at most %d: %+v, want %+v", set, share, most, got, want)
		}
		if !slices.Equal(before, found) {
			t.Fatalf("set %d was changed", set)
		}
	}
	if left < 50_000 || cut < 500 {
		t.Errorf("%d boxes were left, %d sets had too many", left, cut)
	}
}

// naive is the definition: while there are boxes, the best is kept, and all of its class that
// overlap it by more than the share are thrown away.
func naive(found []Box, share float64) (kept []Box) {
	for rest := slices.Clone(found); len(rest) > 0; {
		best := 0
		for i, b := range rest {
			if b.Score > rest[best].Score {
				best = i
			}
		}
		top := rest[best]
		kept = append(kept, top)
		var next []Box
		for i, b := range rest {
			if i == best {
				continue
			}
			both := common(top.X0, top.X1, b.X0, b.X1) * common(top.Y0, top.Y1, b.Y0, b.Y1)
			either := (top.X1-top.X0)*(top.Y1-top.Y0) + (b.X1-b.X0)*(b.Y1-b.Y0) - both
			if b.Class != top.Class || both/either <= share {
				next = append(next, b)
			}
		}
		rest = next
	}
	return kept
}

// common is the length that two stretches have in common.
func common(a0, a1, b0, b1 float64) float64 { return max(0, min(a1, b1)-max(a0, b0)) }

func near(a, b []Box) bool {
	return slices.EqualFunc(a, b, func(a, b Box) bool {
		far := slices.MaxFunc([]float64{a.Score - b.Score, a.X0 - b.X0, a.Y0 - b.Y0, a.X1 - b.X1, a.Y1 - b.Y1},
			func(x, y float64) int { return cmp.Compare(math.Abs(x), math.Abs(y)) })
		return a.Class == b.Class && math.Abs(far) < 1e-9
	})
}
