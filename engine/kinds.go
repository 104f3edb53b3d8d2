package engine

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"strings"
	"sync"

	"github.com/axle-llm/axle/axcl"
	"github.com/axle-llm/axle/engine/search"
	"github.com/axle-llm/axle/models"
	"github.com/axle-llm/axle/sampler"
	"github.com/axle-llm/axle/tokenizer"
	"github.com/axle-llm/axle/tokenizer/chat"
)

// OpenAny is [OpenPackage] for a package of any kind that axle runs: this is the list of them, the
// other half of which is in package models.
func OpenAny(ctx context.Context, p models.Opened, o OpenOptions) (*Model, error) {
	switch p := p.(type) {
	case *models.Package:
		return OpenPackage(ctx, p, o)
	case *models.TextEncoder:
		return openTextEncoder(ctx, p, o)
	}
	return nil, fmt.Errorf("%w: %s: no card is told what to do with a %T", ErrUnsupported, p.Info().Name, p)
}

// textEncoder is a net that encodes texts, on a card or on several that hold a copy each.
type textEncoder struct {
	p    *models.TextEncoder
	info Info
	own  func() error // closes the cards that were opened for it
	on   []encoderOn
	once sync.Once
}

// encoderOn is a copy on a card.
type encoderOn struct {
	*search.Encoder
	card *Card
	took int64 // card memory
}

func openTextEncoder(ctx context.Context, p *models.TextEncoder, o OpenOptions) (*Model, error) {
	i := p.Info()
	if o.Draft != nil {
		return nil, fmt.Errorf("%w: %s takes no draft model: it writes no text", ErrUnsupported, p.Name)
	}
	b := &textEncoder{p: p, own: func() error { return nil }, info: Info{Name: p.Name, Family: i.Family, Context: p.Most(),
		Vocab: p.Tokenizer().Vocab(), Hidden: p.Dims, Embedding: true, Memory: i.Memory, CardBytes: i.Memory.Card}}
	if o.Name != "" {
		b.info.Name = o.Name
	}
	if o.Context > 0 {
		b.info.Context = min(b.info.Context, o.Context)
	}
	cards, err := b.cards(o)
	if err != nil {
		return nil, err
	}
	for _, c := range cards {
		var one encoderOn
		if one, err = b.load(ctx, c, o); err == nil {
			b.on = append(b.on, one)
		} else if !errors.Is(err, axcl.ErrLost) || len(cards) == 1 {
			break
		}
	}
	if len(b.on) == 0 || err != nil && !errors.Is(err, axcl.ErrLost) {
		return nil, errors.Join(err, b.unload(), b.own())
	}
	b.info.Device = b.on[0].card.Info().ID
	return New(b, Options{Name: b.info.Name}), nil
}

// cards are those that the encoder goes to.
func (b *textEncoder) cards(o OpenOptions) ([]*Card, error) {
	switch {
	case o.Card != nil:
		return []*Card{o.Card}, nil
	case len(o.Cards) > 0:
		if c := Place(o.Cards, b.info.Memory.Load); c != nil {
			return []*Card{c}, nil
		}
		return o.Cards[:1], nil
	case len(o.Copies) > 0:
		return o.Copies, nil
	case strings.Contains(o.Device, ","):
		all, err := OpenCards(o.Device, o.CardOptions)
		if err != nil {
			return nil, err
		}
		b.own = all.Close
		return all.Copies, nil
	}
	c, under, err := openCards(o)
	if err != nil {
		return nil, err
	}
	b.own = func() error {
		err := c.Close()
		closeCards(under)
		return err
	}
	return []*Card{c}, nil
}

// load puts a copy on a card, once more where others have made room.
func (b *textEncoder) load(ctx context.Context, c *Card, o OpenOptions) (one encoderOn, err error) {
	spec := search.Spec{Name: b.info.Name, Path: b.p.Net, Input: b.p.Input, Output: b.p.Output, Pad: b.p.Pad, Queue: o.MaxQueue}
	at := Progress{Model: b.info.Name, File: b.p.Net, Total: 1, Of: b.info.Memory.Layers, Needs: b.info.Memory.Load}
	told := func(done int) {
		at.Done, at.Bytes = done, int64(done)*at.Of
		if o.Progress != nil {
			o.Progress(at)
		}
	}
	var e *search.Encoder
	if err := c.makingRoom(o, b.info.Memory.Load, func() (err error) {
		e, err = search.Open(ctx, c.Card, spec, func() error {
			told(0)
			if err := c.Refresh(); err != nil {
				return err
			}
			return c.room(b.info.Name, b.info.Memory.Load, b.info.Memory.Load)
		})
		return err
	}); err != nil {
		return one, err
	}
	told(1)
	c.ours.Add(b.info.Memory.Card)
	return encoderOn{e, c, b.info.Memory.Card}, nil
}

// Encode appends the ids of a text, with what stands before one where first is set.
func (b *textEncoder) Encode(dst []int32, pieces []chat.Piece, first bool) ([]int32, error) {
	return b.EncodeContext(context.Background(), dst, pieces, first)
}

// EncodeContext is Encode that ends with ctx.
func (b *textEncoder) EncodeContext(ctx context.Context, dst []int32, pieces []chat.Piece, first bool) ([]int32, error) {
	return encodePieces(ctx, b.p.Tokenizer(), dst, pieces, first)
}

// encodePieces appends the ids of a text, with what a tokenizer puts before one where first is set.
func encodePieces(ctx context.Context, tok *tokenizer.Tokenizer, dst []int32, pieces []chat.Piece, first bool) ([]int32, error) {
	ids, err := chat.EncodeContext(ctx, tok, pieces)
	if err != nil && ctx.Err() != nil {
		return nil, err
	}
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrRequest, err)
	}
	if prefix := tok.Prefix(); first && len(prefix) > 0 && (len(ids) == 0 || ids[0] != prefix[0]) {
		dst = append(dst, prefix...)
	}
	return append(dst, ids...), nil
}

// Ends is what stands behind a text.
func (b *textEncoder) Ends() []int32 { return b.p.Tokenizer().Suffix() }

func (b *textEncoder) Text(ids []int32) string { return b.p.Tokenizer().Decode(ids, true) }

func (b *textEncoder) Complete(context.Context, Job) iter.Seq2[Token, error] {
	return func(yield func(Token, error) bool) {
		yield(Token{}, fmt.Errorf("%w: %s gives embeddings, no text", ErrUnsupported, b.info.Name))
	}
}

// Embed asks the copy on which the fewest wait, and where its card is lost on the way another one.
func (b *textEncoder) Embed(ctx context.Context, inputs [][]int32, key string) ([][]float32, error) {
	for {
		var best *encoderOn
		for i := range b.on {
			if one := &b.on[i]; one.Err() == nil && (best == nil || one.Waiting() < best.Waiting()) {
				best = one
			}
		}
		if best == nil {
			return nil, b.on[len(b.on)-1].Err()
		}
		out, err := best.Embed(ctx, inputs, key)
		if errors.Is(err, axcl.ErrLost) && best.Err() != nil && ctx.Err() == nil {
			continue
		}
		return out, err
	}
}

func (b *textEncoder) Info() Info               { return b.info }
func (b *textEncoder) Sampling() sampler.Params { return sampler.Defaults() }

func (b *textEncoder) Stats() Stats {
	st := Stats{State: "ready", Passes: map[string]uint64{}}
	lost := 0
	for i, one := range b.on {
		err := one.Err()
		switch {
		case errors.Is(err, ErrClosed):
			st.State = "closed"
		case err != nil:
			lost++
		}
		st.Queued += one.Waiting()
		st.Passes["encode"] += one.Calls()
		info := one.card.Info()
		st.CardFree, st.CardTotal = st.CardFree+info.FreeCMM, st.CardTotal+info.TotalCMM
		if i == 0 || info.Temperature > st.Temperature {
			st.Temperature, st.NPULoad = info.Temperature, info.NPULoad
		}
	}
	if lost == len(b.on) {
		st.State = "lost"
	}
	return st
}

func (b *textEncoder) Close() error {
	err := ErrClosed
	b.once.Do(func() {
		if err = errors.Join(b.unload(), b.own(), b.p.Close()); err != nil {
			err = fmt.Errorf("engine: closing %s: %w", b.info.Name, err)
		}
	})
	return err
}

// unload takes the copies off their cards.
func (b *textEncoder) unload() error {
	var errs []error
	for _, one := range b.on {
		one.card.ours.Add(-one.took)
		errs = append(errs, one.Encoder.Close())
	}
	return errors.Join(errs...)
}
