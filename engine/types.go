package engine

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"time"

	"github.com/axle-llm/axle/models"
	"github.com/axle-llm/axle/sampler"
	"github.com/axle-llm/axle/sampler/grammar"
	"github.com/axle-llm/axle/tokenizer/chat"
)

// Request asks a [Model] for an answer. Chat reads Messages and Tools; Generate reads Prompt, System, Suffix, Raw and Context.
// Beside those every field may be left at zero: the model's own sampling, no constraint, no limit.
type Request struct {
	Messages []chat.Message // at least one
	Tools    []chat.Tool
	// ToolChoice: "" or "auto" leaves it to the model, "none" offers no tool, "required" constrains the answer to a call of any offered
	// tool, any other value to a call of the tool of that name.
	ToolChoice string
	// SerialTools ends the answer after its first tool call (parallel_tool_calls: false).
	SerialTools bool

	Prompt  string
	System  string
	Suffix  string
	Raw     bool    // Prompt is the model's input as it stands: no template, specials recognised
	Context []int32 // what an earlier answer's Result.Context gave
	Images  [][]byte

	Template chat.Template              // instead of the model's own; nil for that
	Think    chat.Think                 // zero: the model's habit (on where it can think)
	Kwargs   map[string]json.RawMessage // further template variables
	Continue bool                       // go on with the last assistant message

	Sampling sampler.Params // zero: Model.Sampling(), which is also what to change single settings of
	Format   Format
	Stop     []string // the answer ends before the first of these; empty strings count for nothing
	Limit    int      // most tokens to answer with; 0 or less: until the model stops (capped at ten contexts; under a format at one)
	// ThinkLimit is the most tokens of thinking before an answer that Format or ToolChoice binds; 0 or less, and at most: three quarters
	// of what Limit and the context leave. Thinking that is cut is ended with its tag, and the answer follows.
	ThinkLimit int

	NumCtx   int  // context for this request, at most the model's; 0 or less: the model's
	NumKeep  int  // tokens kept at the front when the context overflows
	Truncate bool // a prompt that is too long is cut, oldest messages first; where there are pictures, oldest turns
	// Cut is told of a prompt that was cut, before anything is computed, on the goroutine that asks; nil: nobody is.
	Cut func(Cut)
	// Begun is told how many tokens the prompt has, before they are evaluated; nil: nobody is.
	Begun func(prompt int)
	// Watch is told of the answer's account with each token, before the token's event; nil: nobody is.
	Watch func(Usage)
	Shift bool // a full context drops its oldest half and goes on, instead of ending with "length"

	Speculate *bool // nil: where it is measured to pay
	// Repeatable gives, at temperature 0 or with a seed, the very same answer each time: alone on the card, nothing reused, nothing
	// guessed.
	Repeatable bool
	Key        string // requests share cached text only within one key
}

// Cut is a prompt, or a text to embed, that did not fit: of Prompt tokens Kept were kept, where Limit are fewer than fit. Of turns that
// went for their pictures, before they were rendered, Prompt counts the pictures alone.
type Cut struct {
	Limit, Prompt, Kept int
}

// Format constrains an answer. The zero Format does not.
type Format struct {
	JSON   bool            // any JSON object, as Ollama's "json"
	Schema json.RawMessage // a JSON schema; goes before JSON
	Strict bool            // a schema that cannot be enforced whole is refused, instead of enforced in part: see Event.Notes
	GBNF   string          // a grammar in llama.cpp's notation; goes before Schema
}

// Event is a step of an answer. Text, Thinking and ToolCall are deltas, at most one of them set; the last event of an answer that ended
// well has Done set and nothing else. Where a format is not enforced whole, the first event has Notes set and nothing else. An event with
// nothing set is a token whose text the parser of thinking keeps, in Generate only.
type Event struct {
	Text     string
	Thinking string
	ToolCall *chat.ToolCall
	Logprobs []Logprob      // of the tokens since the last event, when asked for
	Notes    []grammar.Note // what of the request's schema, or of a required tool's, the answer is not held to
	Done     *Result

	// More: another event follows without a wait, so that both can go to the client in one write. Where what follows turns out to be held
	// back (it may be the beginning of a stop string), that event is one with Flush and nothing else in it.
	More, Flush bool
}

// Logprob is a token's log probability and its closest rivals', before sampling filters.
type Logprob struct {
	Token   string
	Bytes   []byte
	Logprob float32
	Top     []Logprob
}

// Reasons an answer ends.
const (
	ReasonStop   = "stop"
	ReasonLength = "length"
)

// Result closes an answer.
type Result struct {
	Reason  string
	Stop    string // the stop string that ended it, if one did
	Usage   Usage
	Context []int32 // prompt and answer as ids (Generate, not Raw)
	Logprob float64 // the tokens' log probabilities added up, where they were asked for
}

// Usage says what a request cost. Times are exact, from the host's monotonic clock.
type Usage struct {
	Prompt     int // prompt tokens, cached ones included
	Cached     int // prompt tokens found in the cache
	Output     int
	Drafted    int // tokens proposed by speculation, and how many were right: none is behind one that was wrong
	Accepted   int
	Queue      time.Duration // waiting for the card
	Prefill    time.Duration // from the first pass to the first token
	Decode     time.Duration // from the first token to the last
	FirstToken time.Duration // from the call to the first token
	Total      time.Duration
}

// EmbedRequest asks for vectors.
type EmbedRequest struct {
	Input      []string
	Truncate   bool      // cut inputs that are too long instead of failing
	Cut        func(Cut) // as in Request, for each input that was cut
	Dimensions int       // keep this many values of each vector; 0: all
	NumCtx     int       // most tokens an input may have, at most the model's context; 0 or less: that
	Raw        bool      // do not normalise to length one
	Key        string
}

// Embeddings answers an EmbedRequest, one vector of Info.Hidden values an input: an embedding model's head's, pooled as its package says;
// of any other model what its last layer gives for the text's last token.
type Embeddings struct {
	Vectors [][]float32
	Prompt  int
	Total   time.Duration
}

// Info is what a model is. It does not change while the model is open.
type Info struct {
	Name         string
	Family       string
	Context      int // most tokens a sequence may hold
	Vocab        int
	Hidden       int
	Layers       int
	Capabilities chat.Capabilities
	Think        chat.Think    // what a request that does not say gets; zero: on where the model can
	Embedding    bool          // gives vectors, no text
	CardBytes    int64         // card memory it takes
	Memory       models.Memory // of what; zero where the backend does not tell
	DraftBytes   int64         // card memory that the draft model takes besides
	Device       string
	Draft        string // the draft model, if any
}

// Errors a request can end with besides a device's (axcl) and ctx's.
var (
	ErrBusy        = errors.New("engine: the queue is full")
	ErrDraining    = errors.New("engine: shutting down")
	ErrClosed      = errors.New("engine: closed")
	ErrUnsupported = errors.New("engine: not supported by this model")
	ErrNotFound    = errors.New("engine: model not found")
	ErrRequest     = errors.New("engine: bad request")
)

// ContextError is a prompt that does not fit.
type ContextError struct{ Have, Max int }

func (e *ContextError) Error() string {
	return fmt.Sprintf("engine: the prompt has %d tokens, the context holds %d: shorten the prompt or choose a larger context", e.Have,
		e.Max)
}

// Backend turns token ids into token ids: a card's worker, or a script in tests. All methods are safe for concurrent use.
// [New] puts templates, stops, parsing and truncation on top of it.
type Backend interface {
	// Encode appends the pieces' ids, with what the tokenizer puts before a text (BOS) when first is set.
	Encode(dst []int32, pieces []chat.Piece, first bool) ([]int32, error)
	// Text is the ids as text, specials included.
	Text(ids []int32) string
	// Complete runs one sequence. The last token has Final set; an error ends the sequence. Leaving the loop, or ctx, cancels it:
	// the card is free of it within one pass.
	Complete(ctx context.Context, job Job) iter.Seq2[Token, error]
	// Embed gives one vector for each input, not normalised.
	Embed(ctx context.Context, inputs [][]int32, key string) ([][]float32, error)
	Info() Info
	// Sampling is the model's own defaults over Ollama's.
	Sampling() sampler.Params
	Stats() Stats
	// Close ends what runs with ErrClosed, waits for the worker, and releases the card. A second Close returns ErrClosed.
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
	// Repeatable gives the job the card for itself, on cells from the first on in order, so that it runs as on a card just loaded.
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

// Token is one step of a sequence. Text holds whole characters only and may be empty. Usage is the sequence's account so far.
// The last Token of a sequence has Final set to the reason it ended and stands for no id; an end-of-text id is not part of the output.
type Token struct {
	ID      int32
	Text    string
	Logprob *Logprob
	Usage   Usage
	Final   string
	More    bool // another one, or the error that ends the sequence, is there already
}

// Stats is a backend's state, a snapshot.
type Stats struct {
	State                         string // "ready", "lost" with its card, "closed"
	Cells, CellsUsed, CellsCached int
	CellsShared                   int
	Running, Queued               int
	Slots, SlotsUsed              int // of a model of which layers keep a state: states on the card, and how many hold one
	SlotsKept                     int // of those, snapshots that a text may go on from
	// by kind: "decode" (one row), "batch" (answers), "prefill", "mixed" (both), "verify" (with guesses)
	Passes                            map[string]uint64
	Rows                              uint64
	Encoded                           uint64        // calls of the encoder of pictures
	Encoding                          time.Duration // time inside them
	PromptTokens, CachedTokens        uint64
	OutputTokens                      uint64
	Drafted, Accepted                 uint64
	Cancelled, Failed, Done, Rejected uint64
	Proven                            map[string]bool // what the card was proven to do; "wide": see NoWidePasses
	Compared                          Compared        // with what its answers were compared when it was loaded
	Busy                              time.Duration   // time inside passes
	Temperature                       float64
	NPULoad                           float64
	CardFree, CardTotal               int64
	Memory                            MemoryTier // rows that are kept in this machine's memory
	Disk                              DiskTier   // and on disk
}

// DiskTier is what went of a model's cache rows to disk since it was loaded, and came back. The zero value says that nothing did.
type DiskTier struct {
	On    bool          // rows of this model are kept on disk
	Rows  int           // that fit where no other model has any
	Bytes int64         // that all models' may take
	Hits  uint64        // rows that came back
	Out   uint64        // bytes of rows that were copied off the card to be kept there
	In    uint64        // bytes of the rows that came back, copied onto the card
	Saved time.Duration // what evaluating them would have taken longer than copying them
}

// MemoryTier is what is kept of a model's cache rows in this machine's memory. The zero value says that nothing is.
type MemoryTier struct {
	Rows, Used       int   // that fit where no other model has any, and that are there
	Bytes, UsedBytes int64 // the same in bytes
	Hits             uint64
	Out, In          uint64        // bytes copied off the card, and back onto it
	Saved            time.Duration // by rows that came back instead of being evaluated
}
