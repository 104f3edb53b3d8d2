package chat

import (
	"context"

	"github.com/axle-llm/axle/tokenizer"
)

// Encode returns the ids of rendered pieces: control tokens are recognized inside control pieces
// only. It adds no BOS beyond what the template wrote. Where [EncodeContext] would fail it returns
// nothing.
func Encode(tok *tokenizer.Tokenizer, pieces []Piece) []int32 {
	ids, _ := EncodeContext(context.Background(), tok, pieces)
	return ids
}

// EncodeContext is Encode for servers. It fails with [tokenizer.ErrSlow] on text that takes the
// model's own split pattern too long, with [tokenizer.ErrGrows] where its normalizers make too much
// of it, and with ctx's error.
func EncodeContext(ctx context.Context, tok *tokenizer.Tokenizer, pieces []Piece) ([]int32, error) {
	parts := make([]tokenizer.Part, len(pieces))
	for i, p := range pieces {
		parts[i] = tokenizer.Part{Text: p.Text, Control: p.Control}
	}
	return tok.EncodeContext(ctx, nil, parts)
}
