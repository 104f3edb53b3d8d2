// Package transcript reads conversations and chat templates that people keep in files: messages as
// Ollama's and OpenAI's APIs have them, and templates in Jinja's or Go's syntax.
//
// Its functions may be called from any goroutine, and close what they open.
package transcript

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/axle-llm/axle/tokenizer/chat"
)

// Read reads a conversation from the file messages, and the tools it offers from the file tools;
// without one, those that stand beside the messages. Either file may be - for stdin. The errors
// name the file, and the message or tool in it.
func Read(stdin io.Reader, messages, tools string) (c chat.Conversation, err error) {
	raw, err := read(stdin, messages)
	if err != nil {
		return c, err
	}
	var list []message
	var offered []json.RawMessage
	if bytes.HasPrefix(bytes.TrimSpace(raw), []byte("{")) {
		var whole struct {
			Messages []message         `json:"messages"`
			Tools    []json.RawMessage `json:"tools"`
		}
		err = json.Unmarshal(raw, &whole)
		list, offered = whole.Messages, whole.Tools
	} else {
		err = json.Unmarshal(raw, &list)
	}
	if err != nil {
		return c, fmt.Errorf("%s: %w", messages, err)
	}
	for i, m := range list {
		out, err := m.chat()
		if err != nil {
			return c, fmt.Errorf("%s: message %d: %w", messages, i+1, err)
		}
		c.Messages = append(c.Messages, out)
	}
	if tools != "" {
		if raw, err = read(stdin, tools); err == nil {
			err = json.Unmarshal(raw, &offered)
		}
		if err != nil {
			return c, fmt.Errorf("%s: %w", tools, err)
		}
	}
	for i, raw := range offered {
		var t struct {
			Type     string
			Function struct {
				Name        string
				Description string
				Parameters  json.RawMessage
			}
		}
		if err := json.Unmarshal(raw, &t); err != nil {
			return c, fmt.Errorf("tool %d: %w", i+1, err)
		}
		c.Tools = append(c.Tools, chat.Tool{Type: t.Type, Name: t.Function.Name, Description: t.Function.Description,
			Parameters: t.Function.Parameters, Raw: raw})
	}
	return c, nil
}

// message is a message of Ollama's or OpenAI's API.
type message struct {
	Role       string            `json:"role"`
	Content    json.RawMessage   `json:"content"`
	Thinking   string            `json:"thinking"`
	Reasoning  string            `json:"reasoning_content"`
	Images     []json.RawMessage `json:"images"`
	ToolName   string            `json:"tool_name"`
	Name       string            `json:"name"`
	ToolCallID string            `json:"tool_call_id"`
	ToolCalls  []struct {
		ID       string `json:"id"`
		Function struct {
			Name      string          `json:"name"`
			Arguments json.RawMessage `json:"arguments"`
		} `json:"function"`
	} `json:"tool_calls"`
}

func read(stdin io.Reader, name string) ([]byte, error) {
	const most = 64 << 20
	r := stdin
	if name != "-" {
		f, err := os.Open(name)
		if err != nil {
			return nil, err
		}
		defer f.Close()
		r = f
	}
	b, err := io.ReadAll(io.LimitReader(r, most+1))
	if err == nil && len(b) > most {
		err = fmt.Errorf("%s is larger than %d bytes", name, most)
	}
	return b, err
}

func (m message) chat() (chat.Message, error) {
	out := chat.Message{Role: m.Role, Thinking: cmp.Or(m.Thinking, m.Reasoning), ToolName: cmp.Or(m.ToolName, m.Name),
		ToolCallID: m.ToolCallID}
	if m.Role == "" {
		return out, errors.New("it has no role")
	}
	switch {
	case len(m.Content) == 0 || string(m.Content) == "null":
		out.Null = true
	case m.Content[0] == '"':
		if err := json.Unmarshal(m.Content, &out.Content); err != nil {
			return out, err
		}
	default:
		var parts []struct{ Type, Text string }
		if err := json.Unmarshal(m.Content, &parts); err != nil {
			return out, errors.New("its content is neither a string nor a list of parts")
		}
		var placed []chat.Part
		for _, p := range parts {
			switch p.Type {
			case "text":
				out.Content += p.Text
				placed = append(placed, chat.Part{Text: p.Text})
			case "image", "image_url":
				out.Images = append(out.Images, nil)
				placed = append(placed, chat.Part{Image: true})
			default:
				return out, fmt.Errorf("a part of its content has type %q", p.Type)
			}
		}
		if len(out.Images) > 0 { // each stays between the words that it stood between
			out.Parts = placed
		}
	}
	for range m.Images {
		out.Images = append(out.Images, nil)
		if out.Parts != nil {
			out.Parts = append([]chat.Part{{Image: true}}, out.Parts...)
		}
	}
	for i, tc := range m.ToolCalls {
		args := tc.Function.Arguments
		if len(args) > 0 && args[0] == '"' { // OpenAI writes them as a string
			var s string
			if err := json.Unmarshal(args, &s); err != nil || !json.Valid([]byte(s)) {
				return out, fmt.Errorf("the arguments of tool call %d are no JSON", i+1)
			}
			args = json.RawMessage(s)
		}
		out.ToolCalls = append(out.ToolCalls, chat.ToolCall{ID: tc.ID, Name: tc.Function.Name, Arguments: args})
	}
	return out, nil
}
