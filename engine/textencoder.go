package engine

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"iter"
	"math"
	"slices"

	"github.com/axle-llm/axle/axcl"
	"github.com/axle-llm/axle/models"
	"github.com/axle-llm/axle/tokenizer"
	"github.com/axle-llm/axle/tokenizer/chat"
)

// ErrNonsense reports a vector with a NaN or an infinity: the card computed nonsense.
var ErrNonsense = errors.New("engine: the vector holds a NaN or an infinity")

// textEncoder is a net on a card that encodes texts, one text in each call.
type textEncoder struct {
	*netBackend
	p *models.TextEncoder
}

func openTextEncoder(ctx context.Context, p *models.TextEncoder, o OpenOptions) (*Model, error) {
	info := Info{Name: p.Name, Context: p.Most(), Vocab: p.Tokenizer().Vocab(), Hidden: p.Dims, Embedding: true}
	f := models.NetFile{Path: p.Net, In: []axcl.Tensor{p.Input}, Out: []axcl.Tensor{p.Output}}
	return openNets(ctx, p, []models.NetFile{f}, info, o, func(n *netBackend) (Backend, error) {
		n.called = "encode"
		return &textEncoder{n, p}, nil
	})
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
	return b.encodeTexts(ctx, inputs, b.p.Most(), key, b.encode)
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
	if err := b.call(ctx, map[string][]byte{b.p.Input.Name: in}, map[string][]byte{b.p.Output.Name: out}); err != nil {
		return nil, err
	}
	return vectorOf(out, b.p.Output.Shape[len(b.p.Output.Shape)-1], b.info.Name)
}

// vectorOf reads the first n numbers of an output. Errors: ErrNonsense.
func vectorOf(out []byte, n int, name string) ([]float32, error) {
	v := make([]float32, n)
	for i := range v {
		v[i] = math.Float32frombits(binary.LittleEndian.Uint32(out[4*i:]))
		if x := float64(v[i]); math.IsNaN(x) || math.IsInf(x, 0) {
			// No strike against the card: an input may cause this, and can be sent on purpose.
			return nil, fmt.Errorf("%w: %s", ErrNonsense, name)
		}
	}
	return v, nil
}
