package ask

import "time"

// Event is a step of an answer. Text, Thinking and ToolCall are deltas, at most one of them set;
// the last event of an answer that ended well has Done set. Before the answer events come that have
// one field set and nothing else: Notes, where a format is not enforced whole; Cut, where the
// prompt did not fit; and Begun. An event that is Held is a token whose text is held back. One with
// nothing but its account is a token whose text the parser of thinking keeps, in Generate only.
type Event struct {
	Cut      *Cut // the prompt was cut; nothing is computed yet
	Begun    int  // tokens that the prompt has, which are evaluated from now on
	Text     string
	Thinking string
	ToolCall *ToolCall
	Logprobs []Logprob // of the tokens since the last event, when asked for
	Notes    []Note    // what of the request's schema, or of a required tool's, the answer is not held to
	Done     *Result
	Usage    Usage // the account so far; of several answers, that of all

	// More: another event follows without a wait, so that both can go to the client in one write.
	// Where what follows turns out to be held back (it may be the beginning of a stop string), that
	// event is one with Flush and nothing else in it.
	More, Flush bool
	Held        bool // there is nothing to tell but the account
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
