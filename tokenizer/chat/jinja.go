package chat

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/axle-llm/axle/tokenizer/jinja"
	"github.com/axle-llm/axle/tokenizer/origin"
)

// JinjaOptions are what a Jinja template may print in addition to the conversation.
type JinjaOptions struct {
	BOS, EOS string // bos_token and eos_token; may be empty
	// Family overrides the output format that the source shows.
	Family string
}

// jinjaTemplate renders a Hugging Face chat template.
type jinjaTemplate struct {
	name, source, family string
	o                    JinjaOptions
	caps                 Capabilities
	thinkKey             bool // the template reads message.thinking
	tmpl                 *jinja.Template
}

// NewJinja compiles a chat template of a model package; name is what errors call it. It fails for
// sources that do not parse, and for those that do not come to an end with one short question. What
// only another conversation shows ends that rendering with [ErrBudget].
func NewJinja(source, name string, o JinjaOptions) (Template, error) {
	t, err := newJinja(source, name, o)
	if err != nil {
		return nil, fmt.Errorf("chat: template %s: %w", name, err)
	}
	return t, nil
}

func newJinja(source, name string, o JinjaOptions) (*jinjaTemplate, error) {
	if err := tooLong(source); err != nil {
		return nil, err
	}
	source = strings.ReplaceAll(source, "\r\n", "\n")
	t := &jinjaTemplate{name: name, source: source, family: o.Family, o: o, caps: capabilitiesOf(source)}
	var err error
	if t.tmpl, err = jinja.Parse(source); err != nil {
		return nil, err
	}
	if t.family == "" {
		t.family = FamilyOf(source)
	}
	t.thinkKey = strings.Contains(source, ".thinking") || strings.Contains(source, "['thinking']")
	trial := Conversation{Messages: []Message{{Role: "user", Content: "a"}}, Now: time.Unix(0, 0)}
	if _, err := t.render(context.Background(), trial); errors.Is(err, ErrBudget) {
		return nil, err
	}
	return t, nil
}

func (t *jinjaTemplate) Source() string             { return t.source }
func (t *jinjaTemplate) Family() string             { return t.family }
func (t *jinjaTemplate) Capabilities() Capabilities { return t.caps }

func (t *jinjaTemplate) Generate(ctx context.Context, system, prompt, suffix string, think Think) ([]Piece, error) {
	if suffix != "" {
		return nil, fmt.Errorf("chat: template %s has no place for a suffix", t.name)
	}
	return t.Render(ctx, asConversation(system, prompt, think))
}

func (t *jinjaTemplate) Render(ctx context.Context, c Conversation) ([]Piece, error) {
	c = begun(c)
	pieces, err := t.render(ctx, c)
	// Some templates cannot work with a content that is null, which many clients send where they
	// mean none.
	var stumbled *jinja.Error
	if errors.As(err, &stumbled) && slices.ContainsFunc(c.Messages, func(m Message) bool { return m.Null }) {
		c.Messages = slices.Clone(c.Messages)
		for i := range c.Messages {
			c.Messages[i].Null = false
		}
		pieces, err = t.render(ctx, c)
	}
	if err != nil {
		return nil, fmt.Errorf("chat: template %s: %w", t.name, err)
	}
	return pieces, nil
}

func (t *jinjaTemplate) render(ctx context.Context, c Conversation) ([]Piece, error) {
	if c.Now.IsZero() {
		c.Now = time.Now()
	}
	vars, err := t.vars(c)
	if err != nil {
		return nil, err
	}
	return rendered(ctx, c, func(m *origin.Meter) (origin.Text, error) { return t.tmpl.Render(m, vars, c.Now) })
}

// kept are the names that no further variable may have.
var kept = []string{"messages", "tools", "range", "namespace", "dict", "strftime_now", "raise_exception"}

// vars is what the template sees of a conversation, as transformers would give it.
func (t *jinjaTemplate) vars(c Conversation) (map[string]jinja.Value, error) {
	vars := map[string]jinja.Value{"add_generation_prompt": !c.Continue}
	if len(c.Tools) > 0 {
		tools := &jinja.List{}
		for i, tool := range c.Tools {
			raw, err := toolJSON(tool)
			var v jinja.Value
			if err == nil {
				v, err = jinja.FromJSON(raw)
			}
			if err != nil {
				return nil, fmt.Errorf("tool %d: %w", i, err)
			}
			tools.Items = append(tools.Items, v)
		}
		vars["tools"] = tools
	}
	switch c.Think {
	case ThinkDefault:
	case ThinkOff:
		vars["enable_thinking"], vars["thinking"] = false, false
	default:
		vars["enable_thinking"], vars["thinking"] = true, true
		if c.Think != ThinkOn {
			vars["reasoning_effort"] = origin.Given(string(c.Think))
		}
	}
	for k, raw := range c.Kwargs {
		if slices.Contains(kept, k) {
			return nil, fmt.Errorf("the variable %q cannot be set", k)
		}
		v, err := jinja.FromJSON(raw)
		if err != nil {
			return nil, fmt.Errorf("variable %q: %w", k, err)
		}
		vars[k] = v
	}
	vars["bos_token"], vars["eos_token"] = origin.Own(t.o.BOS), origin.Own(t.o.EOS)
	messages := &jinja.List{Items: make([]jinja.Value, len(c.Messages))}
	for i, m := range c.Messages {
		v, err := t.message(m)
		if err != nil {
			return nil, fmt.Errorf("message %d: %w", i, err)
		}
		messages.Items[i] = v
	}
	vars["messages"] = messages
	return vars, nil
}

func (t *jinjaTemplate) message(m Message) (jinja.Value, error) {
	d := &jinja.Dict{}
	str := func(k, s string) {
		if s != "" {
			d.Set(k, origin.Given(s))
		}
	}
	d.Set("role", origin.Given(m.Role))
	switch {
	case len(m.Images) > 0 && t.caps.Vision:
		d.Set("content", jinjaParts(m))
	case m.Null:
		d.Set("content", nil)
	default:
		d.Set("content", origin.Given(m.Content))
	}
	str("reasoning_content", m.Thinking)
	if t.thinkKey {
		str("thinking", m.Thinking)
	}
	str("name", m.ToolName)
	str("tool_call_id", m.ToolCallID)
	calls := &jinja.List{}
	for _, c := range m.ToolCalls {
		call, f := &jinja.Dict{}, &jinja.Dict{}
		if c.ID != "" {
			call.Set("id", origin.Given(c.ID))
		}
		call.Set("type", origin.Given("function"))
		f.Set("name", origin.Given(c.Name))
		var arguments jinja.Value = &jinja.Dict{}
		if len(c.Arguments) > 0 {
			var err error
			if arguments, err = jinja.FromJSON(c.Arguments); err != nil {
				return nil, fmt.Errorf("arguments of the call of %s: %w", c.Name, err)
			}
		}
		f.Set("arguments", arguments)
		call.Set("function", f)
		calls.Items = append(calls.Items, call)
	}
	if len(calls.Items) > 0 {
		d.Set("tool_calls", calls)
	}
	return d, nil
}

// jinjaParts is a content with pictures, in the order of its parts.
func jinjaParts(m Message) *jinja.List {
	parts := m.Parts
	if parts == nil {
		parts = append(slices.Repeat([]Part{{Image: true}}, len(m.Images)), Part{Text: m.Content})
	}
	out := &jinja.List{}
	for _, p := range parts {
		d := &jinja.Dict{}
		if p.Image {
			d.Set("type", origin.Given("image"))
		} else {
			d.Set("type", origin.Given("text"))
			d.Set("text", origin.Given(p.Text))
		}
		out.Items = append(out.Items, d)
	}
	return out
}
