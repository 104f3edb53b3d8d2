package anthropic

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"

	wire "github.com/ollama/ollama/anthropic"
	"github.com/ollama/ollama/api"

	"github.com/axle-llm/axle/server/ollama"
	"github.com/axle-llm/axle/tokenizer/chat"
)

// Request is a messages request.
type Request struct {
	wire.MessagesRequest
	Native *ollama.ChatRequest
}

// AsPrompt is the native request.
func (r *Request) AsPrompt() ollama.Prompt { return r.Native }

// Decode reads the body of /v1/messages.
func Decode(b []byte) (*Request, error) { return decodeBody(b, true) }

// DecodeCount reads the body of /v1/messages/count_tokens, which has no max_tokens.
func DecodeCount(b []byte) (*Request, error) { return decodeBody(b, false) }

func decodeBody(b []byte, answered bool) (*Request, error) {
	r := new(Request)
	if err := ollama.Check(b); err != nil {
		return nil, err
	}
	if err := json.NewDecoder(bytes.NewReader(b)).Decode(&r.MessagesRequest); err != nil {
		return nil, ollama.Fail(400, "%s", err)
	}
	switch {
	case r.Model == "":
		return nil, ollama.Fail(400, "model is required")
	case answered && r.MaxTokens <= 0:
		return nil, ollama.Fail(400, "max_tokens is required and must be positive")
	case len(r.Messages) == 0:
		return nil, ollama.Fail(400, "messages is required")
	case !answered:
		r.MaxTokens = 1
	}
	if err := r.convert(); err != nil {
		return nil, err
	}
	return r, r.structured(b)
}

// convert makes the native request, and adds what Ollama's conversion leaves out.
func (r *Request) convert() error {
	// A search that the server would have to run is not offered to the model: there is no such
	// service here.
	r.Tools = slices.DeleteFunc(r.Tools, func(t wire.Tool) bool { return strings.HasPrefix(t.Type, "web_search") })
	native, err := wire.FromMessagesRequest(r.MessagesRequest)
	if err != nil {
		return ollama.Fail(400, "%s", err)
	}
	r.Native = &ollama.ChatRequest{ChatRequest: *native}
	r.Native.Ordered(lists(r.Messages), "")
	r.Native.RelaxThink = true
	if r.Thinking != nil {
		r.Native.ThinkLimit = r.Thinking.BudgetTokens
	}
	if native.Think.IsString() && api.ValidateLegacyThinking(native.Think) != nil {
		r.Native.Think = nil
	}
	var raw []json.RawMessage
	for _, t := range r.Tools { // templates print a tool as it stands, and models know the keys in this order
		var whole struct {
			Type     string `json:"type"`
			Function struct {
				Name        string          `json:"name"`
				Description string          `json:"description,omitempty"`
				Parameters  json.RawMessage `json:"parameters,omitempty"`
			} `json:"function"`
		}
		whole.Type = "function"
		whole.Function.Name, whole.Function.Description, whole.Function.Parameters = t.Name, t.Description, t.InputSchema
		tool, _ := json.Marshal(whole)
		raw = append(raw, tool)
	}
	r.Native.RememberTools(raw)
	if c := r.ToolChoice; c != nil {
		r.Native.SerialTools = c.DisableParallelToolUse
		switch c.Type {
		case "none", "auto":
			r.Native.ToolChoice = c.Type
		case "any":
			r.Native.ToolChoice = "required"
		case "tool":
			r.Native.ToolChoice = c.Name
		default:
			return ollama.Fail(400, "invalid tool_choice type: %q", c.Type)
		}
	}
	return nil
}

// structured reads what Ollama's types pass over: the format of the answer, in its place of today
// or of the beta, and which tools are strict.
func (r *Request) structured(b []byte) error {
	type format struct {
		Type   string          `json:"type"`
		Schema json.RawMessage `json:"schema"`
	}
	var x struct {
		OutputFormat *format `json:"output_format"`
		OutputConfig struct {
			Format *format `json:"format"`
		} `json:"output_config"`
		Tools []struct {
			Name   string          `json:"name"`
			Strict bool            `json:"strict"`
			Schema json.RawMessage `json:"input_schema"`
		} `json:"tools"`
	}
	if err := json.Unmarshal(b, &x); err != nil {
		return ollama.Fail(400, "%s", err)
	}
	f := x.OutputConfig.Format
	if f == nil {
		f = x.OutputFormat
	}
	if f != nil {
		if f.Type != "json_schema" || len(f.Schema) == 0 {
			return ollama.Fail(400, "output_config.format must be of type \"json_schema\" and have a schema")
		}
		r.Native.Format = f.Schema
	}
	for _, t := range x.Tools {
		if t.Strict {
			if r.Native.Schemas == nil {
				r.Native.Schemas = map[string]ollama.ToolSchema{}
			}
			r.Native.Schemas[t.Name] = ollama.ToolSchema{Parameters: t.Schema, Strict: true}
		}
	}
	return nil
}

// lists are the contents that came as lists, those of tools' results before their message's own, as
// the conversion has them.
func lists(in []wire.MessageParam) (out []ollama.Listed) {
	for _, m := range in {
		own := ollama.Listed{Role: m.Role}
		for _, b := range m.Content {
			switch b.Type {
			case "text":
				if b.Text != nil {
					own.Parts = append(own.Parts, chat.Part{Text: *b.Text})
				}
			case "image":
				own.Parts = append(own.Parts, chat.Part{Image: true})
			case "tool_result":
				result := ollama.Listed{Role: "tool"}
				blocks, _ := b.Content.([]any)
				for _, c := range blocks {
					p, _ := c.(map[string]any)
					text, isText := p["text"].(string)
					switch {
					case p["type"] == "image":
						result.Parts = append(result.Parts, chat.Part{Image: true})
					case p["type"] == "text" && isText:
						result.Parts = append(result.Parts, chat.Part{Text: text})
					}
				}
				out = append(out, result)
			}
		}
		out = append(out, own)
	}
	return out
}
