package engine

import (
	"context"
	"sync"
	"time"

	"github.com/axle-llm/axle/axcl"
	"github.com/axle-llm/axle/axmodel"
	"github.com/axle-llm/axle/sampler"
)

// OpenHollow puts a model that has a real one's shapes and none of its weights on a card: what it says means nothing, what it costs is what
// the real one would. Its files are written into dir, which must be an empty folder. The caller closes the backend, which has no
// tokenizer: only Complete, Embed, Stats, Info and Close may be used. Errors: the file system's, and as [Open].
func OpenHollow(ctx context.Context, card *Card, dir string, s axmodel.HollowShape, o OpenOptions) (Backend, error) {
	s.NoEmbeddings = true
	if err := axmodel.WriteHollow(dir, s); err != nil {
		return nil, err
	}
	layers, head := axmodel.Files(dir, s.Name, s.Chunk, s.Layers)
	b := &cardBackend{card: card, sampling: sampler.Defaults(), info: Info{Name: s.Name, Context: s.Context, Vocab: s.Vocab, Hidden: s.Hidden, Layers: s.Layers}}
	err := card.Do(ctx, func(dev axcl.Device) error {
		model, err := dev.Load(ctx, axcl.LoadSpec{Layers: layers, Head: head, Timeout: o.Timeout})
		if err != nil {
			return err
		}
		b.m = newLM(card, model, hollowRows{}, nil, nil, o)
		// Rows of a hollow model do not influence each other, so there is nothing to prove: the software cards can do all of it.
		if o.Proven != nil {
			b.m.proven = *o.Proven
		} else {
			b.m.proven = Proven{Chunk: true, Mixed: true, Scatter: true}
		}
		if err := b.m.measure(ctx); err != nil {
			_ = model.Close()
			return err
		}
		card.attach(b.m)
		return nil
	})
	if err != nil {
		return nil, err
	}
	return b, nil
}

type hollowRows struct{}

func (hollowRows) Row(dst []uint16, id int32) error {
	axmodel.HollowRow(dst, id)
	return nil
}

// Work is a load to be measured: so many clients, each with a prompt of its own after a beginning that all share, each wanting so many
// tokens. The zero value of Speculate lets the engine decide.
type Work struct {
	Clients, Shared, Prompt, Output int
	First                           int32 // the first token of the first prompt; the others' follow at a distance
	Speculate                       *bool
	Key                             string
}

// Figures are what a Work took, by the clock it was measured with.
type Figures struct {
	Tokens   int           // put out, all clients together
	Took     time.Duration // from the first pass to the last token
	First    time.Duration // until the last client had its first token
	Rate     float64       // tokens a second, all clients together, from the moment all had their first
	Passes   uint64
	Busy     time.Duration // inside passes
	Drafted  int
	Accepted int
}

// Measure runs the work on a backend that has nothing else to do, and reads clock before and after. All clients are there before the first
// pass. Errors: the first that a client met.
func Measure(ctx context.Context, b Backend, clock func() time.Duration, w Work) (Figures, error) {
	var f Figures
	var first error
	before := b.Stats()
	begun := clock()
	var mu sync.Mutex
	var steady time.Duration // when the last client had its first token
	late := 0                // tokens after that, counted from each client's second on
	var wg sync.WaitGroup
	jobs := make([]Job, w.Clients)
	for c := range jobs {
		p := sampler.Defaults()
		p.Temperature = 0
		jobs[c] = Job{Sampling: p, Limit: w.Output, Speculate: w.Speculate, Key: w.Key}
		for i := range w.Shared {
			jobs[c].IDs = append(jobs[c].IDs, int32(i%200))
		}
		for i := range w.Prompt {
			jobs[c].IDs = append(jobs[c].IDs, w.First+int32(c)*4001+int32(i))
		}
	}
	release := b.(interface{ pause() func() }).pause()
	for _, job := range jobs {
		wg.Go(func() {
			n := 0
			for tok, err := range b.Complete(ctx, job) {
				mu.Lock()
				switch {
				case err != nil:
					if first == nil {
						first = err
					}
				case tok.Final != "":
					f.Drafted += tok.Usage.Drafted
					f.Accepted += tok.Usage.Accepted
					steady = max(steady, begun+tok.Usage.FirstToken)
				default:
					n++
					f.Tokens++
				}
				mu.Unlock()
			}
			mu.Lock()
			late += max(n-1, 0)
			mu.Unlock()
		})
	}
	for b.Stats().Queued < w.Clients {
		if err := ctx.Err(); err != nil {
			break
		}
		time.Sleep(time.Millisecond)
	}
	release()
	wg.Wait()
	after := b.Stats()
	f.Took = clock() - begun
	f.First = steady - begun
	if d := f.Took - f.First; d > 0 {
		f.Rate = float64(late) / d.Seconds()
	}
	for k, n := range after.Passes {
		f.Passes += n - before.Passes[k]
	}
	f.Busy = after.Busy - before.Busy
	return f, first
}

// pause keeps the worker from running passes until the returned function is called.
func (b *cardBackend) pause() (resume func()) {
	held, free, done := make(chan struct{}), make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		_ = b.card.Do(context.Background(), func(axcl.Device) error { close(held); <-free; return nil })
	}()
	select {
	case <-held:
	case <-done: // the card is gone
	}
	return func() { close(free); <-done }
}
