package detect

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

// TestReadFaces: nine outputs are told apart by their shapes, in any order, and others refused.
func TestReadFaces(t *testing.T) {
	flat := faceShapes(640, 640, false)
	bare := slices.Clone(flat)
	for i := range bare {
		bare[i] = bare[i][1:]
	}
	// As buffalo_l has them: the scores of all strides, then the boxes, then the points.
	order := []int{0, 3, 6, 1, 4, 7, 2, 5, 8}
	var sorted [][]int
	for _, i := range order {
		sorted = append(sorted, bare[i])
	}
	for _, c := range []struct {
		name    string
		w, h    int
		shapes  [][]int
		outputs []int // nil: refused
	}{
		{"rows", 640, 640, flat, []int{0, 1, 2, 3, 4, 5, 6, 7, 8}},
		{"det_10g", 640, 640, sorted, []int{0, 3, 6, 1, 4, 7, 2, 5, 8}},
		{"maps, higher than wide", 320, 640, faceShapes(320, 640, true), []int{0, 1, 2, 3, 4, 5, 6, 7, 8}},
		{"with one more", 640, 640, append([][]int{{1, 5}}, flat...), []int{1, 2, 3, 4, 5, 6, 7, 8, 9}},
		{"without points", 640, 640, flat[:8], nil},
		{"of another size", 320, 320, flat, nil},
		{"two pictures", 64, 64, [][]int{{2, 128, 1}}, nil},
		{"too many", 16384, 16384, faceShapes(16384, 16384, false), nil},
		{"no cells", 7, 7, faceShapes(7, 7, false), nil},
		{"nothing", 640, 640, nil, nil},
	} {
		f, err := ReadFaces(c.w, c.h, c.shapes)
		if (err == nil) != (c.outputs != nil) || !slices.Equal(f.Outputs, c.outputs) {
			t.Errorf("%s: %+v, %v", c.name, f, err)
		}
		if err != nil && !strings.HasPrefix(err.Error(), "its outputs are ") {
			t.Errorf("%s: %v", c.name, err)
		}
	}
}

// TestDecodeFaces: each anchor's numbers become a box and five points around the corner of its
// cell, at each stride; what is no number is an error where it is looked at.
func TestDecodeFaces(t *testing.T) {
	f, err := ReadFaces(64, 32, faceShapes(64, 32, false))
	if err != nil {
		t.Fatal(err)
	}
	make9 := func() (out [][]float32) {
		for i := range 9 {
			n := []int{64, 16, 4}[i/3] * []int{1, 4, 10}[i%3]
			out = append(out, make([]float32, n))
		}
		return out
	}
	out := make9()
	// Stride 16: two rows of four cells. The second anchor of the cell in row 1, column 2.
	const at = 2*6 + 1
	out[3][at] = 0.75
	copy(out[4][4*at:], []float32{1, 0.5, 2, 0.25})
	copy(out[5][10*at:], []float32{-1, -0.5, 1, -0.5, 0, 0, -0.5, 0.5, 0.5, 1})
	out[6][0], out[7][2], out[7][3] = 1.5, 1, 1
	out[6][2], out[7][4*2+2] = 0.9, 1 // of no height: it is left out
	found, err := f.Decode(out, 0.5)
	want := []Face{{Box{0, 0.75, 16, 8, 64, 20}, [5][2]float64{{16, 8}, {48, 8}, {32, 16}, {24, 24}, {40, 32}}},
		{Box: Box{0, 1, 0, 0, 32, 32}}}
	if err != nil || fmt.Sprint(found) != fmt.Sprint(want) {
		t.Errorf("%v\n got %v\nwant %v", err, found, want)
	}
	if found, err := f.Decode(out, 0.76); err != nil || len(found) != 1 {
		t.Errorf("surer: %v, %v", found, err)
	}
	for name, change := range map[string]func(out [][]float32){
		"a score":  func(out [][]float32) { out[0][5] = float32(math.NaN()) },
		"a side":   func(out [][]float32) { out[4][4*at+1] = float32(math.Inf(1)) },
		"a point":  func(out [][]float32) { out[5][10*at+9] = float32(math.NaN()) },
		"a height": func(out [][]float32) { out[4][4*at+1], out[4][4*at+3] = float32(math.Inf(1)), float32(math.Inf(-1)) },
	} {
		bad := make9()
		for i := range out {
			copy(bad[i], out[i])
		}
		change(bad)
		if _, err := f.Decode(bad, 0.5); !errors.Is(err, ErrNonsense) {
			t.Errorf("%s: %v", name, err)
		}
		bad[0][5] = 0
		if _, err := f.Decode(bad, 0.8); err != nil {
			t.Errorf("%s of a face that is not looked at: %v", name, err)
		}
	}
}

// TestSuppressFaces: faces lose those that they cover, with their points.
func TestSuppressFaces(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 3))
	for range 300 {
		var faces []Face
		var boxes []Box
		for i := range rng.IntN(12) {
			x, y := 100*rng.Float64(), 100*rng.Float64()
			b := Box{0, rng.Float64(), x, y, x + 60*rng.Float64() + 1, y + 60*rng.Float64() + 1}
			boxes = append(boxes, b)
			faces = append(faces, Face{b, [5][2]float64{{float64(i), b.Score}}})
		}
		want := Suppress(boxes, 0.4, 5)
		got := SuppressFaces(faces, 0.4, 5)
		if len(got) != len(want) {
			t.Fatalf("%d, want %d", len(got), len(want))
		}
		for i := range got {
			if got[i].Box != want[i] || got[i].Points[0][1] != want[i].Score {
				t.Fatalf("%v, want %v", got[i], want[i])
			}
		}
	}
}

// faceShapes are the outputs of a net of faces, in the order of ReadFaces.
func faceShapes(width, height int, maps bool) (all [][]int) {
	for _, stride := range []int{8, 16, 32} {
		for _, each := range []int{1, 4, 10} {
			h, w := height/stride, width/stride
			if maps {
				all = append(all, []int{1, h, w, 2 * each})
			} else {
				all = append(all, []int{1, 2 * h * w, each})
			}
		}
	}
	return all
}
