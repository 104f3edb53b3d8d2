package engine

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"sync"

	"github.com/axle-llm/axle/axcl"
	"github.com/axle-llm/axle/engine/cache"
	"github.com/axle-llm/axle/models"
	"github.com/axle-llm/axle/sampler"
	"github.com/axle-llm/axle/tokenizer"
	"github.com/axle-llm/axle/tokenizer/chat"
)

// cardBackend is a language model on a card.
type cardBackend struct {
	card      *Card
	m         *lm
	draft     *lm // the draft model, or nil
	tokenizer *tokenizer.Tokenizer
	info      Info
	sampling  sampler.Params
	pooling   string // for vectors: last (or empty), mean, first
	ends      []int32
	took      int64        // card memory, as counted in card.ours
	closer    func() error // called last
	closing   sync.Once
}

// Encode ends with ctx, because a package's rules may take long for a text.
func (b *cardBackend) Encode(ctx context.Context, pieces []chat.Piece, first bool) ([]int32, error) {
	return encodePieces(ctx, b.tokenizer, pieces, first)
}

func (b *cardBackend) Text(ids []int32) string { return b.tokenizer.Decode(ids, true) }

func (b *cardBackend) Complete(ctx context.Context, job Job) iter.Seq2[Token, error] {
	return func(yield func(Token, error) bool) {
		ps, release, err := b.hold(ctx, &job)
		if err != nil {
			yield(Token{}, err)
			return
		}
		defer release()
		s, err := b.m.submit(ctx, job, nil, ps...)
		if err != nil {
			yield(Token{}, err)
			return
		}
		//rule:G7 TestCancel drop
		defer b.m.forgetCaller(s)
		var buf []Token
		for {
			tokens, err, closed := s.box.take(buf)
			buf = tokens
			if len(tokens) >= boxRoom {
				b.m.card.Wake() // the sequence waited until its reader caught up
			}
			for _, t := range tokens {
				if !yield(t, nil) {
					return
				}
			}
			if closed {
				if err != nil {
					yield(Token{}, err)
				}
				return
			}
			select {
			case <-s.box.wake:
			case <-ctx.Done():
				yield(Token{}, ctx.Err())
				return
			}
		}
	}
}

// sight returns how pictures are placed in a prompt, or nil if the model does not see.
func (b *cardBackend) sight() *models.Vision {
	if b.m.pictures.encoder == nil {
		return nil
	}
	return b.m.pictures.encoder.sees
}

// reached reports whether a prompt's last picture may end at row end.
func (b *cardBackend) reached(end int) bool {
	_, ok := b.m.pictures.reaches(end)
	return ok
}

// hold reads the pictures of a job. The sequence may use them until release is called.
func (b *cardBackend) hold(ctx context.Context, job *Job) (ps []*picture, release func(), err error) {
	n := len(job.Images)
	if n == 0 {
		return nil, func() {}, nil
	}
	if err := b.m.pictures.sees(b.info.Name); err != nil {
		return nil, nil, err
	}
	if rows := b.m.pictures.encoder.longest; n > b.m.shape.Cells/rows {
		return nil, nil, &ContextError{Have: n * rows, Max: b.m.shape.Cells}
	}
	return b.m.pictures.encoder.hold(ctx, job.Key, job.Images)
}

// forgetCaller tells the worker that the caller of s has gone.
func (m *lm) forgetCaller(s *seq) {
	if s.ctx.Err() == nil {
		s.pleased.Store(true) // the caller has all it needs; ctx may have ended when the worker looks
	}
	s.gone.Store(true)
	m.queue.forget(s)
	m.card.Wake()
}

// embedAhead is how many inputs of one call are in the queue at a time: enough to fill wide passes,
// and few enough to leave room for others.
const embedAhead = 64

func (b *cardBackend) Embed(ctx context.Context, inputs [][]int32, key string) ([][]float32, error) {
	if b.m.shape.Whole {
		return nil, fmt.Errorf("%w: %s gives logits and no vectors: it is a whole decoder in one file; take an embedding model",
			ErrUnsupported, b.info.Name)
	}
	out := make([][]float32, len(inputs))
	_, err := b.collectAll(ctx, out, func(i int) ([]int32, []*picture, error) { return inputs[i], nil, nil }, key, b.vector)
	if err != nil {
		return nil, err
	}
	return out, nil
}

// vector returns an empty vector for a sequence to fill.
func (b *cardBackend) vector() *embedding {
	// A head that gives logits gives no vector. Then the vector is the output of the last layer,
	// before the norm, which belongs to the head.
	hidden := !b.info.Embedding || b.m.shape.Out != b.m.shape.Hidden
	return &embedding{pooling: b.pooling, hidden: hidden, sum: make([]float64, b.m.shape.Hidden)}
}

// Scores implements the optional interface behind [Model.Rerank]. The first prompt runs alone, so
// that the others find their common beginning in the cache. The others share passes.
func (b *cardBackend) Scores(ctx context.Context, n int, prompt func(int) ([]int32, error), ids []int32, key string) (
	[][]float32, Usage, error,
) {
	var u Usage
	for _, id := range ids {
		if id < 0 || int(id) >= b.m.shape.Out {
			return nil, u, fmt.Errorf("%w: token id %d, the head gives %d logits", ErrRequest, id, b.m.shape.Out)
		}
	}
	out := make([][]float32, n)
	for _, part := range [][2]int{{0, min(n, 1)}, {min(n, 1), n}} {
		input := func(i int) ([]int32, []*picture, error) {
			ids, err := prompt(part[0] + i)
			return ids, nil, err
		}
		got, err := b.collectAll(ctx, out[part[0]:part[1]], input, key,
			func() *embedding { return &embedding{picks: ids, sum: make([]float64, len(ids))} })
		if err != nil {
			return nil, u, err
		}
		u.Prompt, u.Cached = u.Prompt+got.Prompt, u.Cached+got.Cached
	}
	return out, u, nil
}

// collectAll runs a sequence for each of out, and fills out with what its embedding collected, or
// with zeros if there are no ids. input returns the ids, and the pictures in them, when they are
// needed. The usage has the tokens of all.
func (b *cardBackend) collectAll(ctx context.Context, out [][]float32, input func(int) ([]int32, []*picture, error), key string,
	collect func() *embedding,
) (u Usage, err error) {
	seqs := make([]*seq, len(out))
	defer func() {
		for _, s := range seqs {
			if s != nil {
				b.m.forgetCaller(s)
			}
		}
	}()
	next := 0
	var ids []int32 // of next, if the queue had no room for it
	var ps []*picture
	for i := range out {
		for ; next < len(out) && next < i+embedAhead; next++ {
			if ids == nil {
				if ids, ps, err = input(next); err != nil {
					return u, err
				}
			}
			e := collect()
			if len(ids) == 0 {
				out[next], ids = make([]float32, len(e.sum)), nil
				continue
			}
			s, err := b.m.submit(ctx, Job{IDs: ids, Limit: 1, Sampling: sampler.Defaults(), Key: key}, e, ps...)
			if errors.Is(err, ErrBusy) && next > i {
				break // the queue has no room for more now
			}
			if err != nil {
				return u, err
			}
			seqs[next], ids = s, nil
		}
		s := seqs[i]
		for s != nil {
			tokens, err, closed := s.box.take(nil)
			if err != nil {
				return u, err
			}
			if closed {
				out[i] = make([]float32, len(s.embed.sum))
				for k, v := range s.embed.sum {
					out[i][k] = float32(v / float64(s.embed.n))
				}
				for _, t := range tokens {
					u.Prompt, u.Cached = u.Prompt+t.Usage.Prompt, u.Cached+t.Usage.Cached
				}
				b.m.forgetCaller(s)
				seqs[i] = nil // frees its memory: there may be thousands of inputs
				break
			}
			select {
			case <-s.box.wake:
			case <-ctx.Done():
				return u, ctx.Err()
			}
		}
	}
	return u, nil
}

func (b *cardBackend) Ends() []int32            { return b.ends }
func (b *cardBackend) Info() Info               { return b.info }
func (b *cardBackend) Sampling() sampler.Params { return b.sampling }

func (b *cardBackend) Stats() Stats {
	st := b.m.queue.published()
	st.Cells = b.m.shape.Cells
	st.Disk, st.Far = b.m.diskTier.stats(), b.m.diskTier.farStats()
	st.Proven = map[string]bool{"chunk": b.m.proven.Chunk, "mixed": b.m.proven.Mixed, "scatter": b.m.proven.Scatter,
		"place":         b.m.shape.Place,
		"alike_ordered": b.m.prover.alike.Ordered, "alike_anywhere": b.m.prover.alike.Anywhere}
	if b.m.wide > 0 || b.m.proven.Narrow {
		st.Proven["wide"] = !b.m.proven.Narrow
	}
	st.Compared = b.m.prover.compared
	if b.m.limits.Stops {
		st.Proven["kept"], st.Proven["stepped"] = b.m.proven.Kept, b.m.proven.Stepped
	}
	info := b.card.Info()
	st.Temperature, st.NPULoad, st.CardFree, st.CardTotal = info.Temperature, info.NPULoad, info.FreeCMM, info.TotalCMM
	return st
}

func (b *cardBackend) Close() error {
	err := ErrClosed
	b.closing.Do(func() {
		err = b.card.Do(context.Background(), func(axcl.Device) error {
			b.card.Detach(b.m)
			b.card.ours.Add(-b.took)
			b.m.Fail(ErrClosed)
			b.m.ramTier.close()
			cache.Unlisten(b.m.cells)
			err := errors.Join(b.card.Watched(0, b.m.pictures.encoder.close), b.card.Unload(b.m.model))
			if b.draft != nil {
				err = errors.Join(err, b.card.Unload(b.draft.model))
			}
			return err
		})
		err = errors.Join(err, b.m.diskTier.close(), b.m.heads.close(), b.closer())
		if err != nil {
			err = fmt.Errorf("engine: closing %s: %w", b.info.Name, err)
		}
	})
	return err
}
