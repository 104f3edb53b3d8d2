package exchange

import "github.com/axle-llm/axle/server/ollama"

// Encoder turns one answer's responses into bytes, in a dialect. R is what the dialect's answers
// are made of. It belongs to one answer.
type Encoder[R any] interface {
	// Streams says whether the request wants the answer in parts, and Type what kind of stream that
	// is.
	Streams() bool
	Type() string
	// Chunk is the bytes for the next part.
	Chunk(R) ([]byte, error)
	// Whole is the body of an answer that does not stream.
	Whole(R) ([]byte, error)
	// WholeType is that body's content type.
	WholeType() string
	// ErrorBody is the body of an error before the first part; ErrorEnd what a stream that fails
	// later ends with.
	ErrorBody(status int, text string) []byte
	ErrorEnd(status int, text string) []byte
}

// Native encodes answers as Ollama does: lines of JSON.
type Native[R any] struct{ Stream bool }

func (n Native[R]) Streams() bool                       { return n.Stream }
func (n Native[R]) Type() string                        { return Lines }
func (n Native[R]) Chunk(r R) ([]byte, error)           { return ollama.Line(r) }
func (n Native[R]) Whole(r R) ([]byte, error)           { return ollama.Object(r) }
func (n Native[R]) WholeType() string                   { return JSON }
func (n Native[R]) ErrorBody(_ int, text string) []byte { return ollama.ErrorBody(text) }
func (n Native[R]) ErrorEnd(_ int, text string) []byte  { return append(ollama.ErrorBody(text), '\n') }
