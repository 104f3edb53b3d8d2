package engine

import (
	"context"
	"errors"
	"math/rand/v2"
	"path/filepath"
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/axle-llm/axle/axcl"
	"github.com/axle-llm/axle/axcl/soft"
	"github.com/axle-llm/axle/axmodel"
	"github.com/axle-llm/axle/engine/cache"
	"github.com/axle-llm/axle/sampler"
)

func TestProbeSoft(t *testing.T) {
	b := newTiny(t, tinyGroups).open(t, OpenOptions{})
	if want := (Proven{Chunk: true, Mixed: true, Scatter: true}); b.m.proven != want {
		t.Errorf("the soft card was proven %+v, want %+v", b.m.proven, want)
	}
}

// tiny is a random two-layer model with a ladder of prefill groups, small enough that a pass takes
// microseconds.
type tiny struct {
	spec   axcl.LoadSpec
	rows   [][]uint16
	hidden int
}

func (t *tiny) Row(dst []uint16, id int32) error {
	if int(id) >= len(t.rows) {
		return errors.New("no such token")
	}
	copy(dst, t.rows[id])
	return nil
}

const (
	tinyCells = 96
	tinyVocab = 61
)

var tinyGroups = []axmodel.SoftGroup{{Rows: 1, Cells: tinyCells, Cache: tinyCells}, {Rows: 8, Cells: 0, Cache: 1},
	{Rows: 8, Cells: 24, Cache: 24}, {Rows: 8, Cells: 56, Cache: 56}, {Rows: 8, Cells: 88, Cache: 88}}

func newTiny(t testing.TB, groups []axmodel.SoftGroup) *tiny {
	t.Helper()
	dir := t.TempDir()
	rng := rand.New(rand.NewPCG(7, 11))
	const hidden, heads, kv, dim, mid = 32, 4, 2, 8, 48
	matrix := func(name string, rows, cols int, scale float64) axmodel.Tensor {
		v := make([]float32, rows*cols)
		for i := range v {
			v[i] = float32(rng.NormFloat64() * scale)
		}
		return axmodel.Matrix(name, axmodel.BF16, rows, cols, v)
	}
	ones := func(name string, n int) axmodel.Tensor {
		v := make([]float32, n)
		for i := range v {
			v[i] = 1
		}
		return axmodel.Vector(name, axmodel.F32, v)
	}
	// Layers are weak beside the embeddings, so that text repeats itself soon and guesses have
	// something to find.
	freq := []float32{1, 0.3, 0.1, 0.03}
	m := &tiny{hidden: hidden}
	head := axmodel.Header{Hidden: hidden, Heads: heads, KVHeads: kv, HeadDim: dim, Intermediate: mid, Out: tinyVocab, Eps: 1e-6,
		Scale: 0.35, Rotary: dim, Magnitude: 1, Rope: 1, Pos: 1, Theta: 10000}
	for l := range 2 {
		h := head
		h.Kind, h.Index, h.Out = axmodel.Layer, l, 0
		p := filepath.Join(dir, "tiny_l"+string(rune('0'+l))+".axmodel")
		if err := axmodel.WriteFile(p, h, groups, []axmodel.Tensor{ones("input_norm", hidden), matrix("q", heads*dim, hidden, .15),
			matrix("k", kv*dim, hidden, .15), matrix("v", kv*dim, hidden, .15),
			matrix("o", hidden, heads*dim, .15), ones("post_norm", hidden), matrix("gate", mid, hidden, .15),
			matrix("up", mid, hidden, .15), matrix("down", hidden, mid, .15), axmodel.Vector("inv_freq", axmodel.F32, freq)}); err != nil {
			t.Fatal(err)
		}
		m.spec.Layers = append(m.spec.Layers, p)
	}
	h := head
	h.Kind = axmodel.Head
	m.spec.Head = filepath.Join(dir, "tiny_post.axmodel")
	if err := axmodel.WriteFile(m.spec.Head, h, []axmodel.SoftGroup{{Rows: 1}},
		[]axmodel.Tensor{ones("norm", hidden), matrix("weight", tinyVocab, hidden, .3)}); err != nil {
		t.Fatal(err)
	}
	for range tinyVocab {
		row := make([]uint16, hidden)
		for i := range row {
			row[i] = axcl.BFloat16(float32(rng.NormFloat64()))
		}
		m.rows = append(m.rows, row)
	}
	return m
}

// open puts the model on a soft card of its own.
func (m *tiny) open(t testing.TB, o OpenOptions) *cardBackend {
	t.Helper()
	return m.openOn(t, func() (axcl.Device, string, error) {
		d, err := soft.Open(soft.Options{Threads: 1})
		return d, "test", err
	}, o)
}

func (m *tiny) openOn(t testing.TB, open func() (axcl.Device, string, error), o OpenOptions) *cardBackend {
	t.Helper()
	card, err := OpenCard(open, o.CardOptions)
	if err != nil {
		t.Fatal(err)
	}
	b := &cardBackend{card: card, closer: card.Close, sampling: sampler.Defaults(),
		info: Info{Name: "tiny", Context: tinyCells, Vocab: tinyVocab,
			Hidden: m.hidden}}
	err = card.Do(context.Background(), func(dev axcl.Device) error {
		model, err := axcl.Load(context.Background(), dev, m.spec)
		if err != nil {
			return err
		}
		b.m = newLM(card, model, m, nil, nil, o)
		if err := b.m.prover.measure(context.Background()); err != nil {
			return err
		}
		if o.Proven != nil {
			b.m.proven = *o.Proven
		} else if err := probe(b.m); err != nil {
			return err
		} else if err := compare(b.m); err != nil {
			return err
		}
		card.Attach(b.m, 1)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := b.Close(); err != nil && !errors.Is(err, ErrClosed) {
			t.Error(err)
		}
	})
	return b
}

func greedy(ids []int32, n int) Job {
	p := sampler.Defaults()
	p.Temperature = 0
	return Job{IDs: ids, Sampling: p, Limit: n}
}

// run collects a job's tokens.
func run(b Backend, job Job) (out []int32, last Token, err error) {
	for t, err := range b.Complete(context.Background(), job) {
		if err != nil {
			return out, last, err
		}
		if t.Final == "" {
			out = append(out, t.ID)
		}
		last = t
	}
	return out, last, nil
}

// alone is the truth: a fresh cache, one row a pass, nothing shared, nothing guessed.
func alone(t testing.TB, m *tiny, jobs []Job) [][]int32 {
	t.Helper()
	off := false
	b := m.open(t, OpenOptions{Parallel: 1, Proven: &Proven{}})
	var out [][]int32
	for i, job := range jobs {
		job.Speculate = &off
		job.Key = string(rune(i)) // no reuse
		ids, _, err := run(b, job)
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, ids)
	}
	return out
}

// TestTogetherAsAlone: random conversations that share prefixes, all at once, with reuse, batching
// and guessing, give what each gives alone.
func TestTogetherAsAlone(t *testing.T) {
	//proves:G12
	m := newTiny(t, tinyGroups)
	rng := rand.New(rand.NewPCG(3, 5))
	var jobs []Job
	var texts [][]int32
	for range 60 {
		var ids []int32
		if len(texts) > 0 && rng.IntN(3) > 0 {
			from := texts[rng.IntN(len(texts))]
			ids = append(ids, from[:1+rng.IntN(len(from))]...)
		}
		for range 1 + rng.IntN(20) {
			ids = append(ids, int32(rng.IntN(tinyVocab)))
		}
		ids = ids[:min(len(ids), tinyCells-50)]
		texts = append(texts, ids)
		job := greedy(ids, 1+rng.IntN(48))
		if rng.IntN(4) == 0 {
			job.NumCtx, job.Shift, job.NumKeep = max(len(ids)+2, 24), true, 4
		}
		jobs = append(jobs, job)
	}
	want := alone(t, m, jobs)
	// A clock that stands still makes every group cost the same, so that wide passes and guesses
	// are always worth it.
	still := CardOptions{Clock: func() time.Duration { return 0 }}
	bare := newTiny(t, tinyGroups[:1])
	for _, c := range []struct {
		name   string
		m      *tiny
		o      OpenOptions
		passes []string // kinds that must occur
	}{
		{"measured", m, OpenOptions{Parallel: 12}, []string{"decode"}},
		{"wide", m, OpenOptions{Parallel: 12, CardOptions: still}, []string{"batch", "mixed", "verify", "prefill"}},
		{"wide, one", m, OpenOptions{Parallel: 1, CardOptions: still}, []string{"verify", "prefill"}},
		{"nothing proven", m, OpenOptions{Parallel: 12, CardOptions: still, Proven: &Proven{}}, []string{"decode", "prefill"}},
		{"chunks only", m, OpenOptions{Parallel: 12, CardOptions: still, Proven: &Proven{Chunk: true}}, []string{"verify", "prefill"}},
		{"no mixing", m, OpenOptions{Parallel: 12, CardOptions: still, Proven: &Proven{Chunk: true, Scatter: true}},
			[]string{"verify", "prefill"}},
		{"no prefill group", bare, OpenOptions{Parallel: 12}, []string{"decode"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := c.m.open(t, c.o)
			got := make([][]int32, len(jobs))
			var wg sync.WaitGroup
			held, hold := make(chan struct{}), make(chan struct{})
			wg.Go(func() {
				_ = b.card.Do(context.Background(), func(axcl.Device) error { close(held); <-hold; return nil })
			})
			<-held
			for i, job := range jobs {
				wg.Go(func() {
					out, _, err := run(b, job)
					if err != nil {
						t.Errorf("job %d: %v", i, err)
					}
					got[i] = out
				})
			}
			// All are there before the first pass: the order they came in is still anyone's.
			for queued := 0; queued < len(jobs); runtime.Gosched() {
				queued = b.m.queue.len()
			}
			close(hold)
			wg.Wait()
			for i := range jobs {
				if !slices.Equal(got[i], want[i]) {
					t.Errorf("job %d (prompt %v, limit %d): %v together, %v alone", i, jobs[i].IDs, jobs[i].Limit, got[i], want[i])
				}
			}
			st := b.Stats()
			for _, kind := range c.passes {
				if st.Passes[kind] == 0 {
					t.Errorf("no %s pass: %v", kind, st.Passes)
				}
			}
			if st.CachedTokens == 0 {
				t.Error("nothing was reused")
			}
			if slices.Contains(c.passes, "verify") && st.Accepted == 0 {
				t.Error("no guess was right")
			}
			t.Logf("passes %v, %d of %d prompt tokens cached, %d of %d guesses right", st.Passes, st.CachedTokens, st.PromptTokens,
				st.Accepted, st.Drafted)
			if err := b.Close(); err != nil {
				t.Fatal(err)
			}
			for _, s := range b.m.running {
				t.Errorf("left running: %v", s.ids)
			}
			b.m.cells.Forget()
			if n, err := cache.Check(b.m.cells, nil); n != 0 || err != nil {
				t.Errorf("%d cells held by no sequence, %v", n, err)
			}
		})
	}
}
