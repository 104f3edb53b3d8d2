package openai

import (
	"strings"
	"testing"
	"time"

	"github.com/axle-llm/axle/ask"
)

// TestTranscriptionPartial: a streamed answer asks for parts, and has an event for what each adds.
// The deltas together are the text. Other answers have whole segments alone.
func TestTranscriptionPartial(t *testing.T) {
	if NewTranscription().Request().Partial {
		t.Error("a whole answer asks for parts")
	}
	h := NewTranscription()
	if err := h.Set("stream", "true"); err != nil || !h.Request().Partial {
		t.Error(err, "a streamed answer asks for no parts")
	}
	got := ""
	for _, s := range []ask.Segment{
		{Text: "one", Language: "en", Partial: true},
		{Text: "one two", Language: "en", Partial: true},
		{Text: "one two three", Language: "en"},
		{Text: "four", Language: "en", Partial: true},
		{Text: "four 五", Language: "zh", Partial: true},
		{Text: "four 五", Language: "zh"},
		{Text: "六", Language: "zh"},
		{Text: "seven", Language: "en"},
	} {
		b, err := h.Add(s)
		if err != nil {
			t.Fatal(err)
		}
		_, delta, _ := strings.Cut(string(b), `"delta":"`)
		delta, _, _ = strings.Cut(delta, `"`)
		if got += delta + "|"; (delta == "") != (b == nil) {
			t.Errorf("an event without text: %q", b)
		}
	}
	if want := "one| two| three| four| 五||六| seven|"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	b, err := h.Finish(time.Second)
	if want := `"text":"one two three four 五六 seven"`; err != nil || !strings.Contains(string(b), want) {
		t.Errorf("%s, %v; want %s", b, err, want)
	}
}
