package ask

import "time"

// Event is a step of an answer. Text, Thinking and ToolCall are deltas, at most one of them set;
// the last event of an answer that ended well has Done set and nothing else. Where a format is not
// enforced whole, the first event has Notes set and nothing else. An event with nothing set is a
// token whose text the parser of thinking keeps, in Generate only.
type Event struct {
	Text     string
	Thinking string
	ToolCall *ToolCall
	Logprobs []Logprob // of the tokens since the last event, when asked for
	Notes    []Note    // what of the request's schema, or of a required tool's, the answer is not held to
	Done     *Result

	// More: another event follows without a wait, so that both can go to the client in one write.
	// Where what follows turns out to be held back (it may be the beginning of a stop string), that
	// event is one with Flush and nothing else in it.
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
