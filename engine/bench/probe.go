package bench

import (
	"context"
	"encoding/binary"
	"fmt"
	"math"
	"runtime"
	"sync"
	"time"

	"github.com/axle-llm/axle/axcl"
)

// Probe is one answer to how fast a card reads its memory.
type Probe struct {
	Name string  `json:"name"`
	Rate float64 `json:"bytes_per_second"`
}

// ReadProbe measures, on the card that will run the model, how fast an execute reads: the time that
// the head takes beyond a layer's goes to the bytes it reads beyond a layer's, because both pay the
// same fixed cost of an execute. Arithmetic is in it, so the memory itself may be faster. The calls
// are the shortest of several. It opens parts of the model itself; dev belongs to the calling
// goroutine. weights and cache are one layer's bytes, head the head's.
//
// Errors: ctx's, what loading and running give, and a model with which nothing can be told: without
// a head, of one layer, or whose head takes no longer than a layer.
func ReadProbe(ctx context.Context, dev axcl.Device, spec axcl.LoadSpec, weights, cache, head int64,
	clock func() time.Duration) (Probe, error) {
	p := Probe{Name: "a read probe on the card"}
	// Enough layers that one's time stands out, few enough that they fit beside the model.
	n := min(len(spec.Layers), 8)
	for n > 1 && n <= len(spec.Source) && spec.Source[n-1] != n-1 { // one that uses another's K and V is none alone
		n--
	}
	if n < 2 || spec.Head == "" || head <= weights+cache {
		return p, fmt.Errorf("bench: the read probe needs a head that is larger than a layer, and two layers")
	}
	times := func(spec axcl.LoadSpec, wants ...bool) (out []time.Duration, err error) {
		m, err := axcl.Load(ctx, dev, spec)
		if err != nil {
			return nil, err
		}
		defer m.Close()
		s := m.Shape()
		pass, err := row(s)
		if err != nil {
			return nil, err
		}
		for range wants {
			out = append(out, math.MaxInt64)
		}
		for range 12 {
			for i, want := range wants { // in turn, so that both meet the same machine
				pass.Want, pass.Logits, pass.Argmax = nil, nil, nil
				if want {
					pass.Want = []int{0}
					if pass.Argmax = make([]int32, 1); !s.Argmax {
						pass.Logits = make([]uint16, s.Out)
					}
				}
				at := clock()
				if err := ctx.Err(); err != nil {
					return nil, err
				}
				if err := m.Run(pass); err != nil {
					return nil, err
				}
				out[i] = min(out[i], clock()-at)
			}
		}
		return out, nil
	}
	few, err := times(axcl.LoadSpec{Layers: spec.Layers[:1], Head: spec.Head}, false, true)
	if err != nil {
		return p, err
	}
	many, err := times(axcl.LoadSpec{Layers: spec.Layers[:n]}, false)
	if err != nil {
		return p, err
	}
	layer := (many[0] - few[0]) / time.Duration(n-1)
	more := few[1] - few[0] - layer
	if layer <= 0 || more <= 0 {
		return p, fmt.Errorf("bench: the read probe cannot tell the head's time from a layer's")
	}
	p.Rate = float64(head-weights-cache) / more.Seconds()
	return p, nil
}

// row is a pass of one row that sees half the cache.
func row(s axcl.Shape) (*axcl.Pass, error) {
	past := s.Cells / 2
	p := &axcl.Pass{Hidden: make([]uint16, s.Hidden), Pos: make([]uint32, max(s.Pos, 1)), Cell: []uint32{uint32(past)},
		SeeCells: make([]uint64, axcl.Words(s.Cells)), SeeRows: make([]uint64, 1)}
	if s.State > 0 {
		p.From, p.To = 1, 1
	}
	p.LayerInputs = make([]uint16, s.Layers*s.LayerInputs)
	if s.Out > 0 {
		p.Want, p.Logits = []int{0}, make([]uint16, s.Out)
	}
	for i := range p.Hidden {
		p.Hidden[i] = 0x3f80
	}
	for c := range past {
		p.SeeCells[c/64] |= 1 << (c % 64)
	}
	return p, p.Check(s)
}

// Memory measures this machine's memory with all its cores for about the given time: bytes a second
// read, and copied (each byte counted once read and once written).
func Memory(budget time.Duration) (read, copied float64) {
	workers := min(runtime.GOMAXPROCS(0), 16)
	size := 128 << 20 / workers &^ 63 // together beyond what most caches hold
	from, to := make([][]byte, workers), make([][]byte, workers)
	for i := range workers {
		from[i], to[i] = make([]byte, size), make([]byte, size)
		// Both have to be written: pages that were not written are all the one page of zeros, which
		// the caches hold.
		for j := 0; j < size; j += 512 {
			from[i][j], to[i][j] = 1, 1
		}
	}
	run := func(f func(i int)) float64 {
		best := 0.0
		for end := time.Now().Add(budget / 2); ; {
			at := time.Now()
			var wg sync.WaitGroup
			for i := range workers {
				wg.Go(func() { f(i) })
			}
			wg.Wait()
			best = max(best, float64(workers*size)/time.Since(at).Seconds())
			if time.Now().After(end) {
				return best
			}
		}
	}
	sums := make([]uint64, workers*8)
	read = run(func(i int) {
		var a, b, c, d uint64
		for s := from[i]; len(s) >= 32; s = s[32:] {
			a += binary.LittleEndian.Uint64(s)
			b += binary.LittleEndian.Uint64(s[8:])
			c += binary.LittleEndian.Uint64(s[16:])
			d += binary.LittleEndian.Uint64(s[24:])
		}
		sums[i*8] += a + b + c + d
	})
	copied = 2 * run(func(i int) { copy(to[i], from[i]) })
	return read, copied
}
