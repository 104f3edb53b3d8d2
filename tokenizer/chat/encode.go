package chat

import "github.com/axle-llm/axle/tokenizer"

// Encode returns the ids of rendered pieces: control tokens are recognized inside control pieces only. It adds no BOS beyond what the template wrote.
func Encode(tok *tokenizer.Tokenizer, pieces []Piece) []int32 {
	parts := make([]tokenizer.Part, len(pieces))
	for i, p := range pieces {
		parts[i] = tokenizer.Part{Text: p.Text, Control: p.Control}
	}
	return tok.EncodeParts(nil, parts)
}
