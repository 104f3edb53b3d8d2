//go:build !scripted

package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/axle-llm/axle/models/pocket/pockettest"
)

type obj map[string]any

// goldenLimit is the most tokens of an answer; none of the goldens is so long.
const goldenLimit = 160

// way is a dialect: which questions it can put, how, and how its answers are read.
type way struct {
	path  string
	hides bool // it has no place for thinking
	fits  func(pockettest.Case) bool
	body  func(c pockettest.Case, stream bool) obj
	read  func(b []byte, stream bool) (a pockettest.Answer, reason string, err error)
	ends  map[bool]string // the reason of the end, with calls and without
}

var ways = []way{
	{path: "/api/chat", fits: func(pockettest.Case) bool { return true }, body: chatAsk, read: readNative,
		ends: map[bool]string{false: "stop", true: "stop"}},
	{path: "/api/generate", fits: oneTurn, body: generateAsk, read: readNative, ends: map[bool]string{false: "stop"}},
	{path: "/v1/chat/completions", fits: func(pockettest.Case) bool { return true }, body: openaiAsk, read: readOpenAI,
		ends: map[bool]string{false: "stop", true: "tool_calls"}},
	{path: "/v1/completions", hides: true,
		fits: func(c pockettest.Case) bool { return c.Think == nil && oneTurn(c) && len(c.Messages) == 1 },
		body: completionAsk, read: readOpenAI, ends: map[bool]string{false: "stop"}},
	{path: "/v1/responses", fits: func(pockettest.Case) bool { return true }, body: responsesAsk, read: readResponses,
		ends: map[bool]string{false: "completed", true: "completed"}},
	{path: "/v1/messages", fits: func(c pockettest.Case) bool { return c.Format == nil }, body: anthropicAsk, read: readAnthropic,
		ends: map[bool]string{false: "end_turn", true: "tool_use"}},
}

// oneTurn says whether a question is one turn without tools, perhaps after a system prompt.
func oneTurn(c pockettest.Case) bool {
	n := len(c.Messages)
	return len(c.Tools) == 0 && (n == 1 || n == 2 && c.Messages[0].Role == "system")
}

// option sets a key where there is something to set.
func (o obj) option(key string, set bool, v any) obj {
	if set {
		o[key] = v
	}
	return o
}

func chatAsk(c pockettest.Case, stream bool) obj {
	var messages []obj
	for _, m := range c.Messages {
		x := obj{"role": m.Role, "content": m.Content}
		var calls []obj
		for _, call := range m.Calls {
			calls = append(calls, obj{"function": call})
		}
		if calls != nil {
			x["tool_calls"] = calls
		}
		if m.Tool != "" {
			x["tool_name"] = m.Tool
		}
		messages = append(messages, x)
	}
	return nativeAsk(c, stream).option("messages", true, messages).option("tools", c.Tools != nil, c.Tools)
}

func nativeAsk(c pockettest.Case, stream bool) obj {
	return obj{"model": "pocket", "stream": stream, "options": obj{"temperature": 0, "num_predict": goldenLimit}}.
		option("think", c.Think != nil, c.Think).option("format", c.Format != nil, c.Format)
}

func generateAsk(c pockettest.Case, stream bool) obj {
	n := len(c.Messages)
	return nativeAsk(c, stream).option("prompt", true, c.Messages[n-1].Content).option("system", n > 1, c.Messages[0].Content)
}

// readNative reads both of Ollama's own, a line or many.
func readNative(b []byte, stream bool) (a pockettest.Answer, reason string, err error) {
	lines := strings.Split(strings.TrimSpace(string(b)), "\n")
	if !stream && len(lines) != 1 {
		return a, "", fmt.Errorf("%d lines", len(lines))
	}
	for i, line := range lines {
		var v struct {
			Message struct {
				Content, Thinking string
				Calls             []struct{ Function pockettest.Call } `json:"tool_calls"`
			}
			Response, Thinking string
			Done               bool
			Reason             string `json:"done_reason"`
			In                 int    `json:"prompt_eval_count"`
			Out                int    `json:"eval_count"`
		}
		if err := json.Unmarshal([]byte(line), &v); err != nil {
			return a, "", err
		}
		if v.Done != (i == len(lines)-1) {
			return a, "", fmt.Errorf("done is %v in line %d of %d", v.Done, i+1, len(lines))
		}
		a.Text += v.Message.Content + v.Response
		a.Thinking += v.Message.Thinking + v.Thinking
		for _, call := range v.Message.Calls {
			a.Calls = append(a.Calls, call.Function)
		}
		a.In, a.Out, reason = v.In, v.Out, v.Reason
	}
	return a, reason, nil
}

// effort is OpenAI's word for thinking or not.
func effort(c pockettest.Case) string {
	return map[bool]string{false: "none", true: "medium"}[*c.Think]
}

func openaiAsk(c pockettest.Case, stream bool) obj {
	var messages []obj
	id := ""
	for i, m := range c.Messages {
		x := obj{"role": m.Role, "content": m.Content}
		var calls []obj
		for _, call := range m.Calls {
			id = fmt.Sprint("call_", i)
			calls = append(calls,
				obj{"id": id, "type": "function", "function": obj{"name": call.Name, "arguments": string(call.Arguments)}})
		}
		if calls != nil {
			x["tool_calls"] = calls
		}
		if m.Tool != "" {
			x["tool_call_id"] = id
		}
		messages = append(messages, x)
	}
	o := obj{"model": "pocket", "stream": stream, "temperature": 0, "max_tokens": goldenLimit, "messages": messages}.
		option("tools", c.Tools != nil, c.Tools).option("stream_options", stream, obj{"include_usage": true})
	if c.Think != nil {
		o["reasoning_effort"] = effort(c)
	}
	switch {
	case string(c.Format) == `"json"`:
		o["response_format"] = obj{"type": "json_object"}
	case c.Format != nil:
		o["response_format"] = obj{"type": "json_schema", "json_schema": obj{"name": "answer", "schema": c.Format}}
	}
	return o
}

func completionAsk(c pockettest.Case, stream bool) obj {
	return obj{"model": "pocket", "stream": stream, "temperature": 0, "max_tokens": goldenLimit, "prompt": c.Messages[0].Content}.
		option("stream_options", stream, obj{"include_usage": true})
}

// events are the data of a stream of server-sent events, or a whole body.
func events(b []byte, stream bool) (out []string) {
	if !stream {
		return []string{string(b)}
	}
	for line := range strings.Lines(string(b)) {
		if data, ok := strings.CutPrefix(line, "data: "); ok {
			out = append(out, strings.TrimSpace(data))
		}
	}
	return out
}

func compact(s string) json.RawMessage {
	var b bytes.Buffer
	if err := json.Compact(&b, []byte(s)); err != nil {
		return json.RawMessage(s)
	}
	return b.Bytes()
}

func readOpenAI(b []byte, stream bool) (a pockettest.Answer, reason string, err error) {
	type part struct {
		Content, Reasoning string
		Calls              []struct {
			Function struct{ Name, Arguments string }
		} `json:"tool_calls"`
	}
	all := events(b, stream)
	if stream {
		n := len(all) - 1
		if n < 0 || all[n] != "[DONE]" {
			return a, "", errors.New("no [DONE]")
		}
		all = all[:n]
	}
	for _, data := range all {
		var v struct {
			Choices []struct {
				Text           string
				Message, Delta part
				Reason         string `json:"finish_reason"`
			}
			Usage struct {
				In  int `json:"prompt_tokens"`
				Out int `json:"completion_tokens"`
			}
		}
		if err := json.Unmarshal([]byte(data), &v); err != nil {
			return a, "", err
		}
		for _, c := range v.Choices {
			a.Text += c.Text + c.Message.Content + c.Delta.Content
			a.Thinking += c.Message.Reasoning + c.Delta.Reasoning
			for _, call := range append(c.Message.Calls, c.Delta.Calls...) {
				a.Calls = append(a.Calls, pockettest.Call{Name: call.Function.Name, Arguments: compact(call.Function.Arguments)})
			}
			reason += c.Reason
		}
		if v.Usage.In > 0 {
			a.In, a.Out = v.Usage.In, v.Usage.Out
		}
	}
	return a, reason, nil
}

func responsesAsk(c pockettest.Case, stream bool) obj {
	var input []obj
	id := ""
	for i, m := range c.Messages {
		for _, call := range m.Calls {
			id = fmt.Sprint("call_", i)
			input = append(input, obj{"type": "function_call", "call_id": id, "name": call.Name, "arguments": string(call.Arguments)})
		}
		switch {
		case m.Tool != "":
			input = append(input, obj{"type": "function_call_output", "call_id": id, "output": m.Content})
		case m.Calls == nil:
			input = append(input, obj{"type": "message", "role": m.Role, "content": m.Content})
		}
	}
	var tools []obj
	for _, t := range c.Tools {
		tools = append(tools, obj{"type": "function", "name": t.Function.Name, "description": t.Function.Description,
			"parameters": t.Function.Parameters})
	}
	o := obj{"model": "pocket", "stream": stream, "temperature": 0, "max_output_tokens": goldenLimit, "input": input}.option("tools",
		tools != nil, tools)
	if c.Think != nil {
		o["reasoning"] = obj{"effort": effort(c)}
	}
	switch {
	case string(c.Format) == `"json"`:
		o["text"] = obj{"format": obj{"type": "json_object"}}
	case c.Format != nil:
		o["text"] = obj{"format": obj{"type": "json_schema", "name": "answer", "schema": c.Format}}
	}
	return o
}

func readResponses(b []byte, stream bool) (a pockettest.Answer, reason string, err error) {
	type item struct {
		Type, Name, Arguments string
		Content, Summary      []struct{ Text string }
	}
	type response struct {
		Status string
		Output []item
		Usage  struct {
			In  int `json:"input_tokens"`
			Out int `json:"output_tokens"`
		}
	}
	calls := func(i item) {
		if i.Type == "function_call" {
			a.Calls = append(a.Calls, pockettest.Call{Name: i.Name, Arguments: compact(i.Arguments)})
		}
	}
	var r response
	for _, data := range events(b, stream) {
		if !stream {
			if err := json.Unmarshal([]byte(data), &r); err != nil {
				return a, "", err
			}
			for _, i := range r.Output {
				calls(i)
				for _, p := range i.Content {
					a.Text += p.Text
				}
				for _, p := range i.Summary {
					a.Thinking += p.Text
				}
			}
			break
		}
		var v struct {
			Type, Delta string
			Item        item
			Response    response
		}
		if err := json.Unmarshal([]byte(data), &v); err != nil {
			return a, "", err
		}
		switch v.Type {
		case "response.output_text.delta":
			a.Text += v.Delta
		case "response.reasoning_summary_text.delta":
			a.Thinking += v.Delta
		case "response.output_item.done":
			calls(v.Item)
		case "response.completed", "response.incomplete", "response.failed":
			r = v.Response
		}
	}
	a.In, a.Out = r.Usage.In, r.Usage.Out
	return a, r.Status, nil
}

func anthropicAsk(c pockettest.Case, stream bool) obj {
	var messages []obj
	system, id := "", ""
	for i, m := range c.Messages {
		switch {
		case m.Role == "system":
			system = m.Content
		case m.Tool != "":
			messages = append(messages,
				obj{"role": "user", "content": []obj{{"type": "tool_result", "tool_use_id": id, "content": m.Content}}})
		case m.Calls != nil:
			var blocks []obj
			for _, call := range m.Calls {
				id = fmt.Sprint("toolu_", i)
				blocks = append(blocks, obj{"type": "tool_use", "id": id, "name": call.Name, "input": call.Arguments})
			}
			messages = append(messages, obj{"role": m.Role, "content": blocks})
		default:
			messages = append(messages, obj{"role": m.Role, "content": m.Content})
		}
	}
	var tools []obj
	for _, t := range c.Tools {
		tools = append(tools, obj{"name": t.Function.Name, "description": t.Function.Description, "input_schema": t.Function.Parameters})
	}
	o := obj{"model": "pocket", "stream": stream, "temperature": 0, "max_tokens": goldenLimit, "messages": messages}.
		option("tools", tools != nil, tools).option("system", system != "", system)
	if c.Think != nil {
		o["thinking"] = map[bool]obj{false: {"type": "disabled"}, true: {"type": "enabled", "budget_tokens": 1024}}[*c.Think]
	}
	return o
}

func readAnthropic(b []byte, stream bool) (a pockettest.Answer, reason string, err error) {
	type block struct {
		Type, Text, Thinking, Name string
		Input                      json.RawMessage
	}
	type usage struct {
		In    int `json:"input_tokens"`
		Read  int `json:"cache_read_input_tokens"`
		Wrote int `json:"cache_creation_input_tokens"`
		Out   int `json:"output_tokens"`
	}
	add := func(x block) {
		a.Text += x.Text
		a.Thinking += x.Thinking
		if x.Type == "tool_use" {
			a.Calls = append(a.Calls, pockettest.Call{Name: x.Name, Arguments: compact(string(x.Input))})
		}
	}
	ended := !stream
	partial := ""
	for _, data := range events(b, stream) {
		var v struct {
			Type    string
			Content []block
			Block   block `json:"content_block"`
			Delta   struct {
				Text, Thinking string
				Partial        string `json:"partial_json"`
				Reason         string `json:"stop_reason"`
			}
			Reason string `json:"stop_reason"`
			Usage  usage
		}
		if err := json.Unmarshal([]byte(data), &v); err != nil {
			return a, "", err
		}
		for _, x := range v.Content {
			add(x)
		}
		switch v.Type {
		case "content_block_start":
			add(v.Block)
			partial = ""
		case "content_block_delta":
			a.Text += v.Delta.Text
			a.Thinking += v.Delta.Thinking
			partial += v.Delta.Partial
		case "content_block_stop":
			if partial != "" {
				a.Calls[len(a.Calls)-1].Arguments = compact(partial)
				partial = ""
			}
		case "message_stop":
			ended = true
		}
		reason += v.Reason + v.Delta.Reason
		if v.Usage.Out > 0 {
			a.In, a.Out = v.Usage.In+v.Usage.Read+v.Usage.Wrote, v.Usage.Out
		}
	}
	if !ended {
		err = errors.New("no message_stop")
	}
	return a, reason, err
}

// checkVendor asks the vendor's way: whole, and by polling. Its temperature cannot be nought: one
// token to choose from is as good.
func checkVendor(t *testing.T, url string, c pockettest.Case) {
	t.Helper()
	send := func(path string, body obj) []byte {
		q, err := json.Marshal(body)
		if err != nil {
			t.Fatal(err)
		}
		b, err := post(t.Context(), http.DefaultClient, url+path, q, nil)
		if err != nil {
			t.Fatalf("%s, %s: %v", path, c.Name, err)
		}
		return b
	}
	n := len(c.Messages)
	system, question := "", c.Messages[n-1].Content
	if n > 1 {
		system = c.Messages[0].Content
	}
	send("/api/reset", obj{"system_prompt": system})
	var whole struct {
		Done    bool
		Message string
	}
	if b := send("/api/chat", obj{"model": "pocket", "top-k": 1, "messages": []obj{{"role": "user", "content": question}}}); json.Unmarshal(
		b, &whole) != nil || !whole.Done || whole.Message != c.Want.Text {
		t.Errorf("vendor, %s: %s, want %q", c.Name, b, c.Want.Text)
	}
	send("/api/reset", obj{"system_prompt": system})
	send("/api/generate", obj{"model": "pocket", "top-k": 1, "prompt": question})
	said := ""
	for end := time.Now().Add(patience); ; <-time.After(time.Millisecond) {
		resp, err := http.Get(url + "/api/generate_provider")
		if err != nil {
			t.Fatal(err)
		}
		var part struct {
			Done     bool
			Response string
		}
		err = json.NewDecoder(resp.Body).Decode(&part)
		_ = resp.Body.Close()
		if err != nil || time.Now().After(end) {
			t.Fatalf("vendor, %s: after %q: %v", c.Name, said, err)
		}
		if said += part.Response; part.Done {
			break
		}
	}
	if said != c.Want.Text {
		t.Errorf("vendor, %s, polled: %q, want %q", c.Name, said, c.Want.Text)
	}
}
