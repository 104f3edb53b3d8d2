package server_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"

	"github.com/axle-llm/axle/server"
	"github.com/axle-llm/axle/server/scripted"
)

// Clients that believe answers are stored (the AI SDK, by default) name the items of the last
// answer in place of sending them. The model is asked with the items themselves, streamed or not;
// another key, an unknown id and a second mention are refused.
func TestItemReference(t *testing.T) {
	//proves:T17
	core, logs := observer.New(zapcore.InfoLevel)
	r := newRig(t, func(o *server.Options, _ *scripted.Config) {
		o.Log, o.LogPrompts = zap.New(core), true
		o.Keys = newKeys("ann", "secret-of-ann", "bob", "secret-of-bob")
	})
	ann, bob := []string{"X-Api-Key", "secret-of-ann"}, []string{"X-Api-Key", "secret-of-bob"}
	tools := `,"tools":[{"type":"function","name":"f","parameters":{"type":"object","properties":{"a":{"type":"string"}}}}]`
	ask := func(input, more string, key []string) answer {
		return r.post("/v1/responses", `{"model":"scripted-chat","input":`+input+more+`}`, key...)
	}
	// items are an answer's, of a stream those of its last event; every event names its item by the
	// id that it ends with.
	items := func(a answer) (ids []string) {
		t.Helper()
		var resp struct{ Output []struct{ ID, Type string } }
		body := a.body
		if strings.HasPrefix(body, "event: ") {
			at := strings.LastIndex(body, "data: ")
			var ev struct{ Response json.RawMessage }
			if err := json.Unmarshal([]byte(body[at+len("data: "):]), &ev); err != nil {
				t.Fatal(err, body)
			}
			body = string(ev.Response)
		}
		if err := json.Unmarshal([]byte(body), &resp); err != nil {
			t.Fatal(err, body)
		}
		for _, it := range resp.Output {
			if len(it.ID) < 15 || strings.HasPrefix(a.body, "event: ") && strings.Count(a.body, `"`+it.ID+`"`) < 3 {
				t.Errorf("the id %s of\n%s", it.ID, a.body)
			}
			ids = append(ids, it.ID)
		}
		return ids
	}
	refs := func(ids ...string) string {
		var out []string
		for _, id := range ids {
			out = append(out, fmt.Sprintf(`{"type":"item_reference","id":%q}`, id))
		}
		return strings.Join(out, ",")
	}
	for _, stream := range []string{"", `,"stream":true`} {
		first := ask(`"[[say:<think>|hidden-thought|</think>|canary-text]]"`, stream, ann)
		ids := items(first)
		if first.code != 200 || len(ids) != 2 {
			t.Fatalf("%d %s", first.code, first.body)
		}
		logs.TakeAll()
		second := ask(`[{"role":"user","content":"x"},`+refs(ids...)+`,{"role":"user","content":"[[say:two]]"}]`, stream+tools, ann)
		told := fmt.Sprint(logs.FilterMessage("prompt").All())
		if second.code != 200 || !strings.Contains(told, "canary-text") || !strings.Contains(told, "hidden-thought") {
			t.Errorf("references%s: %d %s\n%s", stream, second.code, second.body, told)
		}
		for _, tt := range []struct {
			name, input string
			key         []string
			code        int
			says        string
		}{
			{"another key", refs(ids[0]), bob, 404, "ten minutes"},
			{"an unknown item", refs("msg_1"), ann, 404, "item 'msg_1' not found"},
			{"twice", refs(ids[0], ids[0]), ann, 400, "named twice"},
			{"no id", `{"type":"item_reference"}`, ann, 400, "needs an id"},
			{"an item that is none", `{"type":"item_reference","id":5}`, ann, 400, ""},
		} {
			if a := ask("["+tt.input+"]", stream, tt.key); a.code != tt.code || !strings.Contains(a.body, tt.says) {
				t.Errorf("%s: %d %s", tt.name, a.code, a.body)
			}
		}
		called := ask(`"call f with a set to canary-argument"`, stream+tools, ann)
		logs.TakeAll()
		var callID string
		if _, rest, ok := strings.Cut(called.body, `"call_id":"`); ok {
			callID, _, _ = strings.Cut(rest, `"`)
		}
		back := ask(`[`+refs(items(called)...)+`,{"type":"function_call_output","call_id":"`+callID+
			`","output":"done"},{"role":"user","content":"[[say:ok]]"}]`, stream+tools, ann)
		if told := fmt.Sprint(logs.FilterMessage("prompt").All()); callID == "" || back.code != 200 ||
			!strings.Contains(told, "{"+callID+" f [") {
			t.Errorf("a call%s: %d %s\n%s", stream, back.code, back.body, told)
		}
		for _, id := range items(ask(`"[[say:x]]"`, stream+`,"store":false`, ann)) {
			if a := ask("["+refs(id)+"]", stream, ann); a.code != 404 {
				t.Errorf("an answer that was not to be kept: %d %s", a.code, a.body)
			}
		}
	}
	if a := ask(`"[[say:x]] item_reference"`, "", ann); a.code != 200 {
		t.Errorf("a text with the word: %d %s", a.code, a.body)
	}
}
