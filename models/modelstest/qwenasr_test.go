package modelstest_test

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/axle-llm/axle/axcl"
	"github.com/axle-llm/axle/internal/lane"
	"github.com/axle-llm/axle/models/modelstest"
)

// TestQwenASR: the two nets of the encoder of sound, one after the other, give what the definitions
// give in float64, whatever number of rows counts and whatever type the mask has.
func TestQwenASR(t *testing.T) {
	lane.NoRace(t)
	testQwenASR(t, softCard(t))
}

func testQwenASR(t *testing.T, d axcl.Device) {
	for _, e := range []modelstest.QwenASR{{Seed: 1}, {Seed: 2, Mask: axcl.Int32}} {
		dir := t.TempDir()
		if err := e.Write(dir); err != nil {
			t.Fatal(err)
		}
		front, encoder := e.Paths(dir)
		first, second := load(t, d, front), load(t, d, encoder)
		rng := rand.New(rand.NewPCG(3, e.Seed))
		for _, n := range []int{1, 13, 41} {
			mel := make([]float32, 3000*128)
			for i := range mel[:n/13*100*128+128*(n%13*8)] {
				mel[i] = float32(0.5 * rng.NormFloat64())
			}
			numbers, whole := make([]float32, 390), make([]int32, 390)
			for i := range n {
				numbers[i], whole[i] = 1, 1
			}
			mask := floats(numbers)
			if e.Mask == axcl.Int32 {
				mask = ints(whole...)
			}
			heard := call(t, first, map[string][]byte{"input_features": floats(mel)})
			out := call(t, second, map[string][]byte{"input_features": heard["conv_output"], "feature_attention_mask": mask})
			want := e.Rows(mel, n)
			near(t, fmt.Sprintf("%d rows", n), rowsOf(out["output"], len(want[0]))[:n], want)
		}
	}
}
