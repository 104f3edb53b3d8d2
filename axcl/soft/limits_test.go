package soft

import (
	"context"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/axle-llm/axle/axcl"
	"github.com/axle-llm/axle/axcl/soft/kernel"
	"github.com/axle-llm/axle/axmodel"
)

// The limits can be measured: a small model's are numbers that mean something, whatever they are on
// the machine of the moment.
func TestMachineLimits(t *testing.T) {
	for _, s := range kernel.Available() {
		l := newLimits(t, made(t, axmodel.BF16Fours, small), Options{Threads: 2, Kernels: s.String()})
		l.once(t, 1<<6)
		if got := l.medians(); got.read <= 0 || got.decode <= 0 || (got.spin <= 0 || got.prompt <= 0) != (s == kernel.Go) {
			t.Errorf("%v: %+v", s, got)
		}
	}
}

// BenchmarkLimits sets the card beside what the machine can do at most, in turn: a token beside a
// plain read of the weights that it reads, on as many threads, and a prompt of 128 rows beside a
// loop of its instruction on registers alone. Shares are medians of pairs, in percent.
func BenchmarkLimits(b *testing.B) {
	for _, q := range []axmodel.DType{axmodel.BF16Fours, axmodel.Int8Groups, axmodel.Int4Groups} {
		spec := made(b, q, large)
		for threads := min(2, runtime.GOMAXPROCS(0)); threads > 0; threads-- {
			b.Run(q.String()+"/"+[]string{"", "one thread", "two threads"}[threads], func(b *testing.B) {
				l := newLimits(b, spec, Options{Threads: threads})
				for b.Loop() {
					l.once(b, 1<<18)
				}
				got := l.medians()
				b.ReportMetric(got.read/1e9, "read-GB/s")
				b.ReportMetric(100*got.decode, "decode-%-of-read")
				if q == axmodel.BF16Fours { // others are multiplied by other instructions
					b.ReportMetric(got.spin/1e9, "spin-G/s")
					b.ReportMetric(100*got.prompt, "prompt-%-of-spin")
				}
			})
		}
	}
}

// limits measures a model beside its machine.
type limits struct {
	m      *Model
	parts  [][]byte // of the weights
	bytes  int
	work   int // multiplications of a prompt's rows with weights
	kept   []byte
	decode *axcl.Pass
	prompt *axcl.Pass

	reads, decodes, spins, prompts []float64 // bytes and multiplications a second, and shares of them
}

const promptRows = 128

func newLimits(tb testing.TB, spec axcl.LoadSpec, o Options) *limits {
	tb.Helper()
	d, err := Open(o)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { d.Close() })
	loaded, err := axcl.Load(context.Background(), d, spec)
	if err != nil {
		tb.Fatal(err)
	}
	l := &limits{m: loaded.(*Model), kept: make([]byte, 64*d.pool.n)}
	weigh := func(f *file, rows int) {
		for _, e := range f.Tensors {
			l.work += rows * e.Rows * e.Cols
		}
		for p := range slices.Chunk(f.bytes, 1<<16) {
			l.parts, l.bytes = append(l.parts, p), l.bytes+len(p)
		}
	}
	for _, layer := range l.m.layers {
		weigh(layer.file, promptRows)
	}
	weigh(l.m.head.file, 1)
	l.decode, l.prompt = pass(l.m.Shape(), 1, 0), pass(l.m.Shape(), promptRows, 0)
	l.run(tb, l.decode)
	l.run(tb, l.prompt)
	return l
}

func (l *limits) run(tb testing.TB, p *axcl.Pass) time.Duration {
	start := time.Now()
	if err := l.m.Run(p); err != nil {
		tb.Fatal(err)
	}
	return time.Since(start)
}

// once measures each thing once, and beside what it is compared with; a worker spins this many
// rounds eight times.
func (l *limits) once(tb testing.TB, rounds int) {
	pool, set := l.m.device.pool, l.m.device.set
	start := time.Now()
	pool.run(len(l.parts), func(worker, i int) { l.kept[64*worker] ^= set.Read(l.parts[i]) })
	read := time.Since(start)
	l.reads = append(l.reads, float64(l.bytes)/read.Seconds())
	l.decodes = append(l.decodes, read.Seconds()/l.run(tb, l.decode).Seconds())
	products := make([]int, 8*pool.n)
	start = time.Now()
	pool.run(len(products), func(_, i int) { products[i] = set.Spin(rounds) })
	total := 0
	for _, n := range products {
		total += n
	}
	spin := float64(total) / time.Since(start).Seconds()
	l.spins = append(l.spins, spin)
	if spin > 0 {
		l.prompts = append(l.prompts, float64(l.work)/l.run(tb, l.prompt).Seconds()/spin)
	}
}

type shares struct{ read, decode, spin, prompt float64 }

func (l *limits) medians() shares {
	middle := func(x []float64) float64 {
		if len(x) == 0 {
			return 0
		}
		slices.Sort(x)
		return x[len(x)/2]
	}
	return shares{middle(l.reads), middle(l.decodes), middle(l.spins), middle(l.prompts)}
}
