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

// TestCLIP: both nets of each family give what the definitions give in float64.
func TestCLIP(t *testing.T) {
	lane.NoRace(t)
	testCLIP(t, softCard(t))
}

func testCLIP(t *testing.T, d axcl.Device) {
	for _, e := range []modelstest.CLIP{{Seed: 1, Layout: "CLIP"}, {Seed: 2, Layout: "CN-CLIP"}, {Seed: 3, Layout: "jina"},
		{Seed: 4, Layout: "SigLIP2", Side: 48}} {
		dir := t.TempDir()
		if err := e.Write(dir); err != nil {
			t.Fatal(err)
		}
		rng := rand.New(rand.NewPCG(e.Seed, 9))
		ids := make([]int32, e.Length())
		pad := int32(0)
		switch e.Layout {
		case "CLIP":
			copy(ids, []int32{515, 3, 400, 512, 516})
		case "jina":
			copy(ids, []int32{0, 5, 6, 2})
			pad = 1
		default:
			copy(ids, []int32{5, 9, 4, 20})
		}
		for i := 5; i < len(ids); i++ {
			ids[i] = pad
		}
		var text, planes []byte
		for _, id := range ids {
			text = binary.LittleEndian.AppendUint32(text, uint32(id))
		}
		side := max(e.Side, 32)
		pix := make([]byte, 3*side*side)
		for i := range pix {
			pix[i] = byte(rng.IntN(256))
		}
		mean, by := [3]float64{.48145466, .4578275, .40821073}, [3]float64{.26862954, .26130258, .27577711}
		if e.Layout == "SigLIP2" {
			mean, by = [3]float64{.5, .5, .5}, [3]float64{.5, .5, .5}
		}
		for c := range 3 {
			for i := c; i < len(pix); i += 3 {
				planes = binary.LittleEndian.AppendUint32(planes, math.Float32bits(float32((float64(pix[i])/255-mean[c])/by[c])))
			}
		}
		for path, in := range map[string][]byte{e.Text(dir): text, e.Picture(dir): planes} {
			n, err := d.LoadNet(path)
			if err != nil {
				t.Fatal(err)
			}
			out := map[string][]byte{n.Outputs(0)[0].Name: make([]byte, n.Outputs(0)[0].Size)}
			if err := n.Run(0, map[string][]byte{n.Inputs(0)[0].Name: in}, out); err != nil {
				t.Fatal(err)
			}
			want := e.OraclePicture(pix)
			if path == e.Text(dir) {
				want = e.OracleText(ids)
			}
			dot, a, b := 0.0, 0.0, 0.0
			for i, w := range want {
				v := float64(math.Float32frombits(binary.LittleEndian.Uint32(out[n.Outputs(0)[0].Name][4*i:])))
				dot, a, b = dot+v*w, a+v*v, b+w*w
			}
			if c := dot / math.Sqrt(a*b); !(c > 0.9999) || math.Abs(math.Sqrt(a/b)-1) > 0.01 {
				t.Errorf("%s, %s: cosine %.6f, lengths %g and %g", e.Layout, path, c, math.Sqrt(a), math.Sqrt(b))
			}
			if err := n.Close(); err != nil {
				t.Error(err)
			}
		}
	}
}
