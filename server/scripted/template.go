package scripted

import (
	"context"
	"encoding/json"
	"strings"

	"github.com/axle-llm/axle/tokenizer/chat"
)

const (
	toolsOpen     = "<tools>\n"
	assistantOpen = "<|im_start|>assistant\n"
	noThinking    = "<think>\n\n</think>\n\n"
)

// Source is the template's text as Ollama would have it.
const Source = `{{- if .Suffix }}<|fim_prefix|>{{ .Prompt }}<|fim_suffix|>{{ .Suffix }}<|fim_middle|>
{{- else }}
{{- if or .System .Tools }}<|im_start|>system
{{ .System }}
{{- if .Tools }}
<tools>
{{- range .Tools }}
{"type": "function", "function": {{ .Function }}}
{{- end }}
</tools>
{{- end }}<|im_end|>
{{ end }}
{{- range .Messages }}<|im_start|>{{ .Role }}
{{ if .Thinking }}<think>
{{ .Thinking }}
</think>

{{ end }}{{ .Content }}
{{- range .ToolCalls }}<tool_call>
{"name": "{{ .Function.Name }}", "arguments": {{ .Function.Arguments }}}
</tool_call>{{ end }}<|im_end|>
{{ end }}<|im_start|>assistant
{{ if and .IsThinkSet (not .Think) }}<think>

</think>

{{ end }}{{ end }}`

// chatML is the template of the scripted models that chat.
type chatML struct{ caps chat.Capabilities }

func (t chatML) Capabilities() chat.Capabilities { return t.caps }
func (t chatML) Source() string                  { return Source }
func (t chatML) Family() string                  { return "qwen3" }

func (t chatML) Render(_ context.Context, c chat.Conversation) ([]chat.Piece, error) {
	var ps []chat.Piece
	control := func(s string) { ps = append(ps, chat.Piece{Text: s, Control: true}) }
	text := func(s string) {
		if s != "" {
			ps = append(ps, chat.Piece{Text: s})
		}
	}
	msgs := c.Messages
	if len(c.Tools) > 0 {
		control("<|im_start|>system\n")
		if len(msgs) > 0 && msgs[0].Role == "system" {
			text(msgs[0].Content + "\n")
			msgs = msgs[1:]
		}
		control(toolsOpen)
		for _, tool := range c.Tools {
			b := tool.Raw
			if len(b) == 0 {
				b, _ = json.Marshal(map[string]any{"type": "function",
					"function": map[string]any{"name": tool.Name, "description": tool.Description, "parameters": tool.Parameters}})
			}
			text(string(b) + "\n")
		}
		control("</tools><|im_end|>\n")
	}
	for i, m := range msgs {
		control("<|im_start|>")
		text(m.Role)
		control("\n")
		for range m.Images {
			control("<image> ")
		}
		if m.Thinking != "" {
			control("<think>\n")
			text(m.Thinking)
			control("\n</think>\n\n")
		}
		text(m.Content)
		for _, call := range m.ToolCalls {
			control("\n<tool_call>\n")
			text(`{"name": "` + call.Name + `", "arguments": ` + string(call.Arguments) + "}")
			control("\n</tool_call>")
		}
		if c.Continue && i == len(msgs)-1 && m.Role == "assistant" {
			return ps, nil
		}
		control("<|im_end|>\n")
	}
	control(t.open(c.Think))
	return ps, nil
}

func (t chatML) open(think chat.Think) string {
	if t.caps.Thinking && think == chat.ThinkOff {
		return assistantOpen + noThinking
	}
	return assistantOpen
}

func (t chatML) Generate(ctx context.Context, system, prompt, suffix string, think chat.Think) ([]chat.Piece, error) {
	if suffix != "" {
		return []chat.Piece{{Text: "<|fim_prefix|>", Control: true}, {Text: prompt}, {Text: "<|fim_suffix|>", Control: true},
			{Text: suffix},
			{Text: "<|fim_middle|>", Control: true}}, nil
	}
	var msgs []chat.Message
	if system != "" {
		msgs = append(msgs, chat.Message{Role: "system", Content: system})
	}
	return t.Render(ctx, chat.Conversation{Messages: append(msgs, chat.Message{Role: "user", Content: prompt}), Think: think})
}

// plain is the template of the completion model: the prompt as it stands.
type plain struct{}

func (plain) Capabilities() chat.Capabilities { return chat.Capabilities{} }
func (plain) Source() string                  { return "{{ if .System }}{{ .System }} {{ end }}{{ .Prompt }}" }
func (plain) Family() string                  { return "plain" }

func (plain) Render(_ context.Context, c chat.Conversation) ([]chat.Piece, error) {
	var parts []string
	for _, m := range c.Messages {
		if m.Content != "" {
			parts = append(parts, m.Content)
		}
	}
	return []chat.Piece{{Text: strings.Join(parts, " ")}}, nil
}

func (t plain) Generate(ctx context.Context, system, prompt, _ string, _ chat.Think) ([]chat.Piece, error) {
	return t.Render(ctx, chat.Conversation{Messages: []chat.Message{{Role: "system", Content: system}, {Role: "user", Content: prompt}}})
}
