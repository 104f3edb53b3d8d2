package ask

import (
	"encoding/json"
	"time"
)

// Request asks a [Model] for an answer. Chat reads Messages and Tools; Generate reads Prompt,
// System, Suffix, Raw and Context. Beside those every field may be left at zero: the model's own
// sampling, no constraint, no limit.
type Request struct {
	Messages []Message // at least one
	Tools    []Tool
	// ToolChoice: "" or "auto" leaves it to the model, "none" offers no tool, "required" constrains
	// the answer to a call of any offered tool, any other value to a call of the tool of that name.
	ToolChoice string
	// SerialTools ends the answer after its first tool call (parallel_tool_calls: false).
	SerialTools bool

	Prompt  string
	System  string
	Suffix  string
	Raw     bool    // Prompt is the model's input as it stands: no template, specials recognised
	Context []int32 // what an earlier answer's Result.Context gave
	Images  [][]byte

	Template Template                   // instead of the model's own
	Think    Think                      // zero: the model's habit (on where it can think)
	Kwargs   map[string]json.RawMessage // further template variables
	Continue bool                       // go on with the last assistant message

	Sampling Params // zero: Model.Sampling(), which is also what to change single settings of
	Format   Format
	Stop     []string // the answer ends before the first of these; empty strings count for nothing
	Limit    int      // most tokens to answer with; 0 or less: until the model stops (capped at ten contexts; under a format at one)
	// ThinkLimit is the most tokens of thinking before an answer that Format or ToolChoice binds; 0
	// or less, and at most: three quarters of what Limit and the context leave. Thinking that is
	// cut is ended with its tag, and the answer follows.
	ThinkLimit int

	NumCtx   int  // context for this request, at most the model's; 0 or less: the model's
	NumKeep  int  // tokens kept at the front when the context overflows
	Truncate bool // a prompt that is too long is cut, oldest messages first; where there are pictures, oldest turns
	Shift    bool // a full context drops its oldest half and goes on, instead of ending with "length"

	Speculate *bool // nil: where it is measured to pay
	// Repeatable gives, at temperature 0 or with a seed, the very same answer each time: alone on
	// the card, nothing reused, nothing guessed.
	Repeatable bool
	Key        string // requests share cached text only within one key
}

// Cut is a prompt, or a text to embed, that did not fit: of Prompt tokens Kept were kept, where
// Limit are fewer than fit. Of turns that went for their pictures, before they were rendered,
// Prompt counts the pictures alone.
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

// MostChoices is how many answers a request may ask for.
const MostChoices = 128

// Several says how many answers a request is to have.
type Several struct {
	N int // 1 to MostChoices
	// Beside is asked before an answer begins beside those that run. Without ok it waits until one
	// of them has ended and takes its place; else end is called when the place is free again. nil:
	// there is always a place.
	Beside func() (end func(), ok bool)
}

// Choice is an event of one of several answers.
type Choice struct {
	Index int // which, from 0
	Event
}

// EmbedRequest asks for vectors.
type EmbedRequest struct {
	Input       []string
	Pictures    [][]byte // nil, or the file of a picture for each input, nil where it has none; one with a picture may have no text
	PromptName  string   // which of Info.Prompts stands before each text; "": the model's usual one
	Instruction string   // what the vectors are for, where the model is told; "": its usual one
	Truncate    bool     // cut inputs that are too long instead of failing
	Dimensions  int      // keep this many values of each vector; 0: all
	NumCtx      int      // most tokens an input may have, at most the model's context; 0 or less: that
	Raw         bool     // do not normalise to length one
	Key         string
}

// Embeddings answers an EmbedRequest, one vector of Info.Hidden values an input: an embedding
// model's head's, pooled as its package says; of any other model what its last layer gives for the
// text's last token.
type Embeddings struct {
	Vectors [][]float32
	Cuts    []Cut // of the inputs that were cut
	Prompt  int
	Total   time.Duration
}

// RerankRequest asks how well documents answer a query.
type RerankRequest struct {
	Query       string
	Documents   []string // at least one
	Instruction string   // what the query is for; "": a search, as Qwen3's rerankers and embeddings were taught
	Truncate    bool     // cut documents that do not fit instead of failing
	NumCtx      int      // most tokens of a document with all that stands around it, at most the model's context; 0 or less: that
	Key         string
}

// How a [Ranking]'s scores came about.
const (
	ScoringYesNo  = "yes_no" // the probability of yes, 0 to 1, where a model that writes is asked whether the document answers the query
	ScoringCosine = "cosine" // of the vectors of query and document, −1 to 1, by an embedding model
)

// Ranking answers a RerankRequest.
type Ranking struct {
	Scores         []float64 // one a document, in their order
	Scoring        string    // ScoringYesNo or ScoringCosine
	Cuts           []Cut     // of the documents that were cut
	Prompt, Cached int       // tokens of all prompts, and how many of them were found in the cache
	Total          time.Duration
}
