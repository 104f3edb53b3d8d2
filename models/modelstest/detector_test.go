package modelstest_test

import (
	"encoding/binary"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/axle-llm/axle/axcl"
	"github.com/axle-llm/axle/internal/lane"
	"github.com/axle-llm/axle/models/modelstest"
)

// TestDetector: in each layout the net gives what the definitions give in float64.
func TestDetector(t *testing.T) {
	lane.NoRace(t)
	testDetector(t, softCard(t))
}

func testDetector(t *testing.T, d axcl.Device) {
	for _, e := range []modelstest.Detector{{Seed: 1, Layout: "heads"}, {Seed: 2, Layout: "numbers", Width: 192, Classes: 5},
		{Seed: 3, Layout: "boxes", Height: 224, Classes: 3, Floats: true}} {
		dir := t.TempDir()
		if err := e.Write(dir); err != nil {
			t.Fatal(err)
		}
		n, err := d.LoadNet(e.Path(dir))
		if err != nil {
			t.Fatal(err)
		}
		defer n.Close()
		in, out := n.Inputs(0)[0], map[string][]byte{}
		rng := rand.New(rand.NewPCG(e.Seed, 9))
		pix := make([]byte, in.Size/map[bool]int{false: 1, true: 4}[e.Floats])
		for i := range pix {
			pix[i] = byte(rng.IntN(256))
		}
		given := pix
		if e.Floats {
			given = nil
			for c := range 3 {
				for i := c; i < len(pix); i += 3 {
					given = binary.LittleEndian.AppendUint32(given, math.Float32bits(float32(pix[i])/255))
				}
			}
		}
		for _, o := range n.Outputs(0) {
			out[o.Name] = make([]byte, o.Size)
		}
		if err := n.Run(0, map[string][]byte{in.Name: given}, out); err != nil {
			t.Fatal(err)
		}
		for i, want := range e.Oracle(pix) {
			got := out[n.Outputs(0)[i].Name]
			if len(got) != 4*len(want) {
				t.Fatalf("%s, output %d: %d bytes of %d numbers", e.Layout, i, len(got), len(want))
			}
			far, spread := 0.0, 0.0
			for k, w := range want {
				v := float64(math.Float32frombits(binary.LittleEndian.Uint32(got[4*k:])))
				far, spread = max(far, math.Abs(v-w)/max(1, math.Abs(w))), max(spread, math.Abs(w-want[0]))
			}
			if !(far < 1e-4) || spread < 0.5 {
				t.Errorf("%s, output %d: %g from the oracle's, which are at most %g from each other", e.Layout, i, far, spread)
			}
		}
	}
	if err := (modelstest.Detector{Layout: "Z"}).Write(t.TempDir()); err == nil || !strings.Contains(err.Error(), `no layout "Z"`) {
		t.Errorf("an unknown layout: %v", err)
	}
}
