package openai

import (
	"reflect"
	"testing"

	"github.com/axle-llm/axle/internal/fuzzguard"
	"github.com/axle-llm/axle/server/body"
)

// plainBodies are chats of which each is taken apart, and after them some that cannot be.
var plainBodies = []string{
	`{"model":"m","messages":[{"role":"User","content":"a\nb"}],"stream":true,"stream_options":{"include_usage":true}}`,
	`{"messages":[{"role":"user","content":[{"type":"text","text":"x"},{"type":"image_url","image_url":{"url":"data:,"}}]},{"content":[]}]}`,
	`{"messages":[{"role":"assistant","tool_calls":[{"id":"i","function":{"name":"f","arguments":"{}"}}]},{"role":"tool","content":"x"}]}`,
	`{"messages":[{"role":"user","content":null},{"role":"user"},{"role":"user","content":5}],"top_k":5,"response_format":{
	  "type":"json_schema","json_schema":{"strict":true,"schema":{}}},"tool_choice":"auto","logit_bias":{"1":2},"max_completion_tokens":3,"enable_thinking":true}`,
	`{"messages":[{"role":"user","content":"x"}],"max_tokens":1,"chat_template_kwargs":{"a":1},"store":false,"stop":["a"],"seed":7}`,
	// not these
	`{"messages":[]}`, `{"model":"m"}`, `{"messages":[{"role":5}]}`, `{"messages":[{"content":"x"}],"seed":"x"}`, `{"Stream":true}`,
	`{"messages":[{"content":"x"}],"top_k":"x"}`, `{"messages":[{"content":"x"}]} x`,
}

// TestPlain: a chat that is taken apart is what encoding/json makes of it.
func TestPlain(t *testing.T) {
	for i, body := range plainBodies {
		if taken := samePlain(t, []byte(body)); taken != (i < 5) {
			t.Errorf("taken apart: %v: %s", taken, body)
		}
	}
}

func samePlain(t *testing.T, body []byte) bool {
	t.Helper()
	c := plainChat(body)
	if c == nil {
		return false
	}
	if want, err := decodeChat(body); err != nil || !reflect.DeepEqual(c, want) {
		t.Errorf("%s\n got %+v\nwant %+v, %v", body, c, want, err)
	}
	return true
}

func FuzzPlain(f *testing.F) {
	for _, body := range plainBodies {
		f.Add([]byte(body))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		fuzzguard.Check(t, len(b), func() {
			if body.Check(b) == nil {
				samePlain(t, b)
			}
		})
	})
}
