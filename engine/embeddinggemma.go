package engine

import (
	"context"
	"encoding/binary"
	"fmt"
	"iter"
	"math"
	"slices"

	"github.com/axle-llm/axle/axcl"
	"github.com/axle-llm/axle/models"
	"github.com/axle-llm/axle/tokenizer/chat"
)

// gemmaEncoder is EmbeddingGemma 2 on a card: the host looks up a text's rows, and the net of the
// shortest length that holds them makes the vector.
type gemmaEncoder struct {
	*netBackend
	p   *models.EmbeddingGemma
	pad []byte // a row that fills up
}

func openEmbeddingGemma(ctx context.Context, p *models.EmbeddingGemma, o OpenOptions) (*Model, error) {
	info := Info{Name: p.Name, Context: p.Most(), Vocab: p.Embed.Rows, Hidden: p.Dims, Embedding: true}
	b := &gemmaEncoder{p: p, pad: make([]byte, 4*p.Hidden)}
	if err := b.row(b.pad, p.Pad, make([]uint16, p.Hidden)); err != nil {
		return nil, err
	}
	return openNetsWith(ctx, p, p.Nets, info, o, Options{Prompts: p.Prompts, Sizes: p.Sizes}, func(n *netBackend) (Backend, error) {
		n.called = "encode"
		return &gemmaEncoder{n, p, b.pad}, nil
	})
}

// row writes a token's row. The product is not rounded to bf16, as in the vendor's runtime.
func (b *gemmaEncoder) row(to []byte, id int32, room []uint16) error {
	if err := b.p.Embed.Unscaled(room, id); err != nil {
		return err
	}
	for i, v := range room {
		binary.LittleEndian.PutUint32(to[4*i:], math.Float32bits(axcl.Float32(v)*b.p.Scale))
	}
	return nil
}

// Encode returns the ids of a text, with BOS if first is set.
func (b *gemmaEncoder) Encode(ctx context.Context, pieces []chat.Piece, first bool) ([]int32, error) {
	ids, err := encodePieces(ctx, b.p.Tokenizer(), pieces, false)
	if err == nil && first && (len(ids) == 0 || ids[0] != b.p.BOS) {
		ids = slices.Insert(ids, 0, b.p.BOS)
	}
	return ids, err
}

// Ends returns EOS, which stands behind every text.
func (b *gemmaEncoder) Ends() []int32 { return []int32{b.p.EOS} }

func (b *gemmaEncoder) Text(ids []int32) string { return b.p.Tokenizer().Decode(ids, true) }

func (b *gemmaEncoder) Complete(context.Context, Job) iter.Seq2[Token, error] {
	return func(yield func(Token, error) bool) {
		yield(Token{}, fmt.Errorf("%w: %s gives embeddings, no text", ErrUnsupported, b.info.Name))
	}
}

// Embed returns a vector for each text, as the nets give it. Keys take turns, one text each.
func (b *gemmaEncoder) Embed(ctx context.Context, inputs [][]int32, key string) ([][]float32, error) {
	return b.encodeTexts(ctx, inputs, b.p.Most(), key, b.encode)
}

func (b *gemmaEncoder) encode(ctx context.Context, ids []int32) ([]float32, error) {
	at := slices.IndexFunc(b.p.Lengths, func(n int) bool { return n >= len(ids) })
	length, width := b.p.Lengths[at], len(b.pad)
	rows, valid, out := make([]byte, length*width), make([]byte, 4*length), make([]byte, 4*b.p.Dims)
	room := make([]uint16, b.p.Hidden)
	for i := range length {
		to := rows[i*width:][:width]
		if i >= len(ids) {
			copy(to, b.pad)
			continue
		}
		if err := b.row(to, ids[i], room); err != nil {
			return nil, err
		}
		binary.LittleEndian.PutUint32(valid[4*i:], math.Float32bits(1))
	}
	err := b.callNet(ctx, at, map[string][]byte{models.GemmaRows: rows, models.GemmaValid: valid},
		map[string][]byte{models.GemmaVector: out})
	if err != nil {
		return nil, err
	}
	return vectorOf(out, b.p.Dims, b.info.Name)
}
