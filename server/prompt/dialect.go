package prompt

import (
	"time"

	"github.com/axle-llm/axle/ask"
	"github.com/axle-llm/axle/server/access"
)

// Dialect is a wire format that models are asked in.
type Dialect struct {
	// Under is what the paths begin with whose errors have the dialect's form, those that are no
	// route too. Of two that fit the longer one counts.
	Under string
	// ErrorType is the content type of an error, and Error its body. err is what went wrong, for
	// dialects that tell more of it than text.
	ErrorType string
	Error     func(err error, status int, text string) []byte
	Routes    []Route
}

// Route is a path that a model answers with text.
type Route struct {
	Path string
	Role access.Role
	// Small says that no picture can be in a body, which may have a mebibyte.
	Small bool
	// Tokens is the body of an answer that is the prompt's tokens, for which no card is needed.
	// Nil: a model answers.
	Tokens func(t Tokens) ([]byte, error)
	// Read decodes a body that has been weighed.
	Read func(from From, body []byte) (*Request, Encoder, error)
}

// Tokens are those of a prompt.
type Tokens struct {
	*Request
	Encoder Encoder     // what Read gave; may be nil
	Asked   ask.Request // what the request became
	IDs     []int32
	Context int                   // the model's
	Text    func(id int32) string // of one token
}

// From is what a decoder may know of a request beside its body.
type From interface {
	// Owner is what the request's key leaves behind belongs to; "": it came with none.
	Owner() string
	// Began is when the request came.
	Began() time.Time
	// Weigh takes room for a body that has become larger by what it refers to.
	Weigh(body []byte, noImages bool) error
}

// Encoder turns one answer's parts into bytes, in a dialect. It belongs to one answer. It may also
// be a [Several], a [Seer], a [Repeater] or a [Renderer].
type Encoder interface {
	// Streams says whether the request wants the answer in parts, and Type what kind of stream that
	// is.
	Streams() bool
	Type() string
	// Chunk is the bytes for the next part.
	Chunk(p Part) ([]byte, error)
	// Whole is the body of an answer that does not stream, and WholeType its content type.
	Whole(p Part) ([]byte, error)
	WholeType() string
	// ErrorBody is the body of an error before the first part; ErrorEnd what a stream that fails
	// later ends with.
	ErrorBody(status int, text string) []byte
	ErrorEnd(status int, text string) []byte
}

// Several is an Encoder of answers that may have more than one choice.
type Several interface {
	Encoder
	Candidates() int // how many are written; of 1 there is nothing to choose
	Ranks() bool     // only the likeliest of them are told
	// ChunkOf is the bytes for the next part of a choice; WholeOf the body of all. A score is the
	// mean of the log probabilities of an answer's tokens, where the encoder ranks.
	ChunkOf(i int, p Part) ([]byte, error)
	WholeOf(all []Part, scores []float64) ([]byte, error)
}

// Seer is an Encoder that looks at each part as it comes, whether the answer streams or not, and
// may change it.
type Seer interface{ See(p Part) Part }

// Repeater is an Encoder that may find a whole answer to be none. Again is asked once for what to
// ask the model instead; Failed is what is told when that answer is none either. Both report false
// for errors that are of another kind.
type Repeater interface {
	Again(err error) (*Request, bool)
	Failed(err error) (error, bool)
}

// Renderer is an Encoder for requests that want to see the prompt and no answer.
type Renderer interface {
	Rendered(p Part, text string, images int) any
}
