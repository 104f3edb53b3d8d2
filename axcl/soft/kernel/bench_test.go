package kernel

import (
	"fmt"
	"math/rand/v2"
	"testing"
)

// BenchmarkQuantised is products of integers that lie in the cache: one row of input, eight
// clients', a prompt's; and making it ready.
func BenchmarkQuantised(b *testing.B) {
	const rows, cols, most = 256, 1536, 128
	for _, s := range Available()[1:] {
		for _, kind := range []string{"q8", "q4"} {
			w, _, in := random(rand.New(rand.NewPCG(1, 2)), kind, rows, cols, most)
			in.Q = make([]byte, most*QuantisedBytes(cols))
			size := QuantisedBytes(cols)
			ready := func(n int) {
				for r := range n {
					s.Quantise(in.Q[r*size:(r+1)*size], in.F[r*cols:(r+1)*cols])
				}
			}
			ready(most)
			scratch, dst := NewScratch(most, 1, 1), make([]float32, most*rows)
			for _, n := range []int{1, 8, most} {
				b.Run(fmt.Sprintf("%v/%s/%d", s, kind, n), func(b *testing.B) {
					for b.Loop() {
						for o := 0; o < rows; o += Block {
							s.Mul(dst, w, in, n, o, o+Block, scratch)
						}
					}
				})
			}
			b.Run(fmt.Sprintf("%v/%s/ready", s, kind), func(b *testing.B) {
				for b.Loop() {
					ready(8)
				}
			})
		}
	}
}
