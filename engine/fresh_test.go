//go:build cgo && !fake && linux

package engine

import (
	"fmt"
	"os"
	"testing"

	"github.com/axle-llm/axle/axmodel"
	"github.com/axle-llm/axle/internal/lane"
)

// TestAsFresh (G25): whatever comes at once, all of it takes at most 1.05 times as long as on as
// many fresh cards one after another. AXLE_TEST_FRESH makes it the whole matrix.
func TestAsFresh(t *testing.T) {
	//proves:G25
	lane.Slow(t)
	lane.NoRace(t)
	off := false
	all := os.Getenv("AXLE_TEST_FRESH") != ""
	for _, c := range []struct {
		prompt, output int
		clients        []int // of the short form
	}{{512, 32, []int{16, 64}}, {256, 128, nil}, {200, 100, nil}, {384, 64, []int{16}}, {900, 40, []int{8}}} {
		if all {
			c.clients = []int{2, 8, 16, 64, 200}
		}
		for _, n := range c.clients {
			t.Run(fmt.Sprintf("p%d n%d c%d", c.prompt, c.output, n), func(t *testing.T) {
				b, clock := simPi5(t, axmodel.Qwen3Small(), OpenOptions{MaxQueue: 512})
				load := work{Clients: 1, Prompt: c.prompt, Output: c.output, Speculate: &off, First: 1}
				one := measured(t, b, clock, load).Took.Seconds()
				load.Clients = n
				took := measured(t, b, clock, load).Took.Seconds()
				t.Logf("%.1f s, %.4f times %d fresh cards' %.2f s", took, took/one/float64(n), n, one)
				if took > 1.05*float64(n)*one {
					t.Errorf("%d clients take %.3f times as long as fresh cards one after another", n, took/one/float64(n))
				}
			})
		}
	}
}
