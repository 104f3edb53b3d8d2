package server_test

import (
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
	"testing"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"

	"github.com/axle-llm/axle/server"
	"github.com/axle-llm/axle/server/scripted"
)

// TestPreviousResponse: a request that names the response before it goes on with that conversation,
// streamed or not; another key's, an unknown one and one that was not to be kept are 404, as OpenAI
// tells it.
func TestPreviousResponse(t *testing.T) {
	//proves:T17
	core, logs := observer.New(zapcore.InfoLevel)
	r := newRig(t, func(o *server.Options, _ *scripted.Config) {
		o.Log, o.LogPrompts = zap.New(core), true
		o.Keys = newKeys("ann", "secret-of-ann", "bob", "secret-of-bob")
	})
	ann, bob := []string{"X-Api-Key", "secret-of-ann"}, []string{"X-Api-Key", "secret-of-bob"}
	ask := func(input, more string, key []string) answer {
		if input != "" {
			input = `,"input":` + input
		}
		return r.post("/v1/responses", `{"model":"scripted-chat"`+input+more+`}`, key...)
	}
	// response is an answer's response, of a stream that of its last event; all events name the
	// same.
	response := func(a answer) (id string, previous any) {
		t.Helper()
		var resp struct {
			ID       string
			Previous any `json:"previous_response_id"`
		}
		for part := range strings.SplitSeq(strings.TrimSpace(a.body), "\n\n") {
			_, data, streams := strings.Cut(part, "\ndata: ")
			if !streams {
				data = `{"response":` + part + `}`
			}
			var ev struct{ Response json.RawMessage }
			if err := json.Unmarshal([]byte(data), &ev); err != nil {
				t.Fatal(err, a.body)
			}
			if len(ev.Response) == 0 {
				continue
			}
			before := resp
			resp.ID, resp.Previous = "", nil
			if err := json.Unmarshal(ev.Response, &resp); err != nil || before.ID != "" && before != resp {
				t.Errorf("%v: %+v, then %+v", err, before, resp)
			}
		}
		if len(resp.ID) != len("resp_")+24 {
			t.Fatalf("the id %q of %d %s", resp.ID, a.code, a.body)
		}
		return resp.ID, resp.Previous
	}
	told := func() string { // since it was last asked
		defer logs.TakeAll()
		return fmt.Sprint(logs.FilterMessage("prompt").All())
	}
	after := func(id string) string { return fmt.Sprintf(`,"previous_response_id":%q`, id) }
	const tools = `,"tools":[{"type":"function","name":"f","parameters":{"type":"object","properties":{"a":{"type":"string"}}}}]`
	for _, stream := range []string{"", `,"stream":true`} {
		first, none := response(ask(`"first-question [[say:<think>|first-thought|</think>|first-answer]]"`, `,"instructions":"be brief"`+stream, ann))
		second, previous := response(ask(`[{"role":"user","content":"second-question [[say:second-answer]]"}]`, after(first)+stream, ann))
		if none != nil || previous != first {
			t.Errorf("%s: follow %v and %v", stream, none, previous)
		}
		told()
		third, _ := response(ask(`"[[say:ok]]"`, after(second)+stream, ann))
		prompt := told()
		at := 0
		for _, said := range []string{"first-question", "first-thought", "first-answer", "second-question", "second-answer", "[[say:ok]]"} {
			i := strings.Index(prompt[at:], said)
			if i < 0 {
				t.Errorf("%s: %s is missing, or not in its place, in %s", stream, said, prompt)
				break
			}
			at += i
		}
		if strings.Contains(prompt, "be brief") {
			t.Errorf("%s: instructions are those of one request: %s", stream, prompt)
		}
		// One answer may be followed more than once, and by nothing new.
		if again, _ := response(ask(`"[[say:other]]"`, after(first)+stream, ann)); again == second {
			t.Errorf("%s: two responses %s", stream, again)
		}
		response(ask("", after(third)+stream, ann))
		// What a tool gave follows the call.
		called := ask(`"call f with a set to canary-argument"`, stream+tools, ann)
		_, rest, _ := strings.Cut(called.body, `"call_id":"`)
		callID, _, _ := strings.Cut(rest, `"`)
		call, _ := response(called)
		told()
		response(ask(`[{"type":"function_call_output","call_id":"`+callID+`","output":"canary-output [[say:done]]"}]`, after(call)+tools+stream, ann))
		if prompt := told(); !strings.Contains(prompt, "canary-argument") || !strings.Contains(prompt, "canary-output") {
			t.Errorf("%s: a tool's output: %s", stream, prompt)
		}
		unkept, _ := response(ask(`"[[say:x]]"`, `,"store":false`+stream, ann))
		for name, c := range map[string]struct {
			id  string
			key []string
		}{"another key": {first, bob}, "an unknown response": {"resp_1", ann}, "an item": {"msg_1", ann}, "not to be kept": {unkept, ann}} {
			a := ask(`"[[say:x]]"`, after(c.id)+stream, c.key)
			want := fmt.Sprintf(`{"error":{"message":%s,"type":"invalid_request_error","param":"previous_response_id",`+
				`"code":"previous_response_not_found"}}`, quote("Previous response with id '"+c.id+"' not found: the last answers are kept for "+
				`ten minutes, as long as there is room for them, those of a request with "store": false not at all; send the conversation itself`))
			if a.code != 404 || strings.TrimSpace(a.body) != want {
				t.Errorf("%s%s: %d %s\nwant %s", name, stream, a.code, a.body, want)
			}
		}
	}
	for _, c := range []struct {
		previous string
		code     int
		says     string
	}{
		{`5`, 400, "previous_response_id must be the id of a response, a text"},
		{`{"id":"x"}`, 400, "previous_response_id must be the id of a response, a text"},
		{`null`, 200, ""},
		{`""`, 200, ""},
	} {
		if a := ask(`"[[say:x]]"`, `,"previous_response_id":`+c.previous, ann); a.code != c.code || !strings.Contains(a.body, c.says) {
			t.Errorf("%s: %d %s", c.previous, a.code, a.body)
		}
	}
	if a := ask(`"previous_response_id [[say:x]]"`, "", ann); a.code != 200 {
		t.Errorf("a text with the word: %d %s", a.code, a.body)
	}
}

// TestIDs: answers have ids of 96 random bits, which cannot be guessed, and so have their parts.
func TestIDs(t *testing.T) {
	r := newRig(t)
	id := regexp.MustCompile(`"id":"((chatcmpl-|cmpl-|resp_|msg_|rs_)[^"]*)"`)
	seen := map[string]bool{}
	for path, body := range map[string]string{
		"/v1/chat/completions": chatBody("scripted-chat", "[[say:x]]", ""),
		"/v1/completions":      `{"model":"scripted","prompt":"[[say:x]]"}`,
		"/v1/responses":        `{"model":"scripted-chat","input":"[[say:<think>|hm|</think>|x]]","stream":true}`,
		"/v1/messages":         chatBody("scripted-chat", "[[say:x]]", `,"max_tokens":9`),
	} {
		of := map[string]bool{}
		for _, m := range id.FindAllStringSubmatch(r.post(path, body).body+r.post(path, body).body, -1) {
			if hex := strings.TrimPrefix(m[1], m[2]); len(hex) != 24 || strings.Trim(hex, "0123456789abcdef") != "" {
				t.Errorf("%s: the id %s", path, m[1])
			}
			of[m[1]] = true
		}
		if len(of) < 2 || path == "/v1/responses" && len(of) != 6 {
			t.Errorf("%s: two answers have the ids %v", path, of)
		}
		for id := range of {
			if seen[id] {
				t.Errorf("%s: %s came before", path, id)
			}
			seen[id] = true
		}
	}
}

// TestObjectSchema: a response_format of json_object that has a schema, as llama.cpp takes it,
// holds the answer to it, in every place that has such a format.
func TestObjectSchema(t *testing.T) {
	r := newRig(t)
	const blue = `"schema":{"type":"object","properties":{"color":{"enum":["blue"]}},"required":["color"],"additionalProperties":false}`
	text := func(a answer) string {
		m := a.object(t)
		for _, c := range asList(m["choices"]) {
			return c.(map[string]any)["message"].(map[string]any)["content"].(string)
		}
		for _, o := range asList(m["output"]) {
			return asList(o.(map[string]any)["content"])[0].(map[string]any)["text"].(string)
		}
		return a.body
	}
	for _, c := range []struct{ format, want string }{
		{`{"type":"json_object",` + blue + `}`, `{"color":"blue"}`},
		{`{"type":"json_object","schema":null}`, `{}`},
		{`{"type":"json_object","schema":{}}`, `{}`},
		{`{"type":"json_object"}`, `{}`},
		{`{"type":"text",` + blue + `}`, `prose`},
		{`{"type":"json_object","schema":5}`, `.schema must be a JSON schema, an object`},
		{`{"type":"json_object","schema":[` + `]}`, `.schema must be a JSON schema, an object`},
		{`{"type":"json_object","schema":{"type":"banana"}}`, `banana`},
	} {
		for _, a := range []answer{
			r.post("/v1/chat/completions", chatBody("scripted-chat", "[[say:prose]]", `,"reasoning_effort":"none","response_format":`+c.format)),
			r.post("/v1/responses", `{"model":"scripted-chat","input":"[[say:prose]]","reasoning":{"effort":"none"},"text":{"format":`+c.format+`}}`),
		} {
			if a.code == 200 && text(a) != c.want || a.code != 200 && (a.code != 400 || !strings.Contains(a.body, c.want)) {
				t.Errorf("%s: %d %s, want %s", c.format, a.code, a.body, c.want)
			}
		}
	}
}
