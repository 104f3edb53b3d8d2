package chat

import (
	"context"

	"github.com/axle-llm/axle/tokenizer"
)

// Encode returns the ids of rendered pieces: control tokens are recognized inside control pieces
// only. It adds no BOS beyond what the template wrote. Where [TryEncode] would fail it returns
// nothing.
func Encode(tok *tokenizer.Tokenizer, pieces []Piece) []int32 {
	ids, _ := TryEncode(tok, pieces)
	return ids
}

// TryEncode is Encode for servers: it fails with [tokenizer.ErrSlow] on text that takes the model's
// own split pattern too long, and with [tokenizer.ErrGrows] where its normalizers make too much of
// it.
func TryEncode(tok *tokenizer.Tokenizer, pieces []Piece) ([]int32, error) {
	return EncodeContext(context.Background(), tok, pieces)
}

// EncodeContext is TryEncode that ends with ctx, and then fails with its error.
func EncodeContext(ctx context.Context, tok *tokenizer.Tokenizer, pieces []Piece) ([]int32, error) {
	parts := make([]tokenizer.Part, len(pieces))
	for i, p := range pieces {
		parts[i] = tokenizer.Part{Text: p.Text, Control: p.Control}
	}
	return tok.EncodeContext(ctx, nil, parts)
}
