package prompt

import "github.com/axle-llm/axle/ask"

// Speaking is a request to speak a text, and its answer, in a dialect.
type Speaking interface {
	Model() string
	// Request is what is asked of a model that has these voices, without the key.
	Request(voices []ask.Voice) (ask.SpeakRequest, error)
	// Add makes a part of the answer of the samples that come next. last says that no more do, so
	// that an answer whose first samples are its last can say how long it is.
	Add(samples []float32, rate int, last bool) ([]byte, error)
	Type() string
	ErrorBody(status int, text string) []byte
	ErrorEnd(status int, text string) []byte
	WholeType() string
}
