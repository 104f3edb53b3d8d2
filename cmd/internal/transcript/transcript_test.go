package transcript_test

import (
	"strings"
	"testing"

	"github.com/axle-llm/axle/cmd/internal/transcript"
	"github.com/axle-llm/axle/tokenizer/chat"
)

// TestPicturesInPlace: a picture stays between the words that it stood between, as it does when a
// server is asked.
func TestPicturesInPlace(t *testing.T) {
	for _, tt := range []struct {
		name, message, want string
		images              int
	}{
		{"between words", `"content":[{"type":"text","text":"a"},{"type":"image_url","image_url":{"url":"x"}},{"type":"text","text":"b"}]`,
			"a<>b", 1},
		{"two", `"content":[{"type":"image"},{"type":"text","text":"a"},{"type":"image"}]`, "<>a<>", 2},
		{"text alone", `"content":[{"type":"text","text":"a"},{"type":"text","text":"b"}]`, "", 0},
		{"Ollama's", `"content":"a","images":["x","y"]`, "", 2}, // no parts: the images first
		{"both", `"content":[{"type":"text","text":"a"},{"type":"image"}],"images":["x"]`, "<>a<>", 2},
	} {
		c, err := transcript.Read(strings.NewReader(`[{"role":"user",`+tt.message+`}]`), "-", "")
		if err != nil {
			t.Errorf("%s: %v", tt.name, err)
			continue
		}
		if got := inOrder(c.Messages[0].Parts); got != tt.want || len(c.Messages[0].Images) != tt.images {
			t.Errorf("%s: %q with %d pictures", tt.name, got, len(c.Messages[0].Images))
		}
	}
}

func inOrder(parts []chat.Part) string {
	var b strings.Builder
	for _, p := range parts {
		if p.Image {
			b.WriteString("<>")
		} else {
			b.WriteString(p.Text)
		}
	}
	return b.String()
}
