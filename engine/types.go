package engine

import (
	"context"
	"iter"

	"github.com/axle-llm/axle/sampler"
	"github.com/axle-llm/axle/tokenizer/chat"
)

// Backend turns token ids into token ids. It is a card's worker, or a script in tests. All methods
// are safe for concurrent use. [New] adds templates, stops, parsing and truncation.
type Backend interface {
	// Encode returns the pieces' ids, with the tokenizer's prefix (BOS) if first is set. It may end
	// with ctx.
	Encode(ctx context.Context, pieces []chat.Piece, first bool) ([]int32, error)
	// Ends returns the ids behind a text that becomes a vector.
	Ends() []int32
	// Text returns the ids as text, special tokens included.
	Text(ids []int32) string
	// Complete runs one sequence. The last token has Final set. An error ends the sequence. Leaving
	// the loop, or ctx, cancels it: the card is free of it within one pass.
	Complete(ctx context.Context, job Job) iter.Seq2[Token, error]
	// Embed returns one vector for each input, not normalised.
	Embed(ctx context.Context, inputs [][]int32, key string) ([][]float32, error)
	Info() Info
	// Sampling returns the model's own defaults over Ollama's.
	Sampling() sampler.Params
	Stats() Stats
	// Close ends running sequences with ErrClosed, waits for the worker, and releases the card. A
	// second Close returns ErrClosed.
	Close() error
}

// Job is a sequence to run.
type Job struct {
	IDs       []int32
	Images    [][]byte // files of pictures; in a recogniser's own jobs, samples of sound
	Sampling  sampler.Params
	Mask      Matcher // constrains the answer; nil for none
	Limit     int     // the most tokens; negative: until the model stops
	NumCtx    int
	NumKeep   int
	Shift     bool
	Speculate *bool
	Key       string
	// Repeatable gives the job the card to itself, on consecutive cells from the first on, so that
	// it runs as on a card just loaded.
	Repeatable bool
	// IgnoreStop goes on past ids that end a text, for measuring.
	IgnoreStop bool
}

// Matcher is a grammar's state within one answer (sampler/grammar.Matcher is one).
type Matcher interface {
	sampler.Mask
	Accept(id int32) error
	Done() bool
}

// Token is one step of a sequence. Text holds whole characters only, and may be empty. Usage counts
// the sequence so far. The last Token has Final set to the reason for the end, and stands for no
// id: an end-of-text id is not part of the output.
type Token struct {
	ID      int32
	Text    string
	Logprob *Logprob
	Usage   Usage
	Final   string
	More    bool // the next token, or the error that ends the sequence, is already there
}
