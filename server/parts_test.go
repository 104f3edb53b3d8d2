package server_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/axle-llm/axle/sampler"
	"github.com/axle-llm/axle/server"
	"github.com/axle-llm/axle/server/prompt"
	"github.com/axle-llm/axle/tokenizer/chat"
)

// TestParts: text, picture, text reaches the engine in that order, in every dialect that can say
// it, whichever message it stands in; and a model that sees nothing gets the text alone.
func TestParts(t *testing.T) {
	const png = "iVBORw0KGgo="
	url := func(text string) string {
		return fmt.Sprintf(`{"type":"text","text":%q},{"type":"image_url","image_url":{"url":"data:image/png;base64,%s"}}`, text, png)
	}
	item := func(text string) string {
		return fmt.Sprintf(`{"type":"input_text","text":%q},{"type":"input_image","image_url":"data:image/png;base64,%s"}`, text, png)
	}
	block := func(text string) string {
		return fmt.Sprintf(`{"type":"text","text":%q},{"type":"image","source":{"type":"base64","media_type":"image/png","data":%q}}`, text,
			png)
	}
	look := []chat.Part{{Text: "look "}, {Image: true}, {Text: "and"}, {Image: true}, {Text: " say"}}
	tool := []chat.Part{{Text: "here"}, {Image: true}, {Text: "it is"}}
	for _, tt := range []struct {
		name, body string
		path       string
		want       map[int][]chat.Part
	}{
		{"chat completions", `{"model":"m","messages":[{"role":"user","content":"x"},{"role":"user","content":[` + url("look ") + `,` +
			url("and") + `,{"type":"text","text":" say"}]},{"role":"user","content":[` + url("here") + `,{"type":"text","text":"it is"}]}]}`,
			"/v1/chat/completions", map[int][]chat.Part{1: look, 2: tool}},
		{"responses", `{"model":"m","instructions":"be","input":[{"type":"message","role":"user","content":[` + item("look ") + `,` +
			item("and") + `,{"type":"input_text","text":" say"}]},{"type":"function_call","call_id":"a","name":"f","arguments":"{}"},` +
			`{"type":"function_call_output","call_id":"a","output":[` + item("here") + `,{"type":"input_text","text":"it is"}]}]}`,
			"/v1/responses", map[int][]chat.Part{1: look, 3: tool}},
		{"messages", `{"model":"m","max_tokens":5,"system":"be","messages":[{"role":"user","content":"x"},{"role":"assistant","content":[` +
			`{"type":"tool_use","id":"a","name":"f","input":{}}]},{"role":"user","content":[` + block("look ") +
			`,{"type":"tool_result","tool_use_id":"a","content":[` + block("here") + `,{"type":"text","text":"it is"}]},` + block("and") +
			`,{"type":"text","text":" say"}]}]}`,
			"/v1/messages", map[int][]chat.Part{3: tool, 4: look}},
	} {
		asked, err := server.Decode(tt.path, []byte(tt.body))
		if err != nil {
			t.Errorf("%s: %v", tt.name, err)
			continue
		}
		for _, sees := range []bool{true, false} {
			er, _, _, err := asked.Engine(sampler.Defaults(), prompt.Model{Caps: chat.Capabilities{Vision: sees}})
			if err != nil {
				t.Fatal(err)
			}
			for i, m := range er.Messages {
				want := tt.want[i]
				if !sees {
					want = nil
				}
				if !slices.Equal(m.Parts, want) {
					t.Errorf("%s, sees: %v, message %d of %d: parts %+v, want %+v", tt.name, sees, i, len(er.Messages), m.Parts, want)
				}
			}
			if last := len(er.Messages) - 1; tt.want[last] == nil {
				t.Errorf("%s: %d messages", tt.name, last+1)
			}
		}
	}
}
