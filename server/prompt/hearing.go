package prompt

import (
	"time"

	"github.com/axle-llm/axle/ask"
)

// Hearing is a request to write speech down, and its answer, in a dialect. Its form's fields are
// set, then it is checked, then the segments are added in order.
type Hearing interface {
	Set(name, value string) error // a field; one that means nothing is left out
	Check() error
	Model() string
	Request() ask.TranscribeRequest // without its sound and key
	Streams() bool
	Add(s ask.Segment) (event []byte, err error) // nil: there is nothing to send
	Finish(length time.Duration) ([]byte, error) // the whole answer, or a stream's last event
	Type() string
	ErrorBody(status int, text string) []byte
	ErrorEnd(status int, text string) []byte
	WholeType() string
}

// Spoken is a segment's text as it follows the text before it, with the space that the language
// has between sentences.
func Spoken(before bool, s ask.Segment) string {
	if !before || s.Text == "" || s.Language == "zh" || s.Language == "yue" || s.Language == "ja" {
		return s.Text
	}
	return " " + s.Text
}
