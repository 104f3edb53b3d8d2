package chat

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/ardanlabs/jinja"
)

// JinjaOptions are what a Jinja template may print beside the conversation.
type JinjaOptions struct {
	BOS, EOS string // bos_token and eos_token; may be empty
	// Family overrides the output format that the source shows.
	Family string
}

// jinjaTemplate renders a Hugging Face chat template. Each conversation is rendered twice: plainly, and with what the template itself prints written
// in a private alphabet. Where the two agree, and they do unless a template compares its own output with itself, every
// character's origin is known.
//
// Known to differ from Python still: a tuple prints as a list, and ** of whole numbers is a float.
// No template in use does any of it.
type jinjaTemplate struct {
	name, family string
	source, body string // as given; as compiled
	o            JinjaOptions
	caps         Capabilities
	segs         []tmplSegment
	macros       map[string]bool
	lists        bool     // content with images is given as a list of parts
	tags         []string // what looks like a control token in the source
	plain        *jinja.Template
	usual        jinjaShadowed
	thinkKey     bool // the template reads message.thinking
}

type jinjaShadowed struct {
	sh       *shadow
	tmpl     *jinja.Template
	bos, eos string // in the alphabet
}

// NewJinja compiles a chat template of a model package; name is what errors call it. It fails for sources that do not parse, and for those that
// would not come to an end: endless macros and loops are found by a trial conversation, and refused at render time too.
func NewJinja(source, name string, o JinjaOptions) (Template, error) {
	t, err := newJinja(source, name, o)
	if err != nil {
		return nil, fmt.Errorf("chat: template %s: %w", name, err)
	}
	return t, nil
}

func newJinja(source, name string, o JinjaOptions) (*jinjaTemplate, error) {
	if len(source) > tmplMaxSource {
		return nil, fmt.Errorf("it has %d bytes, more than the %d allowed", len(source), tmplMaxSource)
	}
	source = strings.ReplaceAll(source, "\r\n", "\n")
	t := &jinjaTemplate{name: name, source: source, family: o.Family, o: o, macros: make(map[string]bool)}
	var err error
	t.body = strings.TrimSuffix(source, "\n") // as jinja2 reads it
	if t.segs, err = tmplScan(t.body); err != nil {
		return nil, err
	}
	if err := tmplCheck(t.body, t.segs, t.macros); err != nil {
		return nil, err
	}
	if t.plain, err = t.compile(nil); err != nil {
		return nil, err
	}
	if t.usual, err = t.shadowed([shadowCount]bool{}); err != nil {
		return nil, err
	}
	if t.family == "" {
		t.family = FamilyOf(source)
	}
	t.caps = tmplCapabilities(source)
	t.lists = t.caps.Vision
	t.thinkKey = strings.Contains(source, ".thinking") || strings.Contains(source, "['thinking']")
	t.tags = tmplTags(source)

	trial := Conversation{Messages: []Message{{Role: "user", Content: "a"}}, Now: time.Unix(0, 0)}
	if _, err := t.Render(trial); errors.Is(err, ErrBudget) {
		return nil, err
	}
	return t, nil
}

func (t *jinjaTemplate) compile(sh *shadow) (tmpl *jinja.Template, err error) {
	defer tmplRecover(&err)
	return jinja.Compile(tmplRewrite(t.body, t.segs, t.macros, sh))
}

func (t *jinjaTemplate) shadowed(used [shadowCount]bool) (jinjaShadowed, error) {
	sh, err := newShadow(used)
	if err != nil {
		return jinjaShadowed{}, err
	}
	tmpl, err := t.compile(sh)
	return jinjaShadowed{sh, tmpl, sh.hide(t.o.BOS), sh.hide(t.o.EOS)}, err
}

func tmplRecover(err *error) {
	if p := recover(); p != nil {
		*err = fmt.Errorf("the template engine gave up: %v", p)
	}
}

func (t *jinjaTemplate) Source() string             { return t.source }
func (t *jinjaTemplate) Family() string             { return t.family }
func (t *jinjaTemplate) Capabilities() Capabilities { return t.caps }

func (t *jinjaTemplate) Generate(system, prompt, suffix string, think Think) ([]Piece, error) {
	if suffix != "" {
		return nil, fmt.Errorf("chat: template %s has no place for a suffix", t.name)
	}
	c := Conversation{Think: think}
	if system != "" {
		c.Messages = append(c.Messages, Message{Role: "system", Content: system})
	}
	c.Messages = append(c.Messages, Message{Role: "user", Content: prompt})
	return t.Render(c)
}

func (t *jinjaTemplate) Render(c Conversation) ([]Piece, error) {
	pieces, err := t.render(c.begun())
	if err != nil {
		return nil, fmt.Errorf("chat: template %s: %w", t.name, err)
	}
	return pieces, nil
}

func (t *jinjaTemplate) render(c Conversation) ([]Piece, error) {
	if c.Now.IsZero() {
		c.Now = time.Now()
	}
	data, err := t.data(c)
	if err != nil {
		return nil, err
	}
	var used [shadowCount]bool
	var strs []string
	for _, v := range data {
		tmplStrings(v, 0, func(s string) {
			shadowUsed(&used, s)
			strs = append(strs, s)
		})
	}
	data["bos_token"], data["eos_token"] = jinja.NewString(t.o.BOS), jinja.NewString(t.o.EOS)
	text, err := t.execute(t.plain, data, c.Now)
	if err != nil {
		return nil, err
	}

	s := t.usual
	if used[0] {
		if s, err = t.shadowed(used); err != nil {
			return nil, err
		}
	}
	// Templates may change lists and mappings they are given, so the values are made anew.
	if data, err = t.data(c); err != nil {
		return nil, err
	}
	data["bos_token"], data["eos_token"] = jinja.NewString(s.bos), jinja.NewString(s.eos)
	marked, err := t.execute(s.tmpl, data, c.Now)
	var pieces []Piece
	if err == nil && s.sh.plain(marked) == text {
		if marked, err = tmplOpen(marked, c); err != nil {
			return nil, err
		}
		pieces = s.sh.pieces(marked)
	} else {
		if text, err = tmplOpen(text, c); err != nil {
			return nil, err
		}
		if pieces, err = t.byTags(text, strs); err != nil {
			return nil, err
		}
	}
	return pieces, nil
}

func (t *jinjaTemplate) execute(tmpl *jinja.Template, data map[string]jinja.Value, now time.Time) (out string, err error) {
	defer tmplRecover(&err)
	for k, v := range tmplFuncs(newBudget(), now) {
		data[k] = v
	}
	out, err = tmpl.RenderValues(data)
	if err == nil && len(out) > tmplMaxOutput {
		err = fmt.Errorf("%w: it prints %d bytes", ErrBudget, len(out))
	}
	return out, err
}

// data is what the template sees of a conversation, as transformers would give it.
func (t *jinjaTemplate) data(c Conversation) (map[string]jinja.Value, error) {
	data := map[string]jinja.Value{"add_generation_prompt": jinja.NewBool(!c.Continue)}
	if len(c.Tools) > 0 {
		var tools []jinja.Value
		for i, tool := range c.Tools {
			v, err := tmplTool(tool)
			if err != nil {
				return nil, fmt.Errorf("tool %d: %w", i, err)
			}
			tools = append(tools, v)
		}
		data["tools"] = jinja.NewList(tools)
	}
	switch c.Think {
	case ThinkDefault:
	case ThinkOff:
		data["enable_thinking"], data["thinking"] = jinja.NewBool(false), jinja.NewBool(false)
	default:
		data["enable_thinking"], data["thinking"] = jinja.NewBool(true), jinja.NewBool(true)
		if c.Think != ThinkOn {
			data["reasoning_effort"] = jinja.NewString(string(c.Think))
		}
	}
	for k, raw := range c.Kwargs {
		if strings.HasPrefix(k, "axle_") || k == "messages" || k == "tools" || k == "range" || k == "strftime_now" {
			return nil, fmt.Errorf("the variable %q cannot be set", k)
		}
		v, err := tmplJSON(raw)
		if err != nil {
			return nil, fmt.Errorf("variable %q: %w", k, err)
		}
		data[k] = v
	}
	messages := make([]jinja.Value, len(c.Messages))
	for i, m := range c.Messages {
		v, err := t.message(m)
		if err != nil {
			return nil, fmt.Errorf("message %d: %w", i, err)
		}
		messages[i] = v
	}
	data["messages"] = jinja.NewList(messages)
	return data, nil
}

func (t *jinjaTemplate) message(m Message) (jinja.Value, error) {
	v := jinja.NewDict()
	d := v.AsDict()
	str := func(k, s string) {
		if s != "" {
			d.Set(k, jinja.NewString(s))
		}
	}
	d.Set("role", jinja.NewString(m.Role))
	switch {
	case len(m.Images) > 0 && t.lists:
		var parts []jinja.Value
		for range m.Images {
			part := jinja.NewDict()
			part.AsDict().Set("type", jinja.NewString("image"))
			parts = append(parts, part)
		}
		part := jinja.NewDict()
		part.AsDict().Set("type", jinja.NewString("text"))
		part.AsDict().Set("text", jinja.NewString(m.Content))
		d.Set("content", jinja.NewList(append(parts, part)))
	case m.Null:
		d.Set("content", jinja.None())
	default:
		d.Set("content", jinja.NewString(m.Content))
	}
	str("reasoning_content", m.Thinking)
	if t.thinkKey {
		str("thinking", m.Thinking)
	}
	str("name", m.ToolName)
	str("tool_call_id", m.ToolCallID)
	var calls []jinja.Value
	for _, c := range m.ToolCalls {
		call, f := jinja.NewDict(), jinja.NewDict()
		if c.ID != "" {
			call.AsDict().Set("id", jinja.NewString(c.ID))
		}
		call.AsDict().Set("type", jinja.NewString("function"))
		f.AsDict().Set("name", jinja.NewString(c.Name))
		args := jinja.NewDict()
		if len(c.Arguments) > 0 {
			var err error
			if args, err = tmplJSON(c.Arguments); err != nil {
				return v, fmt.Errorf("arguments of the call of %s: %w", c.Name, err)
			}
		}
		f.AsDict().Set("arguments", args)
		call.AsDict().Set("function", f)
		calls = append(calls, call)
	}
	if len(calls) > 0 {
		d.Set("tool_calls", jinja.NewList(calls))
	}
	return v, nil
}

func tmplTool(tool Tool) (jinja.Value, error) {
	if len(tool.Raw) > 0 {
		return tmplJSON(tool.Raw)
	}
	v, f := jinja.NewDict(), jinja.NewDict()
	kind := tool.Type
	if kind == "" {
		kind = "function"
	}
	v.AsDict().Set("type", jinja.NewString(kind))
	f.AsDict().Set("name", jinja.NewString(tool.Name))
	f.AsDict().Set("description", jinja.NewString(tool.Description))
	if len(tool.Parameters) > 0 {
		p, err := tmplJSON(tool.Parameters)
		if err != nil {
			return v, err
		}
		f.AsDict().Set("parameters", p)
	}
	v.AsDict().Set("function", f)
	return v, nil
}

// tmplStrings calls f for every string in a value, keys too.
func tmplStrings(v jinja.Value, depth int, f func(string)) {
	switch {
	case depth > tmplDeep:
	case v.IsString():
		f(v.AsString())
	case v.IsList():
		for _, x := range v.AsList().Items {
			tmplStrings(x, depth+1, f)
		}
	case v.IsDict():
		for _, k := range v.AsDict().Keys {
			f(k)
			tmplStrings(v.AsDict().Data[k], depth+1, f)
		}
	}
}

// begun is the conversation without a last message that is to be continued but says nothing yet: that is a new answer.
func (c Conversation) begun() Conversation {
	if n := len(c.Messages) - 1; c.Continue && (n < 0 || strings.TrimSpace(c.Messages[n].Content) == "") {
		c.Continue = false
		if n >= 0 && c.Messages[n].Role == "assistant" && len(c.Messages[n].ToolCalls) == 0 {
			c.Messages = c.Messages[:n]
		}
	}
	return c
}

// tmplOpen cuts the prompt behind the last message's content, for an answer that is to be continued.
func tmplOpen(text string, c Conversation) (string, error) {
	if !c.Continue {
		return text, nil
	}
	last := strings.TrimSpace(c.Messages[len(c.Messages)-1].Content)
	k := strings.LastIndex(text, last)
	if k < 0 {
		return "", errors.New("the message to continue is not in the prompt")
	}
	return text[:k+len(last)], nil
}

var tmplTag = regexp.MustCompile(`<[^<>\s'"{}]{1,48}>|\[[A-Z_/]{2,24}\]`)

// tmplTags lists what looks like a control token in a template's source.
func tmplTags(source string) []string {
	tags := tmplTag.FindAllString(source, 4096)
	slices.Sort(tags)
	return slices.Compact(tags)
}

// byTags is the way out for a template that does not render the same in the private alphabet: what looks like its control tokens is taken for
// such, provided that nobody else wrote one.
func (t *jinjaTemplate) byTags(text string, strs []string) ([]Piece, error) {
	tags := slices.Clone(t.tags)
	for _, tag := range []string{t.o.BOS, t.o.EOS} {
		if tag != "" {
			tags = append(tags, tag)
		}
	}
	for _, s := range strs {
		for _, tag := range append([]string{"<|", "|>", "<｜", "｜>"}, tags...) {
			if strings.Contains(s, tag) {
				return nil, fmt.Errorf("the conversation contains %q, which this template cannot tell from its own text", tag)
			}
		}
	}
	slices.SortFunc(tags, func(a, b string) int { return len(b) - len(a) })
	var out []Piece
	done := 0
	for i := 0; i < len(text); {
		k := slices.IndexFunc(tags, func(tag string) bool { return strings.HasPrefix(text[i:], tag) })
		if k < 0 {
			i++
			continue
		}
		if done < i {
			out = append(out, Piece{Text: text[done:i]})
		}
		out = append(out, Piece{Text: tags[k], Control: true})
		i += len(tags[k])
		done = i
	}
	if done < len(text) {
		out = append(out, Piece{Text: text[done:]})
	}
	return out, nil
}

// tmplCapabilities reads a template's abilities off its source.
func tmplCapabilities(src string) Capabilities {
	has := func(words ...string) bool {
		return slices.ContainsFunc(words, func(w string) bool { return strings.Contains(src, w) })
	}
	return Capabilities{
		Tools:    has("tools", "xml_tools", ".Tools"),
		Thinking: has("<think>", "enable_thinking", "reasoning_content", "<|channel>thought", ".Think"),
		Insert:   has(".Suffix"),
		Vision:   has("<|image_pad|>", "<start_of_image>", "<|image|>", "'image'", `"image"`, "<IMG_CONTEXT>", "<image>"),
		System:   has("system", ".System"),
	}
}

// FamilyOf names the output format of the models that a template, Jinja or Go, belongs to; see [Families].
func FamilyOf(source string) string {
	has := func(w string) bool { return strings.Contains(source, w) }
	switch {
	case has("<function=") && has("<parameter="):
		return "qwen3-coder"
	case has("<|tool_call_start|>"), has("<|thought_start|>"):
		return "minicpm"
	case has("<tool_call>") && has("<think>"):
		return "qwen3"
	case has("<tool_call>"):
		return "hermes"
	case has("<|/tool_call|>"):
		return "phi"
	case has("<|start_header_id|>"), has("<|python_tag|>"), has("<|tool_call|>"):
		return "llama3"
	case has("<start_of_turn>"), has("<|turn>"):
		return "gemma"
	}
	return "plain"
}
