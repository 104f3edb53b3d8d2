package openai

import (
	"errors"
	"testing"

	"github.com/ollama/ollama/api"
)

// No body makes a decoder panic, and whatever is refused has a status and a text.
func FuzzDecode(f *testing.F) {
	for _, s := range []string{`{}`, `{"model":"m","messages":[{"role":"user","content":[{"type":"text","text":"a"},{"type":"image_url","image_url":{"url":"data:image/png;base64,AAAA"}}]}],"tool_choice":"required","tools":[{"function":{"name":"f"}}],"logit_bias":{"1":2}}`,
		`{"messages":[{"role":"tool","content":[],"tool_call_id":"x"},{"role":"assistant","content":null,"tool_calls":[{"id":"x","function":{"name":"f","arguments":"{}"}}]}]}`,
		`{"model":"m","prompt":"x","logprobs":3}`, `{"input":["a"],"encoding_format":"base64"}`, `{"input":[{"type":"message","role":"user","content":"x"},{"type":"function_call","arguments":"{}"}],"tools":[{"type":"function","name":"f"}]}`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		_, err1 := DecodeChat(b)
		_, err2 := DecodeCompletion(b)
		_, err3 := DecodeEmbeddings(b)
		_, err4 := DecodeResponses(b)
		_, err5 := DecodeCompaction(b)
		for _, err := range []error{err1, err2, err3, err4, err5} {
			var se api.StatusError
			if err != nil && (!errors.As(err, &se) || se.StatusCode < 400 || se.ErrorMessage == "") {
				t.Errorf("an error without a status: %v", err)
			}
		}
	})
}

// The parts of a message stay one message; a tool's result keeps what it answers.
func TestParts(t *testing.T) {
	c, err := DecodeChat([]byte(`{"model":"m","messages":[
		{"role":"developer","content":"be brief"},
		{"role":"user","content":[{"type":"text","text":"a"},{"type":"image_url","image_url":{"url":"data:image/png;base64,AAAA"}},{"type":"text","text":"b"}]},
		{"role":"assistant","content":"","tool_calls":[{"id":"c1","function":{"name":"f","arguments":"{\"x\":1}"}}]},
		{"role":"tool","tool_call_id":"c1","content":[{"type":"text","text":"42"}]},
		{"role":"user","content":[]}]}`))
	if err != nil {
		t.Fatal(err)
	}
	m := c.Native.Messages
	if len(m) != 5 || m[0].Role != "system" || m[1].Content != "a\nb" || len(m[1].Images) != 1 || len(m[2].ToolCalls) != 1 || m[3].ToolName != "f" || m[3].ToolCallID != "c1" || m[3].Content != "42" || m[4].Content != "" {
		t.Errorf("%+v", m)
	}
	// Absent temperature and top_p are OpenAI's, not Ollama's.
	if c.Native.Options["temperature"] != 1.0 || c.Native.Options["top_p"] != 1.0 {
		t.Errorf("%v", c.Native.Options)
	}
}

func TestToolChoice(t *testing.T) {
	const head = `{"model":"m","messages":[{"role":"user","content":"x"}],"tools":[{"type":"function","function":{"name":"f"}}],"tool_choice":`
	for in, want := range map[string]string{`null`: "", `"auto"`: "auto", `"none"`: "none", `"required"`: "required", `{"type":"function","function":{"name":"f"}}`: "f", `{"type":"function","name":"f"}`: "f"} {
		c, err := DecodeChat([]byte(head + in + "}"))
		if err != nil || c.Native.ToolChoice != want {
			t.Errorf("%s: %v", in, err)
		}
	}
	for _, in := range []string{`"any"`, `{"function":{"name":"g"}}`, `5`, `[]`} {
		if _, err := DecodeChat([]byte(head + in + "}")); err == nil {
			t.Errorf("%s is taken", in)
		}
	}
}
