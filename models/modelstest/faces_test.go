package modelstest_test

import (
	"encoding/binary"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/axle-llm/axle/axcl"
	"github.com/axle-llm/axle/internal/lane"
	"github.com/axle-llm/axle/models/modelstest"
)

// TestFaces: in each layout the two nets give what the definitions give in float64.
func TestFaces(t *testing.T) {
	lane.NoRace(t)
	testFaces(t, softCard(t))
}

func testFaces(t *testing.T, d axcl.Device) {
	for _, e := range []modelstest.Faces{{Seed: 1, Layout: "rows"}, {Seed: 2, Layout: "maps", Width: 192}} {
		dir := t.TempDir()
		if err := e.Write(dir); err != nil {
			t.Fatal(err)
		}
		finder, teller := e.Paths(dir)
		rng := rand.New(rand.NewPCG(e.Seed, 9))
		call := func(path string) (pix []byte, out [][]float64) {
			n, err := d.LoadNet(path)
			if err != nil {
				t.Fatal(err)
			}
			defer n.Close()
			in, given := n.Inputs(0)[0], map[string][]byte{}
			pix = make([]byte, in.Size)
			for i := range pix {
				pix[i] = byte(rng.IntN(256))
			}
			sent := pix
			if e.Layout == "maps" {
				sent = make([]byte, len(pix))
				for i, v := range pix {
					sent[i%3*len(pix)/3+i/3] = v
				}
			}
			for _, o := range n.Outputs(0) {
				given[o.Name] = make([]byte, o.Size)
			}
			if err := n.Run(0, map[string][]byte{in.Name: sent}, given); err != nil {
				t.Fatal(err)
			}
			for _, o := range n.Outputs(0) {
				var v []float64
				for i := 0; i < o.Size; i += 4 {
					v = append(v, float64(math.Float32frombits(binary.LittleEndian.Uint32(given[o.Name][i:]))))
				}
				out = append(out, v)
			}
			return pix, out
		}
		pix, out := call(finder)
		var want [9][]float64 // the scores of all strides, then the distances, then the points
		sure := 0
		for _, a := range e.Found(pix) {
			i := map[int]int{8: 0, 16: 1, 32: 2}[a.Stride]
			want[i], want[3+i] = append(want[i], a.Score), append(want[3+i], a.Far[:]...)
			for _, p := range a.Points {
				want[6+i] = append(want[6+i], p[:]...)
			}
			if a.Score > 0.5 {
				sure++
			}
		}
		vector, given := call(teller)
		for i, want := range append(want[:], e.Vector(vector)) {
			got := append(out, given...)[i]
			if len(got) != len(want) {
				t.Fatalf("%s: output %d has %d numbers, want %d", e.Layout, i, len(got), len(want))
			}
			for k := range got {
				if math.Abs(got[k]-want[k]) > 2e-4*max(1, math.Abs(want[k])) {
					t.Fatalf("%s: number %d of output %d is %v, want %v", e.Layout, k, i, got[k], want[k])
				}
			}
		}
		if n := len(want[0]) + len(want[1]) + len(want[2]); sure < 3 || sure > n/2 {
			t.Errorf("%s: %d of %d anchors show a face", e.Layout, sure, n)
		}
	}
	if err := (modelstest.Faces{Layout: "x"}).Write(t.TempDir()); err == nil {
		t.Error("a layout that there is not")
	}
}
