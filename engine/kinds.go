package engine

import (
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"iter"
	"math"
	"slices"
	"sync/atomic"

	"github.com/axle-llm/axle/axcl"
	"github.com/axle-llm/axle/internal/fair"
	"github.com/axle-llm/axle/models"
	"github.com/axle-llm/axle/sampler"
	"github.com/axle-llm/axle/tokenizer"
	"github.com/axle-llm/axle/tokenizer/chat"
)

// OpenAny is [OpenPackage] for a package of any kind that axle runs. It lists these kinds; package
// models has the other half of the list.
func OpenAny(ctx context.Context, p models.Opened, o OpenOptions) (*Model, error) {
	switch p := p.(type) {
	case *models.Package:
		return OpenPackage(ctx, p, o)
	case *models.TextEncoder:
		return openTextEncoder(ctx, p, o)
	}
	return nil, fmt.Errorf("%w: %s: no card is told what to do with a %T", ErrUnsupported, p.Info().Name, p)
}

// ErrNonsense reports a vector with a NaN or an infinity: the card computed nonsense.
var ErrNonsense = errors.New("engine: the vector holds a NaN or an infinity")

// textEncoder is a net on a card that encodes texts, one text in each call.
type textEncoder struct {
	p       *models.TextEncoder
	info    Info
	net     *Net
	closer  func() error // called after the net has left the card
	turns   *fair.Line   // turns of keys, one text at a time
	most    int64        // the most requests that may wait
	waiting atomic.Int64 // requests
	calls   atomic.Uint64
	closed  atomic.Bool
}

func openTextEncoder(ctx context.Context, p *models.TextEncoder, o OpenOptions) (*Model, error) {
	if o.Draft != nil {
		return nil, fmt.Errorf("%w: %s takes no draft model: it writes no text", ErrUnsupported, p.Name)
	}
	i := p.Info()
	info := Info{Name: cmp.Or(o.Name, p.Name), Family: i.Family, Context: p.Most(), Vocab: p.Tokenizer().Vocab(), Hidden: p.Dims,
		Embedding: true, Memory: i.Memory, CardBytes: i.Memory.Card}
	if o.Context > 0 {
		info.Context = min(info.Context, o.Context)
	}
	one := func(c *Card, closer func() error) (*Model, error) {
		b := &textEncoder{p: p, info: info, closer: closer, turns: fair.New(1, 0), most: int64(o.MaxQueue)}
		if b.info.Device = c.Info().ID; b.most <= 0 {
			b.most = 512
		}
		if err := b.load(ctx, c, o); err != nil {
			return nil, err
		}
		return New(b, Options{Name: info.Name}), nil
	}
	choose := func(all []*Card) *Card { return cmp.Or(Place(all, info.Memory.Load), all[0]) }
	return openOn(p, o, choose, one, one)
}

// load loads the net onto a card. If memory was lacking and Room made some, it tries once more.
func (b *textEncoder) load(ctx context.Context, c *Card, o OpenOptions) error {
	need := b.info.Memory.Load
	at := Progress{Model: b.info.Name, File: b.p.Net, Total: 1, Of: b.info.Memory.Layers, Needs: need}
	told := func(done int) {
		at.Done, at.Bytes = done, int64(done)*at.Of
		if o.Progress != nil {
			o.Progress(at)
		}
	}
	if err := c.makingRoom(o, need, func() (err error) {
		b.net, err = loadNet(ctx, c, b.p.Net, func() error {
			told(0)
			if err := c.Refresh(); err != nil {
				return err
			}
			return c.room(b.info.Name, need, need)
		})
		return err
	}); err != nil {
		return err
	}
	if err := b.agree(); err != nil {
		return errors.Join(err, b.net.Close())
	}
	told(1)
	c.ours.Add(b.info.Memory.Card)
	return nil
}

// agree compares the card's tensors with the file's.
func (b *textEncoder) agree() error {
	same := func(got []axcl.Tensor, want axcl.Tensor) bool {
		return slices.ContainsFunc(got, func(t axcl.Tensor) bool {
			return t.Name == want.Name && t.Type == want.Type && slices.Equal(t.Shape, want.Shape)
		})
	}
	if ins, outs := b.net.Tensors(0); len(ins) != 1 || !same(ins, b.p.Input) || !same(outs, b.p.Output) {
		return fmt.Errorf("engine: %w: %s: the card says %v and %v of its tensors, the file %v and %v", axcl.ErrModel, b.info.Name, ins,
			outs, b.p.Input, b.p.Output)
	}
	return nil
}

// Encode returns the ids of a text, with the tokenizer's prefix if first is set.
func (b *textEncoder) Encode(ctx context.Context, pieces []chat.Piece, first bool) ([]int32, error) {
	return encodePieces(ctx, b.p.Tokenizer(), pieces, first)
}

// encodePieces returns the ids of a text, with the tokenizer's prefix if first is set.
func encodePieces(ctx context.Context, tok *tokenizer.Tokenizer, pieces []chat.Piece, first bool) ([]int32, error) {
	ids, err := chat.EncodeContext(ctx, tok, pieces)
	if err != nil && ctx.Err() != nil {
		return nil, err
	}
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrRequest, err)
	}
	if prefix := tok.Prefix(); first && len(prefix) > 0 && (len(ids) == 0 || ids[0] != prefix[0]) {
		ids = slices.Concat(prefix, ids)
	}
	return ids, nil
}

// Ends returns the ids behind a text.
func (b *textEncoder) Ends() []int32 { return b.p.Tokenizer().Suffix() }

func (b *textEncoder) Text(ids []int32) string { return b.p.Tokenizer().Decode(ids, true) }

func (b *textEncoder) Complete(context.Context, Job) iter.Seq2[Token, error] {
	return func(yield func(Token, error) bool) {
		yield(Token{}, fmt.Errorf("%w: %s gives embeddings, no text", ErrUnsupported, b.info.Name))
	}
}

// Embed returns a vector for each text, as the net gives it. Keys take turns, one text each.
func (b *textEncoder) Embed(ctx context.Context, inputs [][]int32, key string) ([][]float32, error) {
	for i, ids := range inputs {
		if most := b.p.Most(); len(ids) == 0 || len(ids) > most {
			return nil, fmt.Errorf("%w: text %d has %d tokens, %s takes 1 to %d", ErrRequest, i, len(ids), b.info.Name, most)
		}
	}
	defer b.waiting.Add(-1)
	if b.waiting.Add(1) > b.most {
		return nil, ErrBusy
	}
	if err := b.turns.Take(ctx, key, 0, 1); err != nil {
		return nil, err
	}
	out := make([][]float32, len(inputs))
	for i, ids := range inputs {
		//rule:T16 TestTextEncoderTurns$ false
		if i > 0 {
			if err := b.turns.Next(ctx, key, 1, 1, 0, 1); err != nil {
				return nil, err
			}
		}
		var err error
		if out[i], err = b.encode(ctx, ids); err != nil {
			b.turns.Done(key, 1, 1)
			return nil, err
		}
	}
	b.turns.Done(key, 1, 1)
	return out, nil
}

// encode returns a text's vector. If the net gives a row for each token, it is the first row.
func (b *textEncoder) encode(ctx context.Context, ids []int32) ([]float32, error) {
	in, out := make([]byte, b.p.Input.Size), make([]byte, b.p.Output.Size)
	for i := range b.p.Most() {
		id := b.p.Pad
		if i < len(ids) {
			id = ids[i]
		}
		binary.LittleEndian.PutUint32(in[4*i:], uint32(id))
	}
	if _, err := b.net.run(ctx, 0, map[string][]byte{b.p.Input.Name: in}, map[string][]byte{b.p.Output.Name: out}); err != nil {
		return nil, err
	}
	b.calls.Add(1)
	v := make([]float32, b.p.Output.Shape[len(b.p.Output.Shape)-1])
	for i := range v {
		v[i] = math.Float32frombits(binary.LittleEndian.Uint32(out[4*i:]))
		if x := float64(v[i]); math.IsNaN(x) || math.IsInf(x, 0) {
			// No strike against the card: a text may cause this, and can be sent on purpose.
			return nil, fmt.Errorf("%w: %s", ErrNonsense, b.info.Name)
		}
	}
	return v, nil
}

func (b *textEncoder) Info() Info               { return b.info }
func (b *textEncoder) Sampling() sampler.Params { return sampler.Defaults() }

func (b *textEncoder) Stats() Stats {
	info := b.net.card.Info()
	st := Stats{State: "ready", Queued: int(b.waiting.Load()), Passes: map[string]uint64{"encode": b.calls.Load()}, CardFree: info.FreeCMM,
		CardTotal: info.TotalCMM, Temperature: info.Temperature, NPULoad: info.NPULoad}
	switch {
	case b.closed.Load():
		st.State = "closed"
	case b.net.card.Err() != nil:
		st.State = "lost"
	}
	return st
}

func (b *textEncoder) Close() error {
	if b.closed.Swap(true) {
		return ErrClosed
	}
	b.net.card.ours.Add(-b.info.Memory.Card)
	if err := errors.Join(b.net.Close(), b.closer()); err != nil {
		return fmt.Errorf("engine: closing %s: %w", b.info.Name, err)
	}
	return nil
}
