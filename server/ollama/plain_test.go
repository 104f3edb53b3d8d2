package ollama

import (
	"reflect"
	"testing"

	"github.com/axle-llm/axle/internal/fuzzguard"
	"github.com/axle-llm/axle/server/body"
)

// TestTakeApart: what is taken apart means what encoding/json finds in it, and what it might read
// in another way is left to it.
func TestTakeApart(t *testing.T) {
	for _, b := range apart {
		if _, ok := body.TakeApart([]byte(b)); !ok {
			t.Errorf("is left to encoding/json: %s", b)
		}
		sameChat(t, []byte(b))
	}
	for _, b := range whole {
		if _, ok := plainChat([]byte(b)); ok {
			t.Errorf("is taken apart: %s", b)
		}
		sameChat(t, []byte(b))
	}
}

// apart are bodies that are taken apart, and whole those that are left to encoding/json.
var apart, whole = []string{
	`{"model":"m","messages":[{"role":"User","content":"hello"}],"stream":false}`,
	` { "model" : "m" , "messages" : [ { "content" : "a\nb\u00e9\ud83d\ude00\ud800" , "role" : "user" } ] , "stream" : true } ` + "\n",
	`{"messages":[]}`, `{}`, `{"model":"é€😀` + "\u2028" + `"}`, `{"messages":[{"role":"user","content":"` + "\x7f\xff" + `"}]}`,
	`{"messages":[{"role":"user","content":"x","images":["aGk="]},{"role":"tool","content":"{}","tool_name":"f"}]}`,
	`{"messages":[{"role":"assistant","tool_calls":[{"function":{"name":"f","arguments":{"a":[1,"]"]}}}]},{"content":null}, {}]}`,
	`{"messages":[{"role":"a","role":"b","content":"x"},{"ROLE":"a","content":"x"},{"content":"x","Content":"y"}]}`,
	`{"options":{"stop":["}","\""],"seed":1e3},"model":"m","keep_alive":"5m","format":{"type":"object"},"think":true,"unknown":[{}]}`,
	`{"tools":[{"type":"function","function":{"name":"f","parameters":{"type":"object"}}}],"messages":[{"role":"user","content":""}]}`,
	`{"max_tokens":3,"temperature":0.5,"stop":"x","n":null,"response_format":{"type":"json_object"},"messages":[{"content":"a"}]}`,
	`{"messages":[{"role":"user","content":[{"type":"text","text":"x"},{"type":"image_url","image_url":{"url":"data:,"}}]}]}`,
}, []string{
	``, `[]`, `null`, `{"model":"m"}{}`, `{"model":"m"} x`, "{}\x00", `{"model":"a","model":"b"}`, `{"model":null}`, `{"Model":"m"}`,
	`{"ſtream":true}`, `{"stream":"yes"}`, `{"stream":null}`, `{"stream":tru}`, `{"messages":null}`, `{"messages":{}}`,
	`{"messages":["x"]}`, `{"messages":[null]}`, `{"messages":[{"role":"user","content":"x"},]}`,
	`{"messages":[{"role":"user","content":"x"}`, `{"model":"m",}`, `{,}`, `{"a":{]}`, `{"a":[}]}`, `{"model":"a` + "\n" + `b"}`,
	`{"model":"\x"}`, `{"\u006dodel":"m"}`, `{"a":}`, `{"a":1 2}`, `{"a":1"b":2}`, `{"a":01}`, `{"a":[1,]}`, `{"model"`, `{"model":"`,
	`{"messages":[{"role":"user","content":5}]}`, `{"messages":[{]}]}`, `{"options":5}`, `{"keep_alive":"x"}`,
	`{"think":"x y","model":5}`,
}

// sameChat wants a body that can be taken apart to be what encoding/json makes of it.
func sameChat(t *testing.T, body []byte) {
	t.Helper()
	plain, ok := plainChat(body)
	if !ok {
		return
	}
	if want, err := decodeChat(body); err != nil || !reflect.DeepEqual(plain, *want) {
		t.Errorf("%s\n got %+v\nwant %+v, %v", body, plain, want, err)
	}
}

func FuzzTakeApart(f *testing.F) {
	for _, b := range append(apart, whole...) {
		f.Add([]byte(b))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		fuzzguard.Check(t, len(b), func() {
			if body.Check(b) == nil {
				sameChat(t, b)
			}
		})
	})
}
