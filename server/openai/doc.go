// Package openai speaks OpenAI's API: chat completions, completions, embeddings, models and
// responses. A request becomes Ollama's native one (server/ollama), with what OpenAI's has beyond
// it; native responses become OpenAI's. The wire types and most conversions are Ollama's own
// (github.com/ollama/ollama/openai), so answers look like Ollama's to the byte. What Ollama ignores
// and axle honours is here: max_completion_tokens, tool_choice, logit_bias, parallel_tool_calls, n,
// best_of, echo, the completions' logprobs, and the vendor's enable_thinking, thinking_mode,
// chat_template_kwargs, usage.ttft_ms and usage.decode_tps.
//
// Functions are pure and safe for concurrent use; an encoder belongs to one answer and one
// goroutine. Nothing here holds a resource.
package openai

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/ollama/ollama/api"
	wire "github.com/ollama/ollama/openai"

	"github.com/axle-llm/axle/server/ollama"
	"github.com/axle-llm/axle/tokenizer/chat"
)

// decode reads a body as Ollama's OpenAI routes do.
func decode(b []byte, v any) error {
	if err := ollama.Check(b); err != nil {
		return err
	}
	if err := json.NewDecoder(bytes.NewReader(b)).Decode(v); err != nil {
		return ollama.Fail(400, "%s", err)
	}
	return nil
}

func bad(err error) error {
	if err == nil || errors.As(err, new(api.StatusError)) {
		return err
	}
	return ollama.Fail(400, "%s", err)
}

// extra is what a chat request may hold beyond Ollama's own type.
type extra struct {
	MaxCompletionTokens *int                       `json:"max_completion_tokens"`
	ToolChoice          json.RawMessage            `json:"tool_choice"`
	LogitBias           map[string]float32         `json:"logit_bias"`
	ParallelToolCalls   *bool                      `json:"parallel_tool_calls"`
	EnableThinking      *bool                      `json:"enable_thinking"`
	ThinkingMode        string                     `json:"thinking_mode"`
	Kwargs              map[string]json.RawMessage `json:"chat_template_kwargs"`
	TopK                *float64                   `json:"top_k"`
	MinP                *float64                   `json:"min_p"`
	RepetitionPenalty   *float64                   `json:"repetition_penalty"`
	Store               *bool                      `json:"store"`
	N                   *int                       `json:"n"`
	BestOf              *int                       `json:"best_of"`
	Echo                *bool                      `json:"echo"`
	ResponseFormat      struct {
		Schema     json.RawMessage `json:"schema"`
		JSONSchema struct {
			Strict bool `json:"strict"`
		} `json:"json_schema"`
	} `json:"response_format"`
}

// Chat is a chat completion request.
type Chat struct {
	wire.ChatCompletionRequest
	Native *ollama.ChatRequest
	N      int // answers
}

// DecodeChat reads the body of /v1/chat/completions.
func DecodeChat(b []byte) (*Chat, error) {
	if err := ollama.Check(b); err != nil {
		return nil, err
	}
	c, x := plainChat(b)
	if c == nil {
		var err error
		if c, x, err = decodeChat(b); err != nil {
			return nil, err
		}
	}
	native, err := wire.FromChatRequest(c.ChatCompletionRequest)
	if err != nil {
		return nil, bad(err)
	}
	native.Messages = regroup(c.Messages, native.Messages)
	c.Native = &ollama.ChatRequest{ChatRequest: *native}
	c.Native.Ordered(lists(c.Messages), "\n")
	c.Native.Remember(b)
	if c.N, err = x.chatChoices(); err != nil {
		return nil, err
	}
	return c, bad(x.apply(c.Native))
}

func decodeChat(b []byte) (*Chat, *extra, error) {
	c, x := new(Chat), new(extra)
	if err := decode(b, &c.ChatCompletionRequest); err != nil {
		return nil, nil, err
	}
	if len(c.Messages) == 0 {
		return nil, nil, ollama.Fail(400, "[] is too short - 'messages'")
	}
	c.Messages = present(c.Messages)
	return c, x, decode(b, x)
}

// plainChat is decodeChat of a body that can be taken apart; nil for any other, and for one that is
// wrong.
func plainChat(b []byte) (*Chat, *extra) {
	p, ok := ollama.TakeApart(b)
	if !ok || len(p.Messages) == 0 {
		return nil, nil
	}
	c, x := new(Chat), new(extra)
	if p.Rest != nil && (json.Unmarshal(p.Rest, &c.ChatCompletionRequest) != nil || json.Unmarshal(p.Rest, x) != nil) {
		return nil, nil
	}
	c.Model, c.Stream = p.Model, p.Stream != nil && *p.Stream
	c.Messages = make([]wire.Message, len(p.Messages))
	for i, m := range p.Messages {
		if m.Object == nil {
			c.Messages[i] = wire.Message{Role: m.Role, Content: m.Content}
		} else if json.Unmarshal(m.Object, &c.Messages[i]) != nil {
			return nil, nil
		}
	}
	c.Messages = present(c.Messages)
	return c, x
}

// present leaves out messages of no parts, as Ollama does. Those that mean something all the same,
// tools' results and calls, have an empty text.
func present(in []wire.Message) []wire.Message {
	var out []wire.Message
	for _, m := range in {
		if parts, isList := m.Content.([]any); isList && len(parts) == 0 {
			if len(m.ToolCalls) == 0 && !strings.EqualFold(m.Role, "tool") {
				continue
			}
			m.Content = ""
		}
		out = append(out, m)
	}
	return out
}

// regroup puts the parts of one message together again: Ollama's conversion makes a message of each
// text and image.
func regroup(in []wire.Message, out []api.Message) []api.Message {
	var grouped []api.Message
	for _, m := range in {
		parts, isList := m.Content.([]any)
		n := 1
		if isList {
			n = len(parts)
		}
		if n > len(out) { // cannot be: each part has become a message
			break
		}
		g := out[0]
		for _, o := range out[1:n] {
			if o.Content != "" && g.Content != "" {
				g.Content += "\n"
			}
			g.Content += o.Content
			g.Images = append(g.Images, o.Images...)
			g.ToolCalls = append(g.ToolCalls, o.ToolCalls...)
			if o.Thinking != "" {
				g.Thinking = o.Thinking
			}
		}
		if isList {
			g.ToolCallID = m.ToolCallID
			if strings.EqualFold(m.Role, "tool") && g.ToolName == "" {
				g.ToolName = nameOf(in, m)
			}
		}
		g.Role = strings.ToLower(g.Role)
		if g.Role == "developer" {
			g.Role = "system"
		}
		grouped = append(grouped, g)
		out = out[n:]
	}
	return grouped
}

// lists are the contents that came as lists. What is no text counts as a picture, as in Ollama's
// conversion.
func lists(in []wire.Message) (out []ollama.Listed) {
	for _, m := range in {
		content, _ := m.Content.([]any)
		if len(content) < 2 {
			continue
		}
		l := ollama.Listed{Role: m.Role}
		if l.Role = strings.ToLower(l.Role); l.Role == "developer" {
			l.Role = "system"
		}
		for _, c := range content {
			p, _ := c.(map[string]any)
			text, isText := p["text"].(string)
			l.Parts = append(l.Parts, chat.Part{Image: !isText || p["type"] != "text", Text: text})
		}
		out = append(out, l)
	}
	return out
}

func nameOf(in []wire.Message, m wire.Message) string {
	if m.Name != "" {
		return m.Name
	}
	for i := len(in) - 1; i >= 0; i-- {
		for _, tc := range in[i].ToolCalls {
			if tc.ID == m.ToolCallID && tc.ID != "" {
				return tc.Function.Name
			}
		}
	}
	return ""
}

func (x extra) apply(r *ollama.ChatRequest) error {
	r.ReportsTimes = true
	r.MaxTokens = x.MaxCompletionTokens
	r.SerialTools = x.ParallelToolCalls != nil && !*x.ParallelToolCalls
	r.Kwargs, r.Strict = x.Kwargs, x.ResponseFormat.JSONSchema.Strict
	for key, v := range map[string]*float64{"top_k": x.TopK, "min_p": x.MinP, "repeat_penalty": x.RepetitionPenalty} {
		if v != nil {
			r.Options[key] = *v
		}
	}
	if err := x.checkMax(); err != nil {
		return err
	}
	if string(r.Format) == `"json"` {
		var err error
		if r.Format, err = jsonObject("response_format", x.ResponseFormat.Schema); err != nil {
			return err
		}
	}
	if v, ok := x.Kwargs["enable_thinking"]; ok && x.EnableThinking == nil {
		var on bool
		if json.Unmarshal(v, &on) == nil {
			x.EnableThinking = &on
		}
	}
	switch mode := strings.ToLower(x.ThinkingMode); {
	case r.Think != nil: // reasoning_effort says more
	case x.EnableThinking != nil:
		r.Think, r.RelaxThink = &api.ThinkValue{Value: *x.EnableThinking}, true
	case mode == "think" || mode == "on" || mode == "enabled" || mode == "true":
		r.Think, r.RelaxThink = &api.ThinkValue{Value: true}, true
	case mode == "no_think" || mode == "off" || mode == "disabled" || mode == "false":
		r.Think = &api.ThinkValue{Value: false}
	case mode != "" && mode != "auto":
		return ollama.Fail(400, "invalid thinking_mode value: %q (must be \"think\", \"no_think\" or \"auto\")", x.ThinkingMode)
	}
	var err error
	if r.ToolChoice, err = toolChoice(x.ToolChoice, r.Tools); err != nil {
		return err
	}
	r.LogitBias, err = logitBias(x.LogitBias)
	return err
}

// jsonObject is the format of a json_object that has a schema, as llama.cpp takes it, or has none:
// then any object is one. where names the format.
func jsonObject(where string, schema json.RawMessage) (json.RawMessage, error) {
	var keywords map[string]json.RawMessage
	switch {
	case len(schema) == 0 || string(schema) == "null":
	case json.Unmarshal(schema, &keywords) != nil:
		return nil, ollama.Fail(400, "%s.schema must be a JSON schema, an object", where)
	case len(keywords) > 0:
		return schema, nil
	}
	return json.RawMessage(`"json"`), nil
}

// checkMax checks max_completion_tokens; 0 is no limit, as with Ollama's max_tokens.
func (x extra) checkMax() error {
	if n := x.MaxCompletionTokens; n != nil && (*n < 0 || *n > math.MaxInt32) {
		return ollama.Fail(400, "max_completion_tokens must be between 0 and %d, got %d", math.MaxInt32, *n)
	}
	return nil
}

// toolChoice reads "none", "auto", "required", or an object that names a function.
func toolChoice(raw json.RawMessage, tools api.Tools) (string, error) {
	if len(raw) == 0 || string(raw) == "null" {
		return "", nil
	}
	var word string
	if json.Unmarshal(raw, &word) == nil {
		switch word {
		case "none", "auto", "":
			return word, nil
		case "required":
			if len(tools) == 0 {
				return "", ollama.Fail(400, "tool_choice is \"required\", but no tools are offered")
			}
			return word, nil
		}
		return "", ollama.Fail(400, "invalid tool_choice value: %q (must be \"none\", \"auto\", \"required\" or a function)", word)
	}
	var named struct {
		Type     string `json:"type"`
		Name     string `json:"name"`
		Function struct {
			Name string `json:"name"`
		} `json:"function"`
	}
	if json.Unmarshal(raw, &named) != nil {
		return "", ollama.Fail(400, "invalid tool_choice: must be a string or an object")
	}
	name := named.Function.Name
	if name == "" {
		name = named.Name
	}
	for _, t := range tools {
		if t.Function.Name == name {
			return name, nil
		}
	}
	return "", ollama.Fail(400, "tool_choice names %q, which is not among the tools", name)
}

// logitBias reads OpenAI's map of token ids as decimal strings.
func logitBias(in map[string]float32) (map[int32]float32, error) {
	if len(in) == 0 {
		return nil, nil
	}
	out := make(map[int32]float32, len(in))
	for key, v := range in {
		id, err := strconv.ParseInt(key, 10, 32)
		if err != nil || id < 0 {
			return nil, ollama.Fail(400, "logit_bias: %q is no token id", key)
		}
		if !(v >= -100 && v <= 100) {
			return nil, ollama.Fail(400, "logit_bias: %v for token %s is not between -100 and 100", v, key)
		}
		out[int32(id)] = v
	}
	return out, nil
}

// AsPrompt is the native request.
func (c *Chat) AsPrompt() ollama.Prompt { return c.Native }

// AsPrompt is the native request.
func (a *ResponsesBody) AsPrompt() ollama.Prompt {
	if a.Compaction != nil {
		return a.Compaction.Native
	}
	return a.Responses.Native
}

// AsPrompt is the native request.
func (c *Compaction) AsPrompt() ollama.Prompt { return c.Native }

// ErrorBody is the body of an error.
func ErrorBody(status int, text string) []byte {
	b, _ := json.Marshal(wire.NewError(status, text))
	return append(b, '\n')
}

// CodedBody is the body of an error that was found before a request of /v1/responses was one: there
// Ollama gives a code.
func CodedBody(status int, text string) []byte {
	e := wire.NewError(status, text)
	code := "invalid_request_error"
	e.Error.Code = &code
	b, _ := json.Marshal(e)
	return append(b, '\n')
}

// ControlError is what is wrong with the items of a request to /v1/responses that control a
// compaction. It stands around what a client is told.
type ControlError struct{ error }

func (e ControlError) Unwrap() error { return e.error }

// Control makes err one.
func Control(err error) error {
	if err = bad(err); err != nil {
		err = ControlError{err}
	}
	return err
}

// event is one server-sent event without a name.
func event(v any) ([]byte, error) {
	b, err := json.Marshal(v)
	if err != nil {
		return nil, fmt.Errorf("openai: %w", err)
	}
	return append(append([]byte("data: "), b...), "\n\n"...), nil
}

// named is one server-sent event with a name.
func named(name string, v any) ([]byte, error) {
	b, err := json.Marshal(v)
	if err != nil {
		return nil, fmt.Errorf("openai: %w", err)
	}
	return fmt.Appendf(nil, "event: %s\ndata: %s\n\n", name, b), nil
}
