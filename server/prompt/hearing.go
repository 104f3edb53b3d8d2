package prompt

import (
	"strings"
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

// Spoken puts segments together to a text.
type Spoken struct {
	some  bool
	begun string // what the text has of the segment that goes on
}

// Add returns what a segment adds to the text: after the text before, with the space that its
// language has between sentences, and of a segment that goes on what was not told yet.
func (t *Spoken) Add(s ask.Segment) string {
	more := strings.TrimPrefix(s.Text, t.begun)
	if t.begun == "" && t.some && s.Text != "" && s.Language != "zh" && s.Language != "yue" && s.Language != "ja" {
		more = " " + more
	}
	if t.begun = ""; s.Partial {
		t.begun = s.Text
	}
	t.some = t.some || more != ""
	return more
}
