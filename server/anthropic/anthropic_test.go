package anthropic

import (
	"errors"
	"testing"

	"github.com/ollama/ollama/api"
)

// No body makes a decoder panic, and whatever is refused has a status and a text.
func FuzzDecode(f *testing.F) {
	for _, s := range []string{`{}`, `{"model":"m","max_tokens":5,"messages":[{"role":"user","content":"x"}],"tools":[{"name":"f","input_schema":{"type":"object"}}],"tool_choice":{"type":"any"},"thinking":{"type":"enabled"}}`,
		`{"model":"m","max_tokens":5,"messages":[{"role":"assistant","content":[{"type":"tool_use","id":"a","name":"f","input":{"x":1}}]},{"role":"user","content":[{"type":"tool_result","tool_use_id":"a","content":[{"type":"text","text":"y"}]},{"type":"image","source":{"type":"base64","data":"AAAA"}}]}]}`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		_, err1 := Decode(b)
		_, err2 := DecodeCount(b)
		for _, err := range []error{err1, err2} {
			var se api.StatusError
			if err != nil && (!errors.As(err, &se) || se.StatusCode < 400 || se.ErrorMessage == "") {
				t.Errorf("an error without a status: %v", err)
			}
		}
	})
}

func TestToolChoice(t *testing.T) {
	const head = `{"model":"m","max_tokens":5,"messages":[{"role":"user","content":"x"}],"tools":[{"name":"f","input_schema":{"type":"object","minProperties":1}}],"tool_choice":`
	for in, want := range map[string]string{`{"type":"any"}`: "required", `{"type":"tool","name":"f"}`: "f", `{"type":"none"}`: "none", `{"type":"auto","disable_parallel_tool_use":true}`: "auto", `null`: ""} {
		r, err := Decode([]byte(head + in + "}"))
		if err != nil || r.Native.ToolChoice != want || r.Native.SerialTools != (want == "auto") || !r.Native.RelaxThink {
			t.Errorf("%s: %v", in, err)
		}
	}
	if _, err := Decode([]byte(head + `{"type":"maybe"}}`)); err == nil {
		t.Error("an unknown choice is taken")
	}
}
