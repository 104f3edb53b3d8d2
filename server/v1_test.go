package server_test

import (
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"math"
	"strings"
	"testing"
)

// The role comes once, thinking in delta.reasoning, a call whole, the reason on a chunk of its own,
// usage only when asked, then [DONE].
func TestOpenAIStream(t *testing.T) {
	r := newRig(t)
	a := r.post("/v1/chat/completions", chatBody("scripted-chat", "[[say:<think>|hm|</think>|Hi| you]]",
		`,"stream":true,"stream_options":{"include_usage":true}`))
	_, data, done := a.events(t)
	if !done {
		t.Error("no [DONE]")
	}
	roles, text, reasoning := 0, "", ""
	for i, d := range data {
		choices := d["choices"].([]any)
		if i == len(data)-1 {
			usage, _ := d["usage"].(map[string]any)
			if len(choices) != 0 || usage["completion_tokens"] == nil || usage["ttft_ms"] == nil {
				t.Errorf("last chunk %v", d)
			}
			continue
		}
		choice := choices[0].(map[string]any)
		delta := choice["delta"].(map[string]any)
		if delta["role"] != nil {
			roles++
		}
		s, _ := delta["content"].(string)
		text += s
		s, _ = delta["reasoning"].(string)
		reasoning += s
		if last := i == len(data)-2; last != (choice["finish_reason"] != nil) || last && len(delta) != 0 || d["usage"] != nil {
			t.Errorf("chunk %d: %v", i, d)
		}
		if d["id"] != data[0]["id"] || d["created"] != data[0]["created"] || d["object"] != "chat.completion.chunk" ||
			d["system_fingerprint"] != "fp_ollama" {
			t.Errorf("chunk %d: %v", i, d)
		}
	}
	if roles != 1 || text != "Hi you" || reasoning != "hm" {
		t.Errorf("%d roles, %q, %q", roles, text, reasoning)
	}
	_, data, _ = r.post("/v1/chat/completions", chatBody("scripted-chat", callWeather, weather+`,"stream":true`)).events(t)
	calls := 0
	for _, d := range data {
		delta := d["choices"].([]any)[0].(map[string]any)["delta"].(map[string]any)
		for _, c := range asList(delta["tool_calls"]) {
			f := c.(map[string]any)["function"].(map[string]any)
			if _, isText := f["arguments"].(string); !isText || c.(map[string]any)["index"] != float64(calls) {
				t.Errorf("call %v", c)
			}
			calls++
		}
	}
	if reason := data[len(data)-1]["choices"].([]any)[0].(map[string]any)["finish_reason"]; calls != 2 || reason != "tool_calls" {
		t.Errorf("%d calls, reason %v", calls, reason)
	}
	// An empty answer still has its role.
	_, data, _ = r.post("/v1/chat/completions", chatBody("scripted-chat", "[[say:]]", `,"stream":true`)).events(t)
	if len(data) < 2 || data[0]["choices"].([]any)[0].(map[string]any)["delta"].(map[string]any)["role"] != "assistant" {
		t.Errorf("empty: %v", data)
	}
}

// events splits a stream of server-sent events into names and data.
func (a answer) events(t *testing.T) (names []string, data []map[string]any, done bool) {
	t.Helper()
	if ct := a.header.Get("Content-Type"); ct != "text/event-stream" {
		t.Errorf("content type %q: %s", ct, a.body)
	}
	for ev := range strings.SplitSeq(strings.TrimSuffix(a.body, "\n\n"), "\n\n") {
		name := ""
		for line := range strings.SplitSeq(ev, "\n") {
			if n, ok := strings.CutPrefix(line, "event: "); ok {
				name = n
				continue
			}
			d, ok := strings.CutPrefix(line, "data: ")
			if !ok {
				t.Fatalf("line %q", line)
			}
			if d == "[DONE]" {
				done = true
				continue
			}
			var m map[string]any
			if err := json.Unmarshal([]byte(d), &m); err != nil {
				t.Fatalf("%v in %q", err, d)
			}
			names, data = append(names, name), append(data, m)
		}
	}
	return names, data, done
}

const weather = `,"tools":[{"type":"function","function":{"name":"get_weather","parameters":{"type":"object","properties":{"city":{"type":"string"}}}}},{"type":"function","function":{"name":"other"}}]`

const callWeather = "[[say:Sure.|<tool_call>{\"name\":\"get_weather\",\"arguments\":{\"city\":\"Paris\"}}</tool_call>|<tool_call>" +
	"{\"name\":\"other\",\"arguments\":{}}</tool_call>]]"

func asList(v any) []any { l, _ := v.([]any); return l }

// What Ollama ignores and we honour.
func TestOpenAIExtras(t *testing.T) {
	r := newRig(t)
	msg := func(more string) (map[string]any, map[string]any) {
		m := r.post("/v1/chat/completions", chatBody("scripted-chat", callWeather, more)).object(t)
		c := asList(m["choices"])
		if len(c) == 0 {
			t.Fatalf("%s: %v", more, m)
		}
		return c[0].(map[string]any)["message"].(map[string]any), m
	}
	if m, _ := msg(weather); len(asList(m["tool_calls"])) != 2 || m["content"] != "Sure." {
		t.Errorf("auto: %v", m)
	}
	if m, _ := msg(weather + `,"tool_choice":"none"`); len(asList(m["tool_calls"])) != 0 {
		t.Errorf("none: %v", m)
	}
	if m, _ := msg(weather + `,"parallel_tool_calls":false`); len(asList(m["tool_calls"])) != 1 {
		t.Errorf("serial: %v", m)
	}
	for _, choice := range []string{`"required"`, `{"type":"function","function":{"name":"get_weather"}}`} {
		m := r.post("/v1/chat/completions", chatBody("scripted-chat", "[[say:no, I will not]]",
			weather+`,"reasoning_effort":"none","tool_choice":`+choice)).object(t)
		calls := asList(m["choices"].([]any)[0].(map[string]any)["message"].(map[string]any)["tool_calls"])
		if len(calls) == 0 || choice[0] == '{' && calls[0].(map[string]any)["function"].(map[string]any)["name"] != "get_weather" {
			t.Errorf("%s: %v", choice, m)
		}
	}
	m := r.post("/v1/chat/completions",
		chatBody("scripted-chat", "[[say:a|b|c]]", `,"max_completion_tokens":2,"user":"me","logit_bias":{"5":-100}`)).object(t)
	c := m["choices"].([]any)
	usage := m["usage"].(map[string]any)
	if len(c) != 1 || c[0].(map[string]any)["finish_reason"] != "length" || usage["completion_tokens"] != 2.0 || usage["ttft_ms"] == nil ||
		usage["total_tokens"] != usage["prompt_tokens"].(float64)+2 {
		t.Errorf("max_completion_tokens: %v", m)
	}
	for more, thinks := range map[string]bool{`,"enable_thinking":false`: false, `,"enable_thinking":true`: true,
		`,"thinking_mode":"no_think"`: false, `,"chat_template_kwargs":{"enable_thinking":false}`: false, ``: true} {
		m := r.post("/v1/chat/completions", chatBody("scripted-chat", "why is the sky blue", more)).object(t)
		_, has := m["choices"].([]any)[0].(map[string]any)["message"].(map[string]any)["reasoning"]
		if has != thinks {
			t.Errorf("%s: %v", more, m)
		}
	}
	// The parts of one message stay one message.
	body := `{"model":"scripted-vision","messages":[{"role":"user","content":[{"type":"text","text":"look"},{"type":"image_url","image_url":{"url":"data:image/png;base64,AAAA"}},{"type":"text","text":"[[say:seen]]"}]}],"_debug_render_only":true}`
	if a := r.post("/v1/chat/completions", body); strings.Count(a.body, "im_start|\\u003euser") != 1 {
		t.Errorf("parts: %s", a.body)
	}
}

func TestOpenAIEmbeddings(t *testing.T) {
	r := newRig(t)
	plain := r.post("/v1/embeddings", `{"model":"scripted-embed","input":"a b","encoding_format":"float"}`).object(t)
	coded := r.post("/v1/embeddings", `{"model":"scripted-embed","input":["a b"],"encoding_format":"base64"}`).object(t)
	raw, err := base64.StdEncoding.DecodeString(coded["data"].([]any)[0].(map[string]any)["embedding"].(string))
	if err != nil || len(raw) != 32 {
		t.Fatal(err, len(raw))
	}
	sum := 0.0
	for i, v := range plain["data"].([]any)[0].(map[string]any)["embedding"].([]any) {
		if got := float64(math.Float32frombits(binary.LittleEndian.Uint32(raw[4*i:]))); math.Abs(got-v.(float64)) > 1e-6 {
			t.Errorf("value %d: %v and %v", i, got, v)
		}
		sum += v.(float64) * v.(float64)
	}
	if math.Abs(sum-1) > 1e-5 {
		t.Errorf("length %v", sum)
	}
	cut := r.post("/api/embed", `{"model":"scripted-embed","input":"a b","dimensions":3}`).object(t)
	if v := cut["embeddings"].([]any)[0].([]any); len(v) != 3 {
		t.Errorf("dimensions: %v", v)
	}
	// A context that the request makes smaller counts: four tokens of six are left, or there is an
	// error.
	small := r.post("/api/embed", `{"model":"scripted-embed","input":"a b c d e f","options":{"num_ctx":4}}`).object(t)
	if n, _ := small["prompt_eval_count"].(float64); n != 4 {
		t.Errorf("%v tokens in a context of 4", n)
	}
	if a := r.post("/api/embed", `{"model":"scripted-embed","input":"a b c d e f","truncate":false,"options":{"num_ctx":4}}`); a.code !=
		400 || !strings.Contains(a.body, "context") {
		t.Errorf("six tokens in a context of 4: %d %s", a.code, a.body)
	}
	zero := r.post("/api/embed", `{"model":"scripted-embed","input":[""]}`).object(t)
	for _, x := range zero["embeddings"].([]any)[0].([]any) {
		if x != 0.0 {
			t.Errorf("the vector of nothing: %v", zero)
		}
	}
	if a := r.post("/api/embed", `{"model":"scripted-embed","input":""}`); !strings.Contains(a.body, `"embeddings":[]`) {
		t.Errorf("no input: %s", a.body)
	}
	if a := r.post("/api/embeddings", `{"model":"scripted-embed"}`); a.body != `{"embedding":[]}` {
		t.Errorf("no prompt: %s", a.body)
	}
}

func TestResponses(t *testing.T) {
	r := newRig(t)
	names, data, done := r.post("/v1/responses", `{"model":"scripted-chat","stream":true,"input":`+
		quote("[[say:<think>|hm|</think>|Hi|<tool_call>{\"name\":\"f\",\"arguments\":{}}</tool_call>]]")+
		`,"tools":[{"type":"function","name":"f","parameters":{"type":"object","properties":{}}}]}`).events(t)
	if done {
		t.Error("[DONE] in a responses stream")
	}
	got := strings.Join(names, " ")
	want := "response.created response.in_progress response.output_item.added response.reasoning_summary_text.delta"
	if !strings.HasPrefix(got, want) || !strings.HasSuffix(got, "response.completed") {
		t.Errorf("events %s", got)
	}
	for _, name := range []string{"response.content_part.added", "response.output_text.delta", "response.output_text.done",
		"response.function_call_arguments.done"} {
		if !strings.Contains(got, name) {
			t.Errorf("no %s in %s", name, got)
		}
	}
	for i, d := range data {
		if d["sequence_number"] != float64(i) || d["type"] != names[i] {
			t.Errorf("event %d: %v", i, d)
		}
	}
	m := r.post("/v1/responses",
		`{"model":"scripted-chat","instructions":"be brief","input":[{"type":"message","role":"user","content":[{"type":"input_text","text":"[[say:fine]]"}]}],"max_output_tokens":5}`).object(t)
	if m["status"] != "completed" || m["object"] != "response" || m["previous_response_id"] != nil || m["store"] != false {
		t.Errorf("%v", m)
	}
}

func TestAnthropicMessages(t *testing.T) {
	r := newRig(t)
	names, data, done := r.post("/v1/messages", chatBody("scripted-chat", "[[say:<think>|hm|</think>|Hi|<tool_call>{\"name\":\"f\","+
		"\"arguments\":{\"a\":1}}</tool_call>]]",
		`,"max_tokens":50,"stream":true,"thinking":{"type":"enabled","budget_tokens":1024},"tools":[{"name":"f","input_schema":{"type":"object","properties":{"a":{"type":"number"}}}}]`)).events(t)
	want := "message_start content_block_start content_block_delta content_block_stop content_block_start content_block_delta " +
		"content_block_stop content_block_start content_block_delta content_block_stop message_delta message_stop"
	if got := strings.Join(names, " "); got != want || done {
		t.Errorf("events %s", got)
	}
	if d := data[len(data)-2]; d["delta"].(map[string]any)["stop_reason"] != "tool_use" ||
		d["usage"].(map[string]any)["output_tokens"] == nil {
		t.Errorf("message_delta %v", d)
	}
	m := r.post("/v1/messages",
		chatBody("scripted-chat", "[[say:a|STOP|b]]",
			`,"max_tokens":50,"stop_sequences":["STOP"],"system":[{"type":"text","text":"x"}]`)).object(t)
	if id, _ := m["id"].(string); m["stop_reason"] != "end_turn" || m["content"].([]any)[0].(map[string]any)["text"] != "a" ||
		!strings.HasPrefix(id, "msg_") || len(id) != 28 {
		t.Errorf("%v", m)
	}
	if m := r.post("/v1/messages",
		chatBody("scripted", "[[say:a|b]]",
			`,"max_tokens":1,"thinking":{"type":"enabled","budget_tokens":1024}`)).object(t); m["stop_reason"] != "max_tokens" {
		t.Errorf("thinking asked of one that cannot: %v", m)
	}
	one := r.post("/v1/messages/count_tokens", chatBody("scripted-chat", "one", "")).object(t)["input_tokens"].(float64)
	four := r.post("/v1/messages/count_tokens", chatBody("scripted-chat", "one two three four", "")).object(t)["input_tokens"].(float64)
	if four != one+3 {
		t.Errorf("count: %v and %v", one, four)
	}
}
