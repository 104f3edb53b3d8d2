package modelstest

import (
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"sync"

	"github.com/axle-llm/axle/axmodel/graph"
)

// weights are the tensors of a package's nets, by name. A graph takes them as they are; an oracle
// reads the same values, and shares nothing else with the graph. Once they are drawn, any goroutine
// may read them.
type weights struct {
	rng  *rand.Rand
	all  map[string]weight
	wide kept[string, rows] // matrices as oracles asked for them: rows by name
}

type weight struct {
	dims []int
	v    []float32
	once *graph.Weight // as graphs have it: the graphs of one file share it
}

// drawn are the weights of packages, which take longer to draw than many a call that needs them.
var drawn kept[any, *weights]

// draw gives a package's weights: drawn by f, or as they were drawn before.
func draw(e any, seed uint64, f func(w *weights)) *weights {
	return drawn.get(e, func() *weights {
		w := newWeights(seed)
		f(w)
		return w
	})
}

// kept are values that are computed at their first use. It is not a [sync.Map], which is generic:
// the race lane compiles this package without instrumentation, and the linker could take this
// package's copy of it for the whole program. Each use of a sync.Map would then look like a race.
type kept[K comparable, V any] struct {
	mu  sync.Mutex
	all map[K]V
}

// get gives the value of k. Goroutines that ask for a new one at a time may each compute it; all
// get the same.
func (s *kept[K, V]) get(k K, compute func() V) V {
	s.mu.Lock()
	v, ok := s.all[k]
	s.mu.Unlock()
	if ok {
		return v
	}
	v = compute()
	s.mu.Lock()
	defer s.mu.Unlock()
	if first, ok := s.all[k]; ok {
		return first
	}
	if s.all == nil {
		s.all = map[K]V{}
	}
	s.all[k] = v
	return v
}

func newWeights(seed uint64) *weights {
	return &weights{rng: rand.New(rand.NewPCG(seed, 3)), all: map[string]weight{}}
}

// layout says whether a package has one of the layouts there are.
func layout(of, name string, all ...string) error {
	if !slices.Contains(all, name) {
		return fmt.Errorf("modelstest: %s has no layout %q: take one of %q", of, name, all)
	}
	return nil
}

// set keeps values under a name, which must be new.
func (w *weights) set(name string, v []float32, dims ...int) {
	if w.has(name) {
		panic(name + " is there twice")
	}
	w.all[name] = weight{dims, v, graph.Float32(v, dims...)}
}

func (w *weights) has(name string) bool { _, ok := w.all[name]; return ok }

func (w *weights) get(name string) weight {
	t, ok := w.all[name]
	if !ok {
		panic("there is no tensor " + name)
	}
	return t
}

// normal draws a tensor around a mean.
func (w *weights) normal(name string, mean, scale float64, dims ...int) {
	n := 1
	for _, d := range dims {
		n *= d
	}
	v := make([]float32, n)
	for i := range v {
		v[i] = float32(mean + w.rng.NormFloat64()*scale)
	}
	w.set(name, v, dims...)
}

// linear draws a layer that gives values scale times as large as its input's.
func (w *weights) linear(name string, scale float64, in, out int) {
	w.normal(name+".weight", 0, scale/math.Sqrt(float64(in)), out, in)
	w.normal(name+".bias", 0, 0.1*scale, out)
}

// conv draws a convolution of k values of each input, likewise.
func (w *weights) conv(name string, scale float64, out, in, k int) {
	w.normal(name+".weight", 0, scale/math.Sqrt(float64(in*k)), out, in, k)
	w.normal(name+".bias", 0, 0.1*scale, out)
}

// norm draws a norm's factors and addends.
func (w *weights) norm(name string, n int) {
	w.normal(name+".weight", 1, 0.1, n)
	w.normal(name+".bias", 0, 0.1, n)
}

// builder is a graph in the making, and the weights it takes.
type builder struct {
	*graph.Graph
	w *weights
}

func newBuilder(w *weights) builder { return builder{graph.New(), w} }

func (n builder) weight(name string) graph.Value { return n.Const(n.w.get(name).once) }

// bias is a weight that may be missing.
func (n builder) bias(name string) graph.Value {
	if !n.w.has(name) {
		return graph.Value{}
	}
	return n.weight(name)
}

func (n builder) linear(x graph.Value, name string) graph.Value {
	return n.Linear(x, n.weight(name+".weight"), n.bias(name+".bias"))
}

func (n builder) norm(x graph.Value, name string, eps float32) graph.Value {
	return n.LayerNorm(x, n.weight(name+".weight"), n.weight(name+".bias"), eps)
}

func (n builder) conv(x graph.Value, name string, c graph.Conv) graph.Value {
	return n.Conv1D(x, n.weight(name+".weight"), n.bias(name+".bias"), c)
}

// sinusoids are rows for n places, counted from first: the sines and then the cosines of a place
// times rates that fall from 1 to 1/10000.
func sinusoids(first, n, width int) []float32 {
	v := make([]float32, 0, n*width)
	half := width / 2
	for i := range n {
		for k := range width {
			angle := float64(first+i) * math.Exp(-math.Log(10000)/float64(half-1)*float64(k%half))
			if k < half {
				v = append(v, float32(math.Sin(angle)))
			} else {
				v = append(v, float32(math.Cos(angle)))
			}
		}
	}
	return v
}

// floats are numbers as files have them.
func floats(v []float32) (b []byte) {
	for _, x := range v {
		b = binary.LittleEndian.AppendUint32(b, math.Float32bits(x))
	}
	return b
}
