package chat

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"text/template/parse"

	"github.com/ollama/ollama/api"
	"github.com/ollama/ollama/template"
)

// goTemplate is an Ollama template in Go's syntax, from a Modelfile or a request. Like the Jinja ones it is rendered twice, the second time with the
// template's own text in a private alphabet.
type goTemplate struct {
	source string
	family string
	caps   Capabilities
	plain  *goProgram
	shown  *goProgram
	sh     *shadow
}

// NewGo compiles an Ollama template. Its error for a source that does not parse is the one of text/template itself, as Ollama shows it
// ("template: :1: unclosed action"). Templates that include themselves, or whose loops show that they have no end, are refused here; what only a
// rendering can show ends that rendering with [ErrBudget].
func NewGo(source string) (Template, error) {
	if len(source) > tmplMaxSource {
		return nil, fmt.Errorf("chat: the template has %d bytes, more than the %d allowed", len(source), tmplMaxSource)
	}
	t := &goTemplate{source: source, family: FamilyOf(source)}
	plain, err := template.Parse(source)
	if err != nil {
		return nil, err
	}
	if err := goCheck(plain); err != nil {
		return nil, fmt.Errorf("chat: %w", err)
	}
	vars, err := plain.Vars()
	if err != nil {
		return nil, err
	}
	if t.plain, err = newGoProgram(plain); err != nil {
		return nil, fmt.Errorf("chat: %w", err)
	}
	t.caps = Capabilities{
		Tools:    slices.Contains(vars, "tools"),
		Insert:   slices.Contains(vars, "suffix"),
		System:   slices.Contains(vars, "system") || slices.Contains(vars, "messages"),
		Thinking: slices.Contains(vars, "thinking") || slices.Contains(vars, "think") || strings.Contains(source, "<think>"),
		Vision:   false,
	}
	t.shown, t.sh, err = t.shadowed([shadowCount]bool{})
	return t, err
}

func (t *goTemplate) Source() string             { return t.source }
func (t *goTemplate) Family() string             { return t.family }
func (t *goTemplate) Capabilities() Capabilities { return t.caps }

// shadowed parses the template again and writes its text in a private alphabet.
func (t *goTemplate) shadowed(used [shadowCount]bool) (*goProgram, *shadow, error) {
	sh, err := newShadow(used)
	if err != nil {
		return nil, nil, err
	}
	out, err := template.Parse(t.source)
	if err != nil {
		return nil, nil, err
	}
	for _, tt := range out.Templates() {
		if tt.Tree != nil && tt.Tree.Root != nil {
			goWalk(tt.Tree.Root, func(n parse.Node) {
				switch n := n.(type) {
				case *parse.TextNode:
					n.Text = []byte(sh.hide(string(n.Text)))
				case *parse.ActionNode:
					goPrinted(n.Pipe, sh)
				}
			})
		}
	}
	p, err := newGoProgram(out)
	return p, sh, err
}

// goPrinted hides the literals that an action prints: alone, or as arguments of print and printf.
func goPrinted(p *parse.PipeNode, sh *shadow) {
	if p == nil || len(p.Decl) > 0 || len(p.Cmds) != 1 {
		return
	}
	args := p.Cmds[0].Args
	if id, ok := args[0].(*parse.IdentifierNode); ok && !slices.Contains([]string{"print", "println"}, id.Ident) {
		return
	}
	for _, a := range args {
		if s, ok := a.(*parse.StringNode); ok {
			s.Text = sh.hide(s.Text)
			s.Quoted = fmt.Sprintf("%q", s.Text)
		}
	}
}

// goWalk calls f for each node of a tree.
func goWalk(n parse.Node, f func(parse.Node)) {
	f(n)
	branch := func(b *parse.BranchNode) {
		goWalk(b.List, f)
		if b.ElseList != nil {
			goWalk(b.ElseList, f)
		}
	}
	switch n := n.(type) {
	case *parse.ListNode:
		if n == nil {
			return
		}
		for _, c := range n.Nodes {
			goWalk(c, f)
		}
	case *parse.IfNode:
		branch(&n.BranchNode)
	case *parse.RangeNode:
		branch(&n.BranchNode)
	case *parse.WithNode:
		branch(&n.BranchNode)
	}
}

// goMaxCost is how many nodes a template may execute for one round of each loop over data.
const goMaxCost = 1 << 20

// goCheck refuses templates that include themselves, and loops over numbers or nested includes that multiply beyond measure.
func goCheck(t *template.Template) error {
	trees := make(map[string]*parse.Tree)
	for _, tt := range t.Templates() {
		if tt.Tree != nil {
			trees[tt.Name()] = tt.Tree
		}
	}
	done, open := make(map[string]float64), make(map[string]bool)
	var cost func(n parse.Node) (float64, error)
	tree := func(name string) (float64, error) {
		if c, ok := done[name]; ok {
			return c, nil
		}
		if open[name] {
			return 0, fmt.Errorf("%w: %q includes itself", ErrBudget, name)
		}
		open[name] = true
		defer delete(open, name)
		c := 0.0
		if t := trees[name]; t != nil && t.Root != nil {
			var err error
			if c, err = cost(t.Root); err != nil {
				return 0, err
			}
		}
		done[name] = c
		return c, nil
	}
	cost = func(n parse.Node) (float64, error) {
		sum := 1.0
		add := func(times float64, list ...*parse.ListNode) error {
			for _, l := range list {
				if l == nil {
					continue
				}
				c, err := cost(l)
				if err != nil {
					return err
				}
				sum += c * times
			}
			return nil
		}
		var err error
		switch n := n.(type) {
		case *parse.ListNode:
			for _, c := range n.Nodes {
				k, err := cost(c)
				if err != nil {
					return 0, err
				}
				sum += k
			}
		case *parse.IfNode:
			err = add(1, n.List, n.ElseList)
		case *parse.WithNode:
			err = add(1, n.List, n.ElseList)
		case *parse.RangeNode:
			times := 1.0
			for _, c := range n.Pipe.Cmds {
				for _, a := range c.Args {
					if num, ok := a.(*parse.NumberNode); ok {
						times = math.Max(times, math.Max(num.Float64, float64(num.Uint64)))
					}
				}
			}
			sum += times
			err = add(times, n.List, n.ElseList)
		case *parse.TemplateNode:
			var c float64
			c, err = tree(n.Name)
			sum += c
		}
		if err == nil && sum > goMaxCost {
			err = fmt.Errorf("%w: its loops run over numbers", ErrBudget)
		}
		return sum, err
	}
	for name := range trees {
		if _, err := tree(name); err != nil {
			return err
		}
	}
	return nil
}

func (t *goTemplate) Render(c Conversation) ([]Piece, error) {
	c = c.begun()
	return t.pieces(c, func() (template.Values, error) { return goValues(c) }, c.strings())
}

// Generate renders a prompt: with a suffix where the template has a place for one.
func (t *goTemplate) Generate(system, prompt, suffix string, think Think) ([]Piece, error) {
	if suffix != "" {
		if !t.caps.Insert {
			return nil, errors.New("chat: the template has no place for a suffix")
		}
		return t.pieces(Conversation{Think: think}, func() (template.Values, error) {
			return template.Values{Prompt: prompt, Suffix: suffix}, nil
		}, []string{prompt, suffix})
	}
	c := Conversation{Think: think}
	if system != "" {
		c.Messages = append(c.Messages, Message{Role: "system", Content: system})
	}
	c.Messages = append(c.Messages, Message{Role: "user", Content: prompt})
	return t.Render(c)
}

func (t *goTemplate) pieces(c Conversation, values func() (template.Values, error), strs []string) ([]Piece, error) {
	var used [shadowCount]bool
	for _, s := range strs {
		shadowUsed(&used, s)
	}
	shown, sh := t.shown, t.sh
	if used[0] {
		var err error
		if shown, sh, err = t.shadowed(used); err != nil {
			return nil, fmt.Errorf("chat: %w", err)
		}
	}
	execute := func(p *goProgram) (string, error) {
		v, err := values()
		if err != nil {
			return "", err
		}
		v.Think = c.Think != ThinkDefault && c.Think != ThinkOff
		v.IsThinkSet = c.Think != ThinkDefault
		if v.Think && c.Think != ThinkOn {
			v.ThinkLevel = string(c.Think)
		}
		return p.execute(v)
	}
	text, err := execute(t.plain)
	if err != nil {
		return nil, fmt.Errorf("chat: %w", err)
	}
	marked, err := execute(shown)
	if errors.Is(err, ErrBudget) {
		return nil, fmt.Errorf("chat: %w", err)
	}
	if err != nil || sh.plain(marked) != text {
		return nil, errors.New("chat: the template compares its own text with itself, which cannot be kept apart from the conversation's")
	}
	if marked, err = tmplOpen(marked, c); err != nil {
		return nil, fmt.Errorf("chat: %w", err)
	}
	return sh.pieces(marked), nil
}

// goValues converts a conversation to Ollama's types. Messages of one role that follow each other are one, as Ollama makes them, but joined at once: it
// adds one to another, which takes minutes for very many.
func goValues(c Conversation) (template.Values, error) {
	var v template.Values
	var same []string // the contents that are v's last message
	join := func() {
		if len(same) > 1 {
			v.Messages[len(v.Messages)-1].Content = strings.Join(same, "\n\n")
		}
	}
	for i, m := range c.Messages {
		if n := len(v.Messages); n > 0 && v.Messages[n-1].Role == m.Role && m.Role != "tool" {
			same = append(same, m.Content)
			continue
		}
		join()
		same = []string{m.Content}
		a := api.Message{Role: m.Role, Content: m.Content, Thinking: m.Thinking, ToolName: m.ToolName, ToolCallID: m.ToolCallID}
		for k, call := range m.ToolCalls {
			tc := api.ToolCall{ID: call.ID, Function: api.ToolCallFunction{Index: k, Name: call.Name, Arguments: api.NewToolCallFunctionArguments()}}
			if len(call.Arguments) > 0 {
				if err := json.Unmarshal(call.Arguments, &tc.Function.Arguments); err != nil {
					return v, fmt.Errorf("message %d: arguments of the call of %s: %w", i, call.Name, err)
				}
			}
			a.ToolCalls = append(a.ToolCalls, tc)
		}
		v.Messages = append(v.Messages, a)
	}
	join()
	for i, tool := range c.Tools {
		raw := []byte(tool.Raw)
		if len(raw) == 0 {
			f := map[string]any{"name": tool.Name, "description": tool.Description}
			if len(tool.Parameters) > 0 {
				f["parameters"] = tool.Parameters
			}
			kind := tool.Type
			if kind == "" {
				kind = "function"
			}
			var err error
			if raw, err = json.Marshal(map[string]any{"type": kind, "function": f}); err != nil {
				return v, fmt.Errorf("tool %d: %w", i, err)
			}
		}
		var a api.Tool
		if err := json.Unmarshal(raw, &a); err != nil {
			return v, fmt.Errorf("tool %d: %w", i, err)
		}
		v.Tools = append(v.Tools, a)
	}
	return v, nil
}

// strings lists the texts of a conversation. JSON is listed as it is written, and escapes in it can hide a character.
func (c Conversation) strings() []string {
	var out []string
	raw := func(b json.RawMessage) {
		if v, err := tmplJSON(b); err == nil {
			tmplStrings(v, 0, func(s string) { out = append(out, s) })
		}
	}
	for _, m := range c.Messages {
		out = append(out, m.Role, m.Content, m.Thinking, m.ToolName, m.ToolCallID)
		for _, call := range m.ToolCalls {
			out = append(out, call.ID, call.Name)
			raw(call.Arguments)
		}
	}
	for _, t := range c.Tools {
		out = append(out, t.Type, t.Name, t.Description)
		raw(t.Raw)
		raw(t.Parameters)
	}
	return out
}
