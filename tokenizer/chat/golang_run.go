package chat

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"
	"slices"
	"strings"
	text "text/template"
	"text/template/parse"
	"time"

	"github.com/ollama/ollama/api"
	"github.com/ollama/ollama/template"
)

// goProgram is a template made ready to run under a budget. A Go template has no limits of its own: it may loop over any number, and double a string
// without printing it. So each list of its nodes begins with a call that counts, and the functions that make text are ours.
type goProgram struct {
	main *template.Template
	// cut is main without what stands behind .Response, for the last turn; nil for a template that reads .Messages.
	cut *text.Template
}

// goMeterFunc is called as {{ axle_step 12 }}: what follows has twelve nodes. The call itself costs as much as three.
const goMeterFunc = "axle_step"

// goMeterEvery is after how many nodes in a row the budget is asked again.
const goMeterEvery = 64

// newGoProgram takes over t and changes its trees.
func newGoProgram(t *template.Template) (*goProgram, error) {
	vars, err := t.Vars()
	if err != nil {
		return nil, err
	}
	for _, tt := range t.Templates() {
		if tt.Tree != nil {
			if err := goMeter(tt.Tree.Root); err != nil {
				return nil, err
			}
		}
	}
	p := &goProgram{main: t}
	if slices.Contains(vars, "messages") {
		return p, nil
	}
	if p.cut, err = t.Template.Clone(); err != nil {
		return nil, err
	}
	root := t.Root.CopyList()
	goCut(root, new(bool))
	_, err = p.cut.AddParseTree(t.Name(), &parse.Tree{Name: t.Name(), Root: root})
	return p, err
}

func goMeter(l *parse.ListNode) error {
	if l == nil {
		return nil
	}
	var out, part []parse.Node
	cost := 1
	flush := func() error {
		t, err := parse.Parse("", fmt.Sprintf("{{%s %d}}", goMeterFunc, cost), "", "", map[string]any{goMeterFunc: ""})
		if err != nil {
			return err
		}
		out = append(append(out, t[""].Root.Nodes[0]), part...)
		part, cost = nil, 1
		return nil
	}
	for _, n := range l.Nodes {
		if cost > goMeterEvery {
			if err := flush(); err != nil {
				return err
			}
		}
		c := goPipeCost(n)
		if c > 16*goMeterEvery {
			return fmt.Errorf("%w: an action has %d parts", ErrBudget, c)
		}
		part, cost = append(part, n), cost+c
		var b *parse.BranchNode
		switch n := n.(type) {
		case *parse.IfNode:
			b = &n.BranchNode
		case *parse.RangeNode:
			b = &n.BranchNode
		case *parse.WithNode:
			b = &n.BranchNode
		default:
			continue
		}
		if err := goMeter(b.List); err != nil {
			return err
		}
		if err := goMeter(b.ElseList); err != nil {
			return err
		}
	}
	if err := flush(); err != nil {
		return err
	}
	l.Nodes = out
	return nil
}

// goPipeCost counts the nodes that a node evaluates before any list in it.
func goPipeCost(n parse.Node) int {
	sum := 1
	pipe := func(p *parse.PipeNode) {
		if p == nil {
			return
		}
		for _, c := range p.Cmds {
			for _, a := range c.Args {
				sum += goPipeCost(a)
			}
		}
	}
	switch n := n.(type) {
	case *parse.PipeNode:
		pipe(n)
	case *parse.ActionNode:
		pipe(n.Pipe)
	case *parse.TemplateNode:
		pipe(n.Pipe)
	case *parse.IfNode:
		pipe(n.Pipe)
	case *parse.RangeNode:
		pipe(n.Pipe)
	case *parse.WithNode:
		pipe(n.Pipe)
	case *parse.ChainNode:
		sum += goPipeCost(n.Node)
	}
	return sum
}

// goCut drops all that comes behind .Response, as Ollama does for the turn that the model is to answer. It reports whether n itself stays.
func goCut(n parse.Node, cut *bool) bool {
	if *cut {
		return false
	}
	list := func(l *parse.ListNode) *parse.ListNode {
		if l == nil || *cut {
			return nil
		}
		l.Nodes = slices.DeleteFunc(l.Nodes, func(c parse.Node) bool { return !goCut(c, cut) })
		return l
	}
	branch := func(b *parse.BranchNode) { b.List, b.ElseList = list(b.List), list(b.ElseList) }
	switch n := n.(type) {
	case *parse.ListNode:
		list(n)
	case *parse.IfNode:
		branch(&n.BranchNode)
	case *parse.RangeNode:
		branch(&n.BranchNode)
	case *parse.WithNode:
		branch(&n.BranchNode)
	case *parse.ActionNode:
		return goCut(n.Pipe, cut)
	case *parse.PipeNode:
		for i, c := range n.Cmds {
			c.Args = slices.DeleteFunc(c.Args, func(a parse.Node) bool { return !goCut(a, cut) })
			if len(c.Args) == 0 {
				n.Cmds = n.Cmds[:i]
				return false
			}
		}
	case *parse.FieldNode:
		*cut = slices.Contains(n.Ident, "Response")
	}
	return true
}

// execute runs the template as Ollama does, with a budget for all of it.
func (p *goProgram) execute(v template.Values) (out string, err error) {
	defer func() { err = goOurs(err) }()
	defer tmplRecover(&err)
	b := newBudget()
	w := &goWriter{budget: b}
	funcs := goFuncs(b)
	t, err := p.main.Clone()
	if err != nil {
		return "", err
	}
	t.Funcs(funcs)
	if p.cut == nil || v.Prompt != "" && v.Suffix != "" {
		err = (&template.Template{Template: t}).Execute(w, v)
		return w.String(), err
	}

	// A template that knows no messages is run for each question with its answer.
	data := map[string]any{"System": "", "Prompt": "", "Response": "", "Think": v.Think, "ThinkLevel": v.ThinkLevel, "IsThinkSet": v.IsThinkSet}
	run := func(t *text.Template) error {
		err := t.Execute(w, data)
		data["System"], data["Prompt"], data["Response"] = "", "", ""
		return err
	}
	for _, m := range v.Messages {
		if m.Role == "system" && (data["Prompt"] != "" || data["Response"] != "") || m.Role == "user" && data["Response"] != "" {
			if err := run(t); err != nil {
				return "", err
			}
		}
		if key := map[string]string{"system": "System", "user": "Prompt", "assistant": "Response"}[m.Role]; key != "" {
			data[key] = m.Content
		}
	}
	if t, err = p.cut.Clone(); err != nil {
		return "", err
	}
	err = run(t.Funcs(funcs))
	return w.String(), err
}

// goOurs leaves of an error about the budget what is ours: the engine names the counting call, which is not in anybody's template.
func goOurs(err error) error {
	for e := err; e != nil; e = errors.Unwrap(e) {
		if strings.HasPrefix(e.Error(), ErrBudget.Error()) {
			return e
		}
	}
	return err
}

// goWriter is what a template prints to.
type goWriter struct {
	strings.Builder
	budget *tmplBudget
}

func (w *goWriter) Write(p []byte) (int, error) {
	if err := w.budget.fits(w.Len() + len(p)); err != nil {
		return 0, err
	}
	return w.Builder.Write(p)
}

var _ io.Writer = (*goWriter)(nil)

// goFuncs stand in for text/template's functions and Ollama's that make text.
func goFuncs(b *tmplBudget) text.FuncMap {
	// made is for functions of which each byte of the arguments makes at most six.
	made := func(f func(...any) string) func(...any) (string, error) {
		return func(args ...any) (string, error) {
			sum := 0
			for _, a := range args {
				n, err := goSize(b, a)
				if err != nil {
					return "", err
				}
				sum += n
				if err := b.fits(sum); err != nil {
					return "", err
				}
			}
			s := f(args...)
			return s, b.grow(len(s))
		}
	}
	return text.FuncMap{
		goMeterFunc: func(n int) (string, error) { return "", b.step(n + 3) },
		"print":     made(fmt.Sprint),
		"println":   made(fmt.Sprintln),
		"html":      made(text.HTMLEscaper),
		"js":        made(text.JSEscaper),
		"urlquery":  made(text.URLQueryEscaper),
		"printf": func(format string, args ...any) (string, error) {
			if err := goFormat(b, format, args); err != nil {
				return "", err
			}
			s := fmt.Sprintf(format, args...)
			return s, b.grow(len(s))
		},
		"json": func(v any) (string, error) {
			s, _ := json.Marshal(v)
			return string(s), b.grow(len(s))
		},
		"currentDate":   func(...string) string { return time.Now().Format("2006-01-02") },
		"yesterdayDate": func(...string) string { return time.Now().AddDate(0, 0, -1).Format("2006-01-02") },
		"toTypeScriptType": func(v any) (string, error) {
			s := "any"
			switch v := v.(type) {
			case api.ToolProperty:
				s = v.ToTypeScriptType()
			case *api.ToolProperty:
				if v != nil {
					s = v.ToTypeScriptType()
				}
			}
			return s, b.grow(len(s))
		},
	}
}

// goSize is how many bytes a value prints as.
func goSize(b *tmplBudget, v any) (int, error) {
	switch x := reflect.ValueOf(v); x.Kind() {
	case reflect.String:
		return x.Len(), nil
	case reflect.Invalid, reflect.Bool, reflect.Float32, reflect.Float64, reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64,
		reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		return 32, nil
	}
	n := len(fmt.Sprint(v))
	return n, b.grow(n)
}

// goFormat refuses a printf that could print too much: by its widths, or by naming a long argument again and again.
func goFormat(b *tmplBudget, format string, args []any) error {
	widest, sum := 0, len(format)
	for _, a := range args {
		n, err := goSize(b, a)
		if err != nil {
			return err
		}
		widest, sum = max(widest, n), sum+n+64 // an argument without a verb is printed too, with its type
	}
	for i := 0; i < len(format); i++ {
		if format[i] != '%' {
			continue
		}
		times, width := 1, 0
		for i++; i < len(format) && strings.IndexByte("+-# 0123456789.*[]", format[i]) >= 0; i++ {
			switch c := format[i]; {
			case c == '*':
				width += 1_000_000 // the most that fmt takes
			case c >= '0' && c <= '9':
				n := 0
				for ; i < len(format) && format[i] >= '0' && format[i] <= '9'; i++ {
					n = min(10*n+int(format[i]-'0'), 1_000_000)
				}
				i--
				width += n
			case c == '+' || c == '#' || c == ' ':
				times = 12
			}
		}
		if i < len(format) && strings.IndexByte("svdt", format[i]) < 0 {
			times = 12 // %q and %x write more than they are given
		}
		if sum += width + times*(widest+64); sum > tmplMaxBytes {
			break
		}
	}
	return b.fits(sum)
}
