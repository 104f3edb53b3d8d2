package server_test

import (
	"bufio"
	"context"
	"fmt"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/axle-llm/axle/server"
	"github.com/axle-llm/axle/server/access"
	"github.com/axle-llm/axle/server/scripted"
)

// anyOf has the scripted model say one of eleven things of one to four words.
const anyOf = "[[any:a|b b|c|d d|e e e|f|g|h h h h|i|j|k k]]"

// TestChoicesOpenAI: n answers to one prompt differ, are the same each time where a seed is given,
// and are counted as OpenAI counts: the prompt once, what was written of all.
func TestChoicesOpenAI(t *testing.T) {
	r := newRig(t)
	for _, ask := range []func(more string) map[string]any{
		func(more string) map[string]any {
			return r.post("/v1/chat/completions", chatBody("scripted-chat", anyOf, more)).object(t)
		},
		func(more string) map[string]any {
			return r.post("/v1/completions", `{"model":"scripted","prompt":`+quote(anyOf)+more+`}`).object(t)
		},
	} {
		one := ask(`,"seed":42`)
		prompt, _, _ := usageIn(one)
		_, first := choicesOf(t, one)
		m := ask(`,"seed":42,"n":8`)
		_, texts := choicesOf(t, m)
		_, again := choicesOf(t, ask(`,"seed":42,"n":8`))
		different := slices.Compact(slices.Sorted(slices.Values(texts)))
		if len(texts) != 8 || !slices.Equal(texts, again) || texts[0] != first[0] || len(different) < 3 {
			t.Errorf("n 8: %q, then %q; alone %q", texts, again, first)
		}
		p, output, total := usageIn(m)
		if p != prompt || output != float64(len(strings.Fields(strings.Join(texts, " ")))) || total != p+output {
			t.Errorf("usage of %q: %v", texts, m["usage"])
		}
		// Without a seed the scripted model says what it has in turn; more answers than run at once
		// come too.
		if _, texts = choicesOf(t, ask(`,"n":44`)); len(texts) != 44 {
			t.Errorf("n 44: %q", texts)
		}
		counts := map[string]int{}
		for _, text := range texts {
			counts[text]++
		}
		for text, n := range counts {
			if n != 4 {
				t.Errorf("%q came %d times of 44", text, n)
			}
		}
	}
	for _, b := range r.loader.Backends() {
		if st := b.Stats(); st.Running != 0 || st.Queued != 0 || st.Cancelled != 0 {
			t.Errorf("left behind: %+v", st)
		}
	}
	if a := r.do("GET", "/metrics", ""); !strings.Contains(a.body, "axle_queue_seconds_count 8\n") {
		t.Errorf("requests, by when they began:\n%s", a.body)
	}
}

// inTurns says whether the choices of a stream take turns: a part of an earlier one follows one of
// a later.
func inTurns(chunks []map[string]any) bool {
	last := 0.0
	for _, d := range chunks {
		if c := asList(d["choices"]); len(c) > 0 {
			at := c[0].(map[string]any)["index"].(float64)
			if at < last {
				return true
			}
			last = at
		}
	}
	return false
}

// TestChoicesStream: the parts of several answers come with their index, each choice has its role
// and its reason once, usage comes once, and so does the end.
func TestChoicesStream(t *testing.T) {
	r := newRig(t)
	for path, body := range map[string]string{
		"/v1/chat/completions": chatBody("scripted-chat", "[[delay:20]][[say:<think>|hm|</think>|x| y| z]]",
			`,"n":3,"stream":true,"stream_options":{"include_usage":true}`),
		"/v1/completions": `{"model":"scripted","prompt":"[[delay:20]][[say:x| y| z]]","n":3,"stream":true,"stream_options":{"include_usage":true}}`,
	} {
		a := r.post(path, body)
		_, data, done := a.events(t)
		for range 9 { // a machine that is busy elsewhere may run one after another now and then
			if inTurns(data) {
				break
			}
			a = r.post(path, body)
			_, data, done = a.events(t)
		}
		texts, roles, reasons := make([]string, 3), [3]int{}, [3]string{}
		for i, d := range data {
			if i == len(data)-1 {
				if p, output, _ := usageIn(d); len(asList(d["choices"])) != 0 || p == 0 || output != 9 && output != 18 {
					t.Errorf("%s: the last chunk: %v", path, d)
				}
				break
			}
			c := asList(d["choices"])[0].(map[string]any)
			at := int(c["index"].(float64))
			text, isText := c["text"].(string)
			if !isText {
				delta := c["delta"].(map[string]any)
				text, _ = delta["content"].(string)
				if delta["role"] != nil {
					roles[at]++
				}
			}
			if texts[at] += text; reasons[at] != "" {
				t.Errorf("%s: after choice %d had ended: %v", path, at, c)
			}
			reasons[at], _ = c["finish_reason"].(string)
			if d["id"] != data[0]["id"] {
				t.Errorf("%s: %v has another id", path, d)
			}
		}
		if !done || !inTurns(data) || !slices.Equal(texts, []string{"x y z", "x y z", "x y z"}) ||
			reasons != [3]string{"stop", "stop", "stop"} ||
			roles != [3]int{1, 1, 1} && path != "/v1/completions" || strings.Count(a.body, "[DONE]") != 1 {
			t.Errorf("%s: done %v, mixed %v, %q, %q, roles %v:\n%s", path, done, inTurns(data), texts, reasons, roles, a.body)
		}
	}
	// A failure ends the stream of all.
	a := r.post("/v1/chat/completions", chatBody("scripted-chat", "[[say:a|b|c|d]][[crash]]", `,"n":3,"stream":true`))
	if strings.Contains(a.body, "[DONE]") || !strings.Contains(a.body, "unexpected EOF") {
		t.Errorf("a crash: %s", a.body)
	}
}

// TestChoicesEach: stop strings, calls and formats are those of each choice.
func TestChoicesEach(t *testing.T) {
	r := newRig(t)
	all, texts := choicesOf(t, r.post("/v1/chat/completions", chatBody("scripted-chat", "[[any:one two stop three|four five]]",
		`,"n":2,"stop":"stop"`)).object(t))
	if slices.Sort(texts); !slices.Equal(texts, []string{"four five", "one two "}) {
		t.Errorf("stop: %v", all)
	}
	all, _ = choicesOf(t, r.post("/v1/chat/completions", chatBody("scripted-chat", callWeather, weather+`,"n":3`)).object(t))
	ids := map[any]bool{}
	for _, c := range all {
		calls := asList(c["message"].(map[string]any)["tool_calls"])
		for i, call := range calls {
			call := call.(map[string]any)
			ids[call["id"]] = true
			if call["index"] != float64(i) {
				t.Errorf("call %d: %v", i, call)
			}
		}
		if c["finish_reason"] != "tool_calls" || len(calls) != 2 {
			t.Errorf("tools: %v", c)
		}
	}
	if len(all) != 3 || len(ids) != 6 {
		t.Errorf("%d choices, %d different calls", len(all), len(ids))
	}
	_, texts = choicesOf(t, r.post("/v1/chat/completions", chatBody("scripted-chat", "[[say:prose]]",
		`,"n":3,"reasoning_effort":"none","response_format":{"type":"json_schema","json_schema":{"name":"x","schema":{"type":"object",`+
			`"properties":{"color":{"enum":["blue"]}},"required":["color"],"additionalProperties":false}}}`)).object(t))
	if want := `{"color":"blue"}`; !slices.Equal(texts, []string{want, want, want}) {
		t.Errorf("format: %q", texts)
	}
}

// TestBestOf: the likeliest of more answers are told, the best first, and all that were written are
// counted.
func TestBestOf(t *testing.T) {
	r := newRig(t)
	m := r.post("/v1/completions", `{"model":"scripted","prompt":`+quote(anyOf)+`,"best_of":11,"n":3}`).object(t)
	all, texts := choicesOf(t, m)
	prompt, output, total := usageIn(m)
	if !slices.Equal(texts, []string{"a", "b b", "c"}) || all[0]["logprobs"] != nil || output != 19 || total != prompt+output {
		t.Errorf("the best three of eleven: %v", m)
	}
	// As many as there are stay in their order, and may be streamed.
	m = r.post("/v1/completions", `{"model":"scripted","prompt":`+quote(anyOf)+`,"best_of":2,"n":2}`).object(t)
	if _, texts = choicesOf(t, m); len(texts) != 2 {
		t.Errorf("two of two: %v", m)
	}
	if a := r.post("/v1/completions", `{"model":"scripted","prompt":"[[say:x]]","best_of":2,"n":2,"stream":true}`); a.code != 200 {
		t.Errorf("two of two, streamed: %d %s", a.code, a.body)
	}
}

// TestEcho: the prompt as it was sent stands before each answer.
func TestEcho(t *testing.T) {
	r := newRig(t)
	const prompt = "Say [[say:x| y]]"
	for n := 1; n <= 2; n++ {
		body := fmt.Sprintf(`{"model":"scripted","prompt":%s,"echo":true,"n":%d`, quote(prompt), n)
		m := r.post("/v1/completions", body+`}`).object(t)
		_, texts := choicesOf(t, m)
		if len(texts) != n || texts[0] != prompt+"x y" || texts[n-1] != texts[0] {
			t.Errorf("%d: %v", n, m)
		}
		_, data, done := r.post("/v1/completions", body+`,"stream":true}`).events(t)
		texts = make([]string, n)
		for _, d := range data {
			c := asList(d["choices"])[0].(map[string]any)
			texts[int(c["index"].(float64))] += c["text"].(string)
		}
		if !done || texts[0] != prompt+"x y" || texts[n-1] != texts[0] {
			t.Errorf("%d, streamed: %v", n, data)
		}
	}
}

// TestTextLogprobs: completions tell log probabilities in OpenAI's lists, of each choice, in one
// piece or streamed.
func TestTextLogprobs(t *testing.T) {
	r := newRig(t)
	const body = `{"model":"scripted","prompt":"[[say:é|ab| c]]","logprobs":%d%s}`
	want := func(tops bool) map[string]any {
		w := map[string]any{"tokens": []any{"é", "ab", " c"}, "token_logprobs": []any{-0.25, -0.25, -0.25},
			"text_offset": []any{0.0, 1.0, 3.0}, "top_logprobs": nil}
		if tops {
			w["top_logprobs"] = []any{map[string]any{"é": -0.25, "alt1": -1.25}, map[string]any{"ab": -0.25, "alt1": -1.25},
				map[string]any{" c": -0.25, "alt1": -1.25}}
		}
		return w
	}
	for _, top := range []int{0, 2} {
		for _, more := range []string{"", `,"n":2`} {
			all, _ := choicesOf(t, r.post("/v1/completions", fmt.Sprintf(body, top, more)).object(t))
			for _, c := range all {
				if !reflect.DeepEqual(c["logprobs"], want(top > 0)) {
					t.Errorf("%d%s: %v", top, more, c["logprobs"])
				}
			}
			_, data, _ := r.post("/v1/completions", fmt.Sprintf(body, top, more+`,"stream":true`)).events(t)
			got := map[any]map[string]any{}
			for _, d := range data {
				c := asList(d["choices"])[0].(map[string]any)
				of := got[c["index"]]
				if of == nil {
					of = map[string]any{"tokens": []any{}, "token_logprobs": []any{}, "text_offset": []any{}, "top_logprobs": nil}
					got[c["index"]] = of
				}
				l, _ := c["logprobs"].(map[string]any)
				for key, v := range l {
					if v := asList(v); v != nil {
						of[key] = append(asList(of[key]), v...)
					}
				}
			}
			for i, l := range got {
				if !reflect.DeepEqual(l, want(top > 0)) {
					t.Errorf("%d%s, streamed, choice %v: %v", top, more, i, l)
				}
			}
		}
	}
	// Of what a model thinks nothing is in the text, and nothing is told.
	m := r.post("/v1/completions", `{"model":"scripted-chat","prompt":"[[say:<think>|hm|</think>|so]]","logprobs":0}`).object(t)
	all, _ := choicesOf(t, m)
	if l, _ := all[0]["logprobs"].(map[string]any); all[0]["text"] != "so" || !reflect.DeepEqual(l["tokens"], []any{"so"}) {
		t.Errorf("thinking: %v", m)
	}
	m = r.post("/v1/completions", `{"model":"scripted-chat","prompt":"[[say:<think>|hm]]","logprobs":0}`).object(t)
	all, _ = choicesOf(t, m)
	if l, _ := all[0]["logprobs"].(map[string]any); l == nil || len(asList(l["tokens"])) != 0 || asList(l["text_offset"]) == nil {
		t.Errorf("an answer without a word: %v", m)
	}
	if m := r.post("/v1/completions", `{"model":"scripted","prompt":"[[say:x]]","logprobs":null}`).object(t); len(asList(m["choices"])) != 1 ||
		asList(m["choices"])[0].(map[string]any)["logprobs"] != nil {
		t.Errorf("none: %v", m)
	}
}

// TestChoicesRefused: numbers of answers that cannot be are refused with a sentence, and so is more
// than is kept at once.
func TestChoicesRefused(t *testing.T) {
	//proves:T3
	r := newRig(t)
	const chat, text = "/v1/chat/completions", "/v1/completions"
	for _, c := range []struct {
		path, more string
		code       int
		says       string
	}{
		{chat, `,"n":0`, 400, "n must be between 1 and 128, got 0"},
		{chat, `,"n":-1`, 400, "n must be between 1 and 128, got -1"},
		{chat, `,"n":129`, 400, "n must be between 1 and 128, got 129"},
		{text, `,"n":200`, 400, "n must be between 1 and 128, got 200"},
		{text, `,"n":1.5`, 400, "json: cannot unmarshal number 1.5 into Go struct field extra.n of type int"},
		{chat, `,"n":"2"`, 400, "json: cannot unmarshal string into Go struct field extra.n of type int"},
		{text, `,"best_of":0`, 400, "best_of must be between 1 and 128, got 0"},
		{text, `,"best_of":129`, 400, "best_of must be between 1 and 128, got 129"},
		{text, `,"n":3,"best_of":2`, 400, "best_of must not be less than n: the best 3 of 2 cannot be told"},
		{text, `,"best_of":2,"stream":true`, 400,
			"best_of cannot be streamed, since which answers are the best is known at their end: leave out stream, or ask for n"},
		{chat, `,"best_of":2`, 400, "best_of is for /v1/completions: a chat takes n"},
		{chat, `,"echo":true`, 400, "echo is for /v1/completions: a chat's answer does not repeat its messages"},
		{text, `,"logprobs":-1`, 400, "logprobs must be between 0 and 20, got -1"},
		{text, `,"logprobs":21`, 400, "logprobs must be between 0 and 20, got 21"},
		{text, `,"logprobs":1,"echo":true`, 400, "echo and logprobs cannot be had together: the prompt stands inside the model's template, " +
			"so its tokens have no log probabilities of their own"},
		{text, `,"n":128,"logprobs":20,"max_tokens":4000`, 413, "128 answers of 4000 tokens with 21 log probabilities each are more than " +
			"the server keeps until all are there: stream them, set a lower max_tokens, or ask for fewer answers"},
		{chat, `,"n":null,"echo":false`, 200, ""},
		{text, `,"n":null,"best_of":null,"echo":null`, 200, ""},
	} {
		body := chatBody("scripted-chat", "[[say:x]]", c.more)
		if c.path == text {
			body = `{"model":"scripted","prompt":"[[say:x]]"` + c.more + `}`
		}
		a := r.post(c.path, body)
		e, _ := a.object(t)["error"].(map[string]any)
		if says, _ := e["message"].(string); a.code != c.code || says != c.says {
			t.Errorf("%s: %d %q\nwant %d %q", c.more, a.code, says, c.code, c.says)
		}
	}
}

// TestChoicesPlaces: a request's answers take the places of its key, as far as there are any, and
// give them back; a client that leaves ends all of them.
func TestChoicesPlaces(t *testing.T) {
	//proves:T16
	r := newRig(t, func(o *server.Options, _ *scripted.Config) {
		o.Keys = access.New(access.Line{Name: "ann", Key: "secret-of-ann", Role: access.Ask, Limits: access.Limits{Requests: 2}})
	})
	key := []string{"Authorization", "Bearer secret-of-ann"}
	running := func() int { return r.loader.Backends()[0].Stats().Running }
	m := r.post("/v1/chat/completions", chatBody("scripted-chat", anyOf, `,"n":9`), key...).object(t)
	if all, _ := choicesOf(t, m); len(all) != 9 {
		t.Fatalf("nine answers in two places: %v", m)
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, "POST", r.url+"/v1/chat/completions",
		strings.NewReader(chatBody("scripted-chat", "[[delay:50]]", `,"n":9,"stream":true,"reasoning_effort":"none"`)))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set(key[0], key[1])
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	for lines := bufio.NewScanner(resp.Body); lines.Scan(); {
		if n := running(); n > 2 {
			t.Fatalf("%d answers run, the key has two places", n)
		}
		if strings.Contains(lines.Text(), `"index":1`) { // both places are taken
			break
		}
	}
	if a := r.post("/v1/chat/completions", chatBody("scripted-chat", "[[say:x]]", ""), key...); a.code != 429 {
		t.Errorf("a third beside two: %d %s", a.code, a.body)
	}
	cancel()
	waitFor(t, "the end of all answers", func() bool { return running() == 0 })
	waitFor(t, "the places", func() bool {
		return r.post("/v1/chat/completions", chatBody("scripted-chat", "[[say:x]]", ""), key...).code == 200
	})
	if st := r.loader.Backends()[0].Stats(); st.Cancelled != 2 || st.Queued != 0 {
		t.Errorf("%d were broken off, %d wait", st.Cancelled, st.Queued)
	}
}

// waitFor waits until something is so.
func waitFor(t *testing.T, what string, so func() bool) {
	t.Helper()
	for end := time.Now().Add(patience); !so(); <-time.After(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("still waiting for %s", what)
		}
	}
}

// choicesOf are an answer's choices.
func choicesOf(t *testing.T, m map[string]any) (all []map[string]any, texts []string) {
	t.Helper()
	for i, c := range asList(m["choices"]) {
		c := c.(map[string]any)
		if c["index"] != float64(i) {
			t.Errorf("choice %d: %v", i, c)
		}
		text, isText := c["text"].(string)
		if !isText {
			text, _ = c["message"].(map[string]any)["content"].(string)
		}
		all, texts = append(all, c), append(texts, text)
	}
	return all, texts
}

func usageIn(m map[string]any) (prompt, output, total float64) {
	u, _ := m["usage"].(map[string]any)
	prompt, _ = u["prompt_tokens"].(float64)
	output, _ = u["completion_tokens"].(float64)
	total, _ = u["total_tokens"].(float64)
	return prompt, output, total
}
