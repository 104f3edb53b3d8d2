package kernel

import (
	"bytes"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
	"time"
)

// BenchmarkStream is how near products of quantised weights come to a plain read of the same bytes,
// for matrices that do not fit a cache: heads of a large and of a small vocabulary. A round takes
// one part of the matrix after another, the plain read and each set in turn, so that none finds in
// the cache what another has read. The shortest time of each is reported: the read as GB/s, the
// sets as their share of it. Rounds take well below a millisecond, so that some are not interrupted
// on a busy machine; -benchtime 500x gives stable figures.
func BenchmarkStream(b *testing.B) {
	const cols, most = 1024, 16
	sets := Available()
	if len(sets) > 1 {
		sets = sets[1:] // plain Go would take most of the time
	}
	for _, rows := range []int{151936, 32768, 512} {
		part := min(rows, 4<<20/cols&^15)
		for _, kind := range []string{"q8", "q4"} {
			var values []byte
			for _, group := range []int{32, 128} {
				for _, n := range []int{1, 2, 3, 4, 8, 12, 16} {
					b.Run(fmt.Sprintf("%dx%d/%s/group%d/%d", rows, cols, kind, group, n), func(b *testing.B) {
						r := rand.New(rand.NewPCG(1, 2))
						if values == nil { // only where the benchmark is wanted
							values = someValues(r, kind, rows*cols)
						}
						w := &Weights{Rows: rows, Cols: cols, Group: group, Groups: make([]uint16, EightScales(rows, cols, group))}
						if w.Q8 = values; kind == "q4" {
							w.Q8, w.Q4 = nil, values
						}
						for i := range w.Groups {
							w.Groups[i] = 0x3c00 + uint16(r.IntN(128))
						}
						x := make([]float32, cols)
						in := Input{Q: make([]byte, n*QuantisedBytes(cols))}
						for i := range n {
							for k := range x {
								x[k] = float32(r.NormFloat64())
							}
							Best().Quantise(in.Q[i*QuantisedBytes(cols):], x)
						}
						dst, scratch := make([]float32, n*rows), NewScratch(most, 1, 1)
						bytesOf := len(values) / rows
						whole := part*bytesOf + 2*EightScales(part, cols, group)
						least := make([]time.Duration, 1+len(sets))
						for i := range least {
							least[i] = math.MaxInt64
						}
						at := 0
						for b.Loop() {
							for i := range least {
								if at += part; at+part > rows {
									at = 0
								}
								begin := time.Now()
								if i == 0 {
									read(values[at*bytesOf : (at+part)*bytesOf])
								} else {
									sets[i-1].Mul(dst, w, in, n, at, at+part, scratch)
								}
								least[i] = min(least[i], time.Since(begin))
							}
						}
						rate := float64(part*bytesOf) / float64(least[0])
						b.ReportMetric(rate, "GB/s")
						for i, s := range sets {
							b.ReportMetric(100*float64(whole)/float64(least[i+1])/rate, "%read:"+s.String())
						}
						b.ReportMetric(0, "ns/op")
					})
				}
			}
		}
	}
}

// someValues returns quantised weights without the byte that read looks for.
func someValues(r *rand.Rand, kind string, n int) []byte {
	if kind == "q4" {
		n /= 2
	}
	values := make([]byte, n)
	for i := range values {
		if values[i] = byte(r.Uint32()); values[i] == absent {
			values[i]++
		}
	}
	return values
}

// absent is no byte of weights: -128 is none of eight bits.
const absent = 0x80

// read loads all bytes as wide as the standard library's assembly does: it looks for one that is
// not among them.
func read(p []byte) {
	if bytes.IndexByte(p, absent) >= 0 {
		panic("kernel: weights have a byte that none should have")
	}
}
