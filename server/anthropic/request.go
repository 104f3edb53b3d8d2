package anthropic

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	wire "github.com/ollama/ollama/anthropic"

	"github.com/axle-llm/axle/ask"
	"github.com/axle-llm/axle/server/body"
	"github.com/axle-llm/axle/server/ollamatype"
	"github.com/axle-llm/axle/server/prompt"
)

// messagesRequest is the body of /v1/messages: Ollama's type, and what it passes over.
type messagesRequest struct {
	wire.MessagesRequest
	Tools        []tool  `json:"tools"`
	OutputFormat *format `json:"output_format"`
	OutputConfig *struct {
		Effort string  `json:"effort"`
		Format *format `json:"format"`
	} `json:"output_config"`
}

// tool is a tool, which may be strict.
type tool struct {
	wire.Tool
	Strict bool `json:"strict"`
}

// format is the form of an answer, in its place of today or of the beta.
type format struct {
	Type   string          `json:"type"`
	Schema json.RawMessage `json:"schema"`
}

// decode reads the body of /v1/messages.
func decode(_ prompt.From, b []byte) (*prompt.Request, prompt.Encoder, error) {
	r, q, err := decodeBody(b, true)
	if err != nil {
		return nil, nil, err
	}
	return q, newEncoder(&r.MessagesRequest), nil
}

// decodeCount reads the body of /v1/messages/count_tokens, which has no max_tokens.
func decodeCount(_ prompt.From, b []byte) (*prompt.Request, prompt.Encoder, error) {
	_, q, err := decodeBody(b, false)
	return q, nil, err
}

func decodeBody(b []byte, answered bool) (*messagesRequest, *prompt.Request, error) {
	r := new(messagesRequest)
	if err := json.NewDecoder(bytes.NewReader(b)).Decode(r); err != nil {
		var te *json.UnmarshalTypeError
		if errors.As(err, &te) && te.Struct == "messagesRequest" {
			te.Struct, te.Field = "MessagesRequest", strings.TrimPrefix(te.Field, "MessagesRequest.")
		}
		return nil, nil, body.Fail(400, "%s", err)
	}
	// A search that the server would have to run is not offered to the model: there is no such
	// service here.
	r.Tools = slices.DeleteFunc(r.Tools, func(t tool) bool { return strings.HasPrefix(t.Type, "web_search") })
	for _, t := range r.Tools { // they count in the estimate of the prompt's tokens
		r.MessagesRequest.Tools = append(r.MessagesRequest.Tools, t.Tool)
	}
	switch {
	case r.Model == "":
		return nil, nil, body.Fail(400, "model is required")
	case answered && r.MaxTokens <= 0:
		return nil, nil, body.Fail(400, "max_tokens is required and must be positive")
	case len(r.Messages) == 0:
		return nil, nil, body.Fail(400, "messages is required")
	case !answered:
		r.MaxTokens = 1
	}
	q, err := r.request()
	return r, q, body.Bad(err)
}

// request is what the body asks.
func (r *messagesRequest) request() (*prompt.Request, error) {
	q := &prompt.Request{Model: r.Model, Unnamed: prompt.ErrUnnamed, Chat: true, RelaxThink: true,
		Options: map[string]any{"num_predict": r.MaxTokens}}
	q.Ask.Truncate, q.Ask.Shift = true, true
	for key, v := range map[string]*float64{"temperature": r.Temperature, "top_p": r.TopP} {
		if v != nil {
			q.Options[key] = *v
		}
	}
	if r.TopK != nil {
		q.Options["top_k"] = *r.TopK
	}
	if len(r.StopSequences) > 0 {
		q.Options["stop"] = r.StopSequences
	}
	if system := systemText(r.System); system != "" {
		q.Ask.Messages = append(q.Ask.Messages, ask.Message{Role: "system", Content: system})
	}
	for i := range r.Messages {
		said, err := messages(&r.Messages[i])
		if err != nil {
			return nil, err
		}
		q.Ask.Messages = append(q.Ask.Messages, said...)
	}
	q.Loads = len(q.Ask.Messages) == 0
	r.think(q)
	if err := r.offer(q); err != nil {
		return nil, err
	}
	f := r.OutputFormat
	if r.OutputConfig != nil && r.OutputConfig.Format != nil {
		f = r.OutputConfig.Format
	}
	if f != nil {
		if f.Type != "json_schema" || len(f.Schema) == 0 {
			return nil, body.Fail(400, "output_config.format must be of type \"json_schema\" and have a schema")
		}
		q.Format = f.Schema
	}
	return q, nil
}

// think reads how the model is to think. An effort that is none of Ollama's leaves it to the model.
func (r *messagesRequest) think(q *prompt.Request) {
	if t := r.Thinking; t != nil {
		q.Ask.ThinkLimit = t.BudgetTokens
		switch t.Type {
		case "enabled":
			q.Ask.Think = ask.ThinkOn
		case "disabled":
			q.Ask.Think = ask.ThinkOff
		}
	}
	if q.Ask.Think != ask.ThinkDefault || r.OutputConfig == nil {
		return
	}
	switch effort := strings.ToLower(strings.TrimSpace(r.OutputConfig.Effort)); effort {
	case "xhigh":
		q.Ask.Think = ask.ThinkHigh
	case "low", "medium", "high", "max":
		q.Ask.Think = ask.Think(effort)
	}
}

// offer adds the tools and which of them is to be called.
func (r *messagesRequest) offer(q *prompt.Request) error {
	for _, t := range r.Tools {
		offered, err := ollamatype.SchemaTool(t.Name, t.Description, t.InputSchema)
		if err != nil {
			return fmt.Errorf("invalid input_schema for tool %q: %w", t.Name, err)
		}
		if t.Strict {
			offered.Schema, offered.Strict = t.InputSchema, true
		}
		q.Ask.Tools = append(q.Ask.Tools, offered)
	}
	c := r.ToolChoice
	if c == nil {
		return nil
	}
	q.Ask.SerialTools = c.DisableParallelToolUse
	switch c.Type {
	case "none", "auto":
		q.Ask.ToolChoice = c.Type
	case "any":
		q.Ask.ToolChoice = "required"
	case "tool":
		q.Ask.ToolChoice = c.Name
	default:
		return body.Fail(400, "invalid tool_choice type: %q", c.Type)
	}
	return nil
}

// systemText is a system prompt, which may come in blocks.
func systemText(v any) string {
	switch system := v.(type) {
	case string:
		return system
	case []any:
		var text strings.Builder
		for _, block := range system {
			b, _ := block.(map[string]any)
			if part, ok := b["text"].(string); ok && b["type"] == "text" {
				text.WriteString(part)
			}
		}
		return text.String()
	}
	return ""
}

// messages are what a message becomes: its own text, pictures and calls, and a message for each
// result of a tool, which stand before what a user says to them.
func messages(in *wire.MessageParam) (out []ask.Message, err error) {
	own := ask.Message{Role: strings.ToLower(in.Role)}
	var results []ask.Message
	for i := range in.Content {
		switch b := &in.Content[i]; b.Type {
		case "text":
			if b.Text != nil {
				add(&own, ask.Part{Text: *b.Text})
			}
		case "image":
			img, err := picture(b.Source)
			if err != nil {
				return nil, err
			}
			own.Images = append(own.Images, img)
			add(&own, ask.Part{Image: true})
		case "tool_use", "server_tool_use":
			if b.Type == "tool_use" && b.ID == "" {
				return nil, errors.New("tool_use block missing required 'id' field")
			}
			if b.Type == "tool_use" && b.Name == "" {
				return nil, errors.New("tool_use block missing required 'name' field")
			}
			args, err := json.Marshal(b.Input)
			if err != nil {
				args = json.RawMessage("{}")
			}
			own.ToolCalls = append(own.ToolCalls, ask.ToolCall{ID: b.ID, Name: b.Name, Arguments: args})
		case "tool_result":
			result, err := resultOf(b.Content)
			if err != nil {
				return nil, err
			}
			result.ToolCallID = b.ToolUseID
			results = append(results, result)
		case "thinking":
			if b.Thinking != nil {
				own.Thinking = *b.Thinking
			}
		case "web_search_tool_result":
			results = append(results, ask.Message{Role: "tool", Content: found(b.Content), ToolCallID: b.ToolUseID})
		}
	}
	ordered(&own, len(in.Content))
	if own.Role == "user" {
		out = results
	}
	if own.Content != "" || len(own.Images) > 0 || len(own.ToolCalls) > 0 || own.Thinking != "" {
		out = append(out, own)
	}
	if own.Role != "user" {
		out = append(out, results...)
	}
	return out, nil
}

// add adds a part to a message's content.
func add(m *ask.Message, p ask.Part) {
	m.Content += p.Text
	m.Parts = append(m.Parts, p)
}

// ordered leaves the order of a content to the model where there is none to keep: it has no
// picture.
func ordered(m *ask.Message, blocks int) {
	if len(m.Images) == 0 || blocks < 2 {
		m.Parts = nil
	}
}

// resultOf is what a tool gave: a text, or blocks of texts and pictures.
func resultOf(content any) (ask.Message, error) {
	m := ask.Message{Role: "tool"}
	switch c := content.(type) {
	case string:
		m.Content = c
	case []any:
		for _, block := range c {
			b, ok := block.(map[string]any)
			if !ok {
				continue
			}
			switch b["type"] {
			case "text":
				if text, ok := b["text"].(string); ok {
					add(&m, ask.Part{Text: text})
				}
			case "image":
				img, err := pictureOf(b["source"])
				if err != nil {
					return m, err
				}
				m.Images = append(m.Images, img)
				add(&m, ask.Part{Image: true})
			}
		}
		ordered(&m, len(c))
	}
	return m, nil
}
