//go:build !scripted

package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/axle-llm/axle/internal/regular"
	"github.com/axle-llm/axle/tokenizer"
	"github.com/axle-llm/axle/tokenizer/chat"
)

func init() { register(newRenderCmd) }

func newRenderCmd() *cobra.Command {
	var messages, tools string
	var set []string
	var ids bool
	cmd := &cobra.Command{
		Use:   "render MODEL|TEMPLATE_FILE --messages FILE.json",
		Short: "Show the prompt a model would be given",
		Long: `Render a conversation with a model's chat template, or with a template file, and print the prompt.

The messages are those of Ollama's or OpenAI's API: a JSON array, or an object with "messages" and perhaps "tools" in it. A
TEMPLATE_FILE is a Jinja template (*.jinja, or a tokenizer_config.json with one inside) or an Ollama template in Go's syntax.
--set gives the template a variable: --set enable_thinking=false, --set date_string='"1 Jan 2026"'. FILE.json may be - for
standard input.`,
		Example: `  axle render qwen3:0.6b --messages chat.json --set enable_thinking=false
  axle render qwen3:0.6b --messages chat.json --tools tools.json --ids`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if messages == "" {
				return usageError("--messages is missing: a JSON file with the conversation")
			}
			c, opts, err := readConversation(cmd.InOrStdin(), messages, tools, set)
			if err != nil {
				return err
			}
			tmpl, tok, err := openTemplate(args[0], opts, ids)
			if err != nil {
				return err
			}
			pieces, err := tmpl.Render(cmd.Context(), c)
			if err != nil {
				return err
			}
			out := bufio.NewWriter(cmd.OutOrStdout())
			if ids {
				list := chat.Encode(tok, pieces)
				if first := tok.Prefix(); len(first) > 0 && (len(list) == 0 || list[0] != first[0]) {
					list = append(append([]int32(nil), first...), list...)
				}
				err = writeIDs(out, list)
			} else {
				last := ""
				for _, p := range pieces {
					_, err = out.WriteString(p.Text)
					last = p.Text
				}
				if err == nil && !strings.HasSuffix(last, "\n") {
					err = out.WriteByte('\n')
				}
			}
			if e := out.Flush(); err == nil {
				err = e
			}
			return err
		},
	}
	cmd.Flags().StringVar(&messages, "messages", "", "JSON file with the messages, or -")
	cmd.Flags().StringVar(&tools, "tools", "", "JSON file with the tools offered")
	cmd.Flags().StringArrayVar(&set, "set", nil, "template variable, `name=json`; may be repeated")
	cmd.Flags().BoolVar(&ids, "ids", false, "print token ids instead of text")
	return cmd
}

// openTemplate opens the template of a model or a file, and the tokenizer if it is asked for.
func openTemplate(name string, o chat.JinjaOptions, needTokenizer bool) (chat.Template, *tokenizer.Tokenizer, error) {
	if st, err := os.Stat(name); err == nil && !st.IsDir() {
		tmpl, err := templateFile(name, o)
		if err != nil || !needTokenizer {
			return tmpl, nil, err
		}
		tok, err := tokenizer.Open(filepath.Dir(name))
		if err != nil {
			return nil, nil, fmt.Errorf("--ids needs a tokenizer beside the template, or a model in its place: %w", err)
		}
		return tmpl, tok, nil
	}
	p, err := openPackage(name)
	if err != nil {
		return nil, nil, err
	}
	defer p.Close()
	tmpl, err := p.Template()
	if err != nil || !needTokenizer {
		return tmpl, nil, err
	}
	tok, err := p.Tokenizer()
	return tmpl, tok, err
}

// templateFile reads a template: Jinja if it has statements or its name says so, Go's syntax if it begins actions with a dot or a word of
// Go's.
func templateFile(name string, o chat.JinjaOptions) (chat.Template, error) {
	b, err := os.ReadFile(name)
	if err != nil {
		return nil, err
	}
	config := name
	src := string(b)
	if filepath.Ext(name) != ".json" {
		config = filepath.Join(filepath.Dir(name), "tokenizer_config.json")
	}
	var c struct {
		Template string          `json:"chat_template"`
		BOS      json.RawMessage `json:"bos_token"`
		EOS      json.RawMessage `json:"eos_token"`
	}
	if raw, err := regular.ReadPath(config, 32<<20); err == nil && json.Unmarshal(raw, &c) == nil {
		if o.BOS == "" {
			o.BOS = tokenName(c.BOS)
		}
		if o.EOS == "" {
			o.EOS = tokenName(c.EOS)
		}
	}
	if filepath.Ext(name) == ".json" {
		if src = c.Template; src == "" {
			return nil, fmt.Errorf("%s: there is no chat_template in it", name)
		}
		return chat.NewJinja(src, filepath.Base(name), o)
	}
	goSyntax := filepath.Ext(name) == ".gotmpl"
	for _, s := range []string{"{{ .", "{{.", "{{- .", "{{-.", "{{ if ", "{{- if ", "{{if ", "{{ range ", "{{- range ", "{{end", "{{ end",
		"{{- end"} {
		goSyntax = goSyntax || strings.Contains(src, s)
	}
	if goSyntax && !strings.Contains(src, "{%") && filepath.Ext(name) != ".jinja" {
		return chat.NewGo(src)
	}
	return chat.NewJinja(src, filepath.Base(name), o)
}

// tokenName reads a token that is a string or an object with its content.
func tokenName(raw json.RawMessage) string {
	var s string
	if json.Unmarshal(raw, &s) == nil {
		return s
	}
	var o struct{ Content string }
	_ = json.Unmarshal(raw, &o)
	return o.Content
}

// renderMessage is a message of Ollama's or OpenAI's API.
type renderMessage struct {
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

// readConversation reads the files the flags name.
func readConversation(stdin io.Reader, messages, tools string, set []string) (c chat.Conversation, o chat.JinjaOptions, err error) {
	raw, err := readArgument(stdin, messages)
	if err != nil {
		return c, o, err
	}
	var list []renderMessage
	var offered []json.RawMessage
	if bytes.HasPrefix(bytes.TrimSpace(raw), []byte("{")) {
		var whole struct {
			Messages []renderMessage   `json:"messages"`
			Tools    []json.RawMessage `json:"tools"`
		}
		err = json.Unmarshal(raw, &whole)
		list, offered = whole.Messages, whole.Tools
	} else {
		err = json.Unmarshal(raw, &list)
	}
	if err != nil {
		return c, o, fmt.Errorf("%s: %w", messages, err)
	}
	for i, m := range list {
		out, err := m.message()
		if err != nil {
			return c, o, fmt.Errorf("%s: message %d: %w", messages, i+1, err)
		}
		c.Messages = append(c.Messages, out)
	}
	if tools != "" {
		if raw, err = readArgument(stdin, tools); err == nil {
			err = json.Unmarshal(raw, &offered)
		}
		if err != nil {
			return c, o, fmt.Errorf("%s: %w", tools, err)
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
			return c, o, fmt.Errorf("tool %d: %w", i+1, err)
		}
		c.Tools = append(c.Tools, chat.Tool{Type: t.Type, Name: t.Function.Name, Description: t.Function.Description,
			Parameters: t.Function.Parameters, Raw: raw})
	}
	for _, s := range set {
		name, value, ok := strings.Cut(s, "=")
		if !ok || name == "" || !json.Valid([]byte(value)) {
			return c, o, usageError("--set %q is not name=json (a string needs quotes: --set x='\"text\"')", s)
		}
		switch name {
		case "enable_thinking", "think":
			switch value {
			case "true":
				c.Think = chat.ThinkOn
			case "false":
				c.Think = chat.ThinkOff
			default:
				var level string
				_ = json.Unmarshal([]byte(value), &level)
				c.Think = chat.Think(level)
			}
		case "bos_token":
			_ = json.Unmarshal([]byte(value), &o.BOS)
		case "eos_token":
			_ = json.Unmarshal([]byte(value), &o.EOS)
		default:
			if c.Kwargs == nil {
				c.Kwargs = make(map[string]json.RawMessage)
			}
			c.Kwargs[name] = json.RawMessage(value)
		}
	}
	return c, o, nil
}

func readArgument(stdin io.Reader, name string) ([]byte, error) {
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

func (m renderMessage) message() (chat.Message, error) {
	out := chat.Message{Role: m.Role, Thinking: m.Thinking, ToolName: m.ToolName, ToolCallID: m.ToolCallID}
	if out.Thinking == "" {
		out.Thinking = m.Reasoning
	}
	if out.ToolName == "" {
		out.ToolName = m.Name
	}
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
		for _, p := range parts {
			switch p.Type {
			case "text":
				out.Content += p.Text
			case "image", "image_url":
				out.Images = append(out.Images, nil)
			default:
				return out, fmt.Errorf("a part of its content has type %q", p.Type)
			}
		}
	}
	for range m.Images {
		out.Images = append(out.Images, nil)
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
