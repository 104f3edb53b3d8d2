package chat

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/axle-llm/axle/tokenizer/gotmpl"
	"github.com/axle-llm/axle/tokenizer/origin"
)

// goTemplate is an Ollama template in Go's syntax, from a Modelfile or a request.
type goTemplate struct {
	source, family string
	caps           Capabilities
	main           *gotmpl.Template
	// last is main without what stands behind .Response, for the turn that the model is to answer;
	// nil for a template that reads .Messages.
	last *gotmpl.Template
}

// NewGo compiles an Ollama template. Its error for a source that does not parse is the one of
// text/template itself, as Ollama shows it ("template: :1: unclosed action"). Templates that do not
// come to an end with one short question are refused here; what only another conversation shows
// ends that rendering with [ErrBudget].
func NewGo(source string) (Template, error) {
	if err := tooLong(source); err != nil {
		return nil, fmt.Errorf("chat: %w", err)
	}
	main, err := gotmpl.Parse(source)
	if err != nil {
		return nil, err
	}
	vars := main.Vars()
	has := func(name string) bool { return slices.Contains(vars, name) }
	t := &goTemplate{source: source, family: FamilyOf(source), main: main, caps: Capabilities{
		Tools:    has("tools"),
		Insert:   has("suffix"),
		System:   has("system") || has("messages"),
		Thinking: has("thinking") || has("think") || strings.Contains(source, "<think>"),
	}}
	if !has("messages") {
		if !has("response") { // Ollama puts it at the end
			if t.main, err = gotmpl.Parse(source + "{{ .Response }}"); err != nil {
				return nil, err
			}
		}
		t.last = t.main.Until("Response")
	}
	if _, err := t.Generate(context.Background(), "", "a", "", ThinkDefault); errors.Is(err, ErrBudget) {
		return nil, err
	}
	return t, nil
}

func (t *goTemplate) Source() string             { return t.source }
func (t *goTemplate) Family() string             { return t.family }
func (t *goTemplate) Capabilities() Capabilities { return t.caps }

// Generate renders a prompt: with a suffix where the template has a place for one.
func (t *goTemplate) Generate(ctx context.Context, system, prompt, suffix string, think Think) ([]Piece, error) {
	if suffix == "" {
		return t.Render(ctx, asConversation(system, prompt, think))
	}
	if !t.caps.Insert {
		return nil, errors.New("chat: the template has no place for a suffix")
	}
	c := Conversation{Think: think}
	return t.rendered(ctx, c, func(m *origin.Meter, out *origin.Builder) error {
		data := goData(c)
		data["Prompt"], data["Suffix"], data["Response"] = prompt, suffix, ""
		return t.main.Render(m, out, data)
	})
}

func (t *goTemplate) Render(ctx context.Context, c Conversation) ([]Piece, error) {
	c = begun(c)
	return t.rendered(ctx, c, func(m *origin.Meter, out *origin.Builder) error {
		messages, err := goMessages(c)
		if err != nil {
			return err
		}
		if t.last != nil {
			return t.turns(m, out, c, messages)
		}
		data := goData(c)
		if data["Tools"], err = goToolList(c); err != nil {
			return err
		}
		var system []string
		for _, m := range c.Messages {
			if m.Role == "system" {
				system = append(system, m.Content)
			}
		}
		data["System"], data["Messages"], data["Response"] = strings.Join(system, "\n\n"), messages, ""
		return t.main.Render(m, out, data)
	})
}

func (t *goTemplate) rendered(ctx context.Context, c Conversation, render func(*origin.Meter, *origin.Builder) error) ([]Piece, error) {
	pieces, err := rendered(ctx, c, func(m *origin.Meter) (origin.Text, error) {
		var out origin.Builder
		err := render(m, &out)
		return out.Text(), err
	})
	if err != nil {
		return nil, fmt.Errorf("chat: %w", err)
	}
	return pieces, nil
}

// turns runs a template that knows no messages for each question with its answer, as Ollama does.
func (t *goTemplate) turns(m *origin.Meter, out *origin.Builder, c Conversation, messages []*goMessage) error {
	data := goData(c)
	clear := func() { data["System"], data["Prompt"], data["Response"] = "", "", "" }
	clear()
	for _, msg := range messages {
		if msg.Role == "system" && (data["Prompt"] != "" || data["Response"] != "") || msg.Role == "user" && data["Response"] != "" {
			if err := t.main.Render(m, out, data); err != nil {
				return err
			}
			clear()
		}
		if key := map[string]string{"system": "System", "user": "Prompt", "assistant": "Response"}[msg.Role]; key != "" {
			data[key] = msg.Content
		}
	}
	return t.last.Render(m, out, data)
}

// goData are the variables that every template sees.
func goData(c Conversation) map[string]any {
	on := c.Think != ThinkDefault && c.Think != ThinkOff
	level := ""
	if on && c.Think != ThinkOn {
		level = string(c.Think)
	}
	return map[string]any{"Think": on, "ThinkLevel": level, "IsThinkSet": c.Think != ThinkDefault}
}

// What templates see of messages and tools, in the form of Ollama's types. Maps print as JSON.
type (
	goMessage struct {
		Role, Content, Thinking string
		Images                  [][]byte
		ToolCalls               []goCall
		ToolName, ToolCallID    string
	}
	goCall struct {
		ID       string
		Function goCallFunction
	}
	goCallFunction struct {
		Index     int
		Name      string
		Arguments goArguments
	}
	goArguments  map[string]any
	goProperties map[string]gotmpl.Property
	goTools      []goTool
	goTool       struct {
		Type     string     `json:"type"`
		Items    any        `json:"items,omitempty"`
		Function goFunction `json:"function"`
	}
	goFunction struct {
		Name        string       `json:"name"`
		Description string       `json:"description"`
		Parameters  goParameters `json:"parameters"`
	}
	goParameters struct {
		Type       string       `json:"type"`
		Defs       any          `json:"$defs,omitempty"`
		Items      any          `json:"items,omitempty"`
		Required   []string     `json:"required,omitempty"`
		Properties goProperties `json:"properties"`
	}
)

func asJSON(v any) string {
	b, _ := json.Marshal(v)
	return string(b)
}

func (t goTools) String() string { return asJSON([]goTool(t)) }
func (t goTool) String() string  { return asJSON(t) }

func (a goArguments) String() string {
	if a == nil {
		return "{}"
	}
	return asJSON(map[string]any(a))
}

func (p goProperties) String() string {
	if p == nil {
		return "{}"
	}
	return asJSON(map[string]gotmpl.Property(p))
}

// goMessages are the messages, those of one role that follow each other being one, as Ollama makes
// them.
func goMessages(c Conversation) ([]*goMessage, error) {
	var out []*goMessage
	var same []string // the contents that are the last of out
	join := func() {
		if len(same) > 1 {
			out[len(out)-1].Content = strings.Join(same, "\n\n")
		}
	}
	for i, m := range c.Messages {
		if n := len(out); n > 0 && out[n-1].Role == m.Role && m.Role != "tool" {
			same = append(same, m.Content)
			continue
		}
		join()
		same = []string{m.Content}
		g := &goMessage{Role: m.Role, Content: m.Content, Thinking: m.Thinking, ToolName: m.ToolName, ToolCallID: m.ToolCallID}
		for k, call := range m.ToolCalls {
			args := goArguments{}
			if len(call.Arguments) > 0 {
				if err := json.Unmarshal(call.Arguments, &args); err != nil {
					return nil, fmt.Errorf("message %d: arguments of the call of %s: %w", i, call.Name, err)
				}
			}
			g.ToolCalls = append(g.ToolCalls, goCall{call.ID, goCallFunction{k, call.Name, args}})
		}
		out = append(out, g)
	}
	join()
	return out, nil
}

func goToolList(c Conversation) (goTools, error) {
	var out goTools
	for i, tool := range c.Tools {
		raw, err := toolJSON(tool)
		if err != nil {
			return nil, fmt.Errorf("tool %d: %w", i, err)
		}
		var t goTool
		if err := json.Unmarshal(raw, &t); err != nil {
			return nil, fmt.Errorf("tool %d: %w", i, err)
		}
		out = append(out, t)
	}
	return out, nil
}
