package engine

import (
	"context"
	"iter"

	"github.com/axle-llm/axle/sampler"
	"github.com/axle-llm/axle/tokenizer/chat"
)

// Backend turns token ids into token ids: a card's worker, or a script in tests. All methods are
// safe for concurrent use. [New] puts templates, stops, parsing and truncation on top of it.
type Backend interface {
	// Encode gives the pieces' ids, with what the tokenizer puts before a text (BOS) when first is
	// set. It may end with ctx.
	Encode(ctx context.Context, pieces []chat.Piece, first bool) ([]int32, error)
	// Ends are the ids behind a text that becomes a vector.
	Ends() []int32
	// Text is the ids as text, specials included.
	Text(ids []int32) string
	// Complete runs one sequence. The last token has Final set; an error ends the sequence. Leaving
	// the loop, or ctx, cancels it: the card is free of it within one pass.
	Complete(ctx context.Context, job Job) iter.Seq2[Token, error]
	// Embed gives one vector for each input, not normalised.
	Embed(ctx context.Context, inputs [][]int32, key string) ([][]float32, error)
	Info() Info
	// Sampling is the model's own defaults over Ollama's.
	Sampling() sampler.Params
	Stats() Stats
	// Close ends what runs with ErrClosed, waits for the worker, and releases the card. A second
	// Close returns ErrClosed.
	Close() error
}

// Job is a sequence to run.
type Job struct {
	IDs       []int32
	Images    [][]byte
	Sampling  sampler.Params
	Mask      Matcher // constrains the answer; nil for none
	Limit     int     // most tokens; negative: until the model stops
	NumCtx    int
	NumKeep   int
	Shift     bool
	Speculate *bool
	Key       string
	// Repeatable gives the job the card for itself, on cells from the first on in order, so that it
	// runs as on a card just loaded.
	Repeatable bool
	// IgnoreStop goes on past ids that end a text; for measuring.
	IgnoreStop bool
}

// Matcher is a grammar's state over one answer (sampler/grammar.Matcher is one).
type Matcher interface {
	sampler.Mask
	Accept(id int32) error
	Done() bool
}

// Token is one step of a sequence. Text holds whole characters only and may be empty. Usage is the
// sequence's account so far. The last Token of a sequence has Final set to the reason it ended and
// stands for no id; an end-of-text id is not part of the output.
type Token struct {
	ID      int32
	Text    string
	Logprob *Logprob
	Usage   Usage
	Final   string
	More    bool // another one, or the error that ends the sequence, is there already
}
