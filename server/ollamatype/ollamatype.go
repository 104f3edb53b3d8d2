// Package ollamatype turns prompts and answers into Ollama's own Go types and back. Ollama's API is
// made of them. Ollama's converters for other APIs take them too: the other dialects use those
// instead of their own.
//
// The functions are pure and safe for concurrent use. Nothing here holds a resource.
package ollamatype

import (
	"cmp"
	"encoding/json"
	"errors"
	"strings"
	"time"

	"github.com/ollama/ollama/api"

	"github.com/axle-llm/axle/ask"
	"github.com/axle-llm/axle/server/body"
	"github.com/axle-llm/axle/server/prompt"
)

// Chat is a part of the answer to a conversation.
func Chat(p prompt.Part) api.ChatResponse {
	r := api.ChatResponse{Model: p.Model, CreatedAt: p.Created,
		Message:  api.Message{Role: "assistant", Content: p.Text, Thinking: p.Thinking, ToolCalls: calls(p.Calls)},
		Logprobs: Logprobs(p.Logprobs)}
	if p.Done {
		r.Done, r.DoneReason, r.Metrics = true, p.Reason, Metrics(p.Figures)
	}
	return r
}

// Generate is a part of the answer to a bare prompt.
func Generate(p prompt.Part) api.GenerateResponse {
	r := api.GenerateResponse{Model: p.Model, CreatedAt: p.Created, Response: p.Text, Thinking: p.Thinking, ToolCalls: calls(p.Calls),
		Logprobs: Logprobs(p.Logprobs)}
	if p.Done {
		r.Done, r.DoneReason, r.Metrics = true, p.Reason, Metrics(p.Figures)
		for _, id := range p.Context {
			r.Context = append(r.Context, int(id))
		}
	}
	return r
}

// Metrics are what an answer took.
func Metrics(f prompt.Figures) api.Metrics {
	m := api.Metrics{TotalDuration: f.Total, LoadDuration: f.Load, PromptEvalCount: f.Prompt, PromptEvalDuration: f.Prefill,
		EvalCount: f.Output, EvalDuration: f.Decode}
	if f.Answered {
		m.PromptEvalCachedCount = &f.Cached
	}
	return m
}

// Debug is what a client is told who wants to see the prompt.
func Debug(text string, images int) *api.DebugInfo {
	return &api.DebugInfo{RenderedTemplate: text, ImageCount: images}
}

func calls(in []prompt.Call) (out []api.ToolCall) {
	for _, call := range in {
		c := api.ToolCall{ID: call.ID, Function: api.ToolCallFunction{Index: call.Index, Name: call.Name}}
		if c.Function.Arguments.UnmarshalJSON(call.Arguments) != nil {
			c.Function.Arguments = api.NewToolCallFunctionArguments()
		}
		out = append(out, c)
	}
	return out
}

// Logprobs are those of tokens.
func Logprobs(in []ask.Logprob) []api.Logprob {
	if len(in) == 0 {
		return nil
	}
	out := make([]api.Logprob, len(in))
	for i, l := range in {
		out[i].TokenLogprob = tokenLogprob(l)
		for _, t := range l.Top {
			out[i].TopLogprobs = append(out[i].TopLogprobs, tokenLogprob(t))
		}
	}
	return out
}

func tokenLogprob(l ask.Logprob) api.TokenLogprob {
	t := api.TokenLogprob{Token: l.Token, Logprob: float64(l.Logprob)}
	for _, b := range l.Bytes {
		t.Bytes = append(t.Bytes, int(b))
	}
	return t
}

// Message is a message that a request brings.
func Message(msg api.Message) ask.Message {
	out := ask.Message{Role: msg.Role, Content: msg.Content, Thinking: msg.Thinking, ToolName: msg.ToolName, ToolCallID: msg.ToolCallID}
	for _, c := range msg.ToolCalls {
		args, err := json.Marshal(c.Function.Arguments)
		if err != nil {
			args = json.RawMessage("{}")
		}
		out.ToolCalls = append(out.ToolCalls, ask.ToolCall{ID: c.ID, Name: c.Function.Name, Arguments: args})
	}
	for _, img := range msg.Images {
		out.Images = append(out.Images, img)
	}
	return out
}

// Said is a message that a Modelfile brings, as /api/show tells it.
func Said(msg ask.Message) api.Message { return api.Message{Role: msg.Role, Content: msg.Content} }

// Tool is a tool that a request offers. raw is the text that it came from, where there is one.
func Tool(t api.Tool, raw json.RawMessage) ask.Tool {
	out := ask.Tool{Type: cmp.Or(t.Type, "function"), Name: t.Function.Name, Description: t.Function.Description, Raw: raw}
	if p := t.Function.Parameters; p.Type != "" || p.Properties != nil || p.Items != nil {
		out.Parameters, _ = json.Marshal(p)
	}
	if len(raw) == 0 {
		return out
	}
	var whole struct {
		Function struct {
			Parameters json.RawMessage `json:"parameters"`
			Strict     json.RawMessage `json:"strict"`
		} `json:"function"`
	}
	if json.Unmarshal(raw, &whole) == nil && len(whole.Function.Parameters) > 0 && whole.Function.Parameters[0] == '{' {
		out.Parameters = whole.Function.Parameters
	}
	out.Strict = string(whole.Function.Strict) == "true"
	return out
}

// Tools reads the tools of a body. Each is decoded once and keeps its own text.
type Tools []ask.Tool

// UnmarshalJSON reads one list. Errors are as Ollama's types give them.
func (t *Tools) UnmarshalJSON(b []byte) error {
	var raw []json.RawMessage
	var typed api.Tools
	err := json.Unmarshal(b, &typed)
	var te *json.UnmarshalTypeError
	switch {
	case errors.As(err, &te):
		te.Field = strings.TrimSuffix("tools."+te.Field, ".")
		return typeError{te}
	case err != nil:
		return err
	}
	if err := json.Unmarshal(b, &raw); err != nil {
		return err
	}
	*t = nil
	for i := range typed {
		*t = append(*t, Tool(typed[i], raw[i]))
	}
	return nil
}

// typeError keeps encoding/json from writing over what it says itself.
type typeError struct{ err *json.UnmarshalTypeError }

func (e typeError) Error() string { return e.err.Error() }
func (e typeError) Unwrap() error { return e.err }

// Think is how a model is to think, and why that is none where it is none.
func Think(t *api.ThinkValue) (ask.Think, error) {
	switch err := api.ValidateLegacyThinking(t); {
	case err != nil:
		return ask.ThinkDefault, body.Fail(400, "%s", err)
	case t == nil || t.Value == nil:
		return ask.ThinkDefault, nil
	case t.IsString():
		return ask.Think(t.String()), nil
	case t.Bool():
		return ask.ThinkOn, nil
	}
	return ask.ThinkOff, nil
}

// KeepAlive is how long a model is to stay; negative is for ever.
func KeepAlive(d *api.Duration) *time.Duration {
	if d == nil {
		return nil
	}
	return &d.Duration
}

// Arguments are those of a call, a JSON object in a text.
func Arguments(text string) (json.RawMessage, error) {
	var args api.ToolCallFunctionArguments
	if err := json.Unmarshal([]byte(text), &args); err != nil {
		return nil, err
	}
	return json.Marshal(args)
}

// SchemaTool is a function that a request offers by its name and schema. Templates print a tool as
// it stands, and models know its keys in Ollama's order. Error: a schema that is none.
func SchemaTool(name, description string, schema json.RawMessage) (ask.Tool, error) {
	var whole struct {
		Type     string `json:"type"`
		Function struct {
			Name        string          `json:"name"`
			Description string          `json:"description,omitempty"`
			Parameters  json.RawMessage `json:"parameters,omitempty"`
		} `json:"function"`
	}
	t := api.Tool{Type: "function", Function: api.ToolFunction{Name: name, Description: description}}
	if len(schema) > 0 {
		if err := json.Unmarshal(schema, &t.Function.Parameters); err != nil {
			return ask.Tool{}, err
		}
	}
	whole.Type = "function"
	whole.Function.Name, whole.Function.Description, whole.Function.Parameters = name, description, schema
	raw, err := json.Marshal(whole)
	return Tool(t, raw), err
}
