// Package gotmpl runs Go's templates, as Ollama's models bring them, on text that knows where it
// came from and under a meter.
//
// It walks the tree that text/template/parse makes, and gives it the meaning that text/template
// does: pipelines, if, with, range, break and continue, define and template, variables, and
// functions. Of text/template's functions it has all but call, html, js, println and urlquery, with
// printf for the verbs %v, %s, %d and %%; and it has Ollama's own. It cannot call methods, nor
// functions that are values, because such code would run without being counted. Data are Go values
// without arrays and unsigned numbers. A string in the data is given, and a literal is the
// template's own. Each byte of a function's result has the origin of what it was made from, where
// that can be told, and else is given.
//
// A [Template] is immutable, and any goroutine may use it at any time. Nothing needs closing.
package gotmpl

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"text/template/parse"

	"github.com/axle-llm/axle/tokenizer/origin"
)

// maxNesting is how deep actions may stand in each other.
const maxNesting = 200

// Template is a parsed template, which is the tree without a name, and those it defines.
type Template struct{ trees map[string]*parse.Tree }

// Parse reads a template. Errors for what does not parse are text/template's own ("template: :1:
// unclosed action"); beyond them it refuses what it cannot run.
func Parse(source string) (*Template, error) {
	known := make(map[string]any, len(funcs))
	for name := range funcs {
		known[name] = true
	}
	trees, err := parse.Parse("", source, "", "", known)
	if err != nil {
		return nil, err
	}
	t := &Template{trees}
	for _, tree := range trees {
		if err := t.check(tree.Root, 0); err != nil {
			return nil, err
		}
	}
	return t, nil
}

// check refuses what cannot be run, and what is nested too deep.
func (t *Template) check(n parse.Node, depth int) error {
	if depth > maxNesting {
		return fmt.Errorf("template: :1: actions are nested more than %d deep", maxNesting)
	}
	switch n := n.(type) {
	case *parse.TemplateNode:
		if t.trees[n.Name] == nil {
			return fmt.Errorf("template: :%d: template %q not defined", n.Line, n.Name)
		}
	case *parse.CommandNode:
		switch first := n.Args[0].(type) {
		case *parse.FieldNode, *parse.ChainNode, *parse.VariableNode:
			if len(n.Args) > 1 {
				return fmt.Errorf("template: :1: %s is given arguments, and is no function", first)
			}
		}
	}
	for _, c := range children(n) {
		if err := t.check(c, depth+1); err != nil {
			return err
		}
	}
	return nil
}

// branch is what if, range and with have in common; nil for other nodes.
func branch(n parse.Node) *parse.BranchNode {
	switch n := n.(type) {
	case *parse.IfNode:
		return &n.BranchNode
	case *parse.RangeNode:
		return &n.BranchNode
	case *parse.WithNode:
		return &n.BranchNode
	}
	return nil
}

// children are the nodes right below a node.
func children(n parse.Node) []parse.Node {
	if b := branch(n); b != nil {
		return slices.Concat([]parse.Node{b.Pipe}, children(b.List), children(b.ElseList))
	}
	var out []parse.Node
	switch n := n.(type) {
	case *parse.ListNode:
		if n != nil { // an else that is not there
			return n.Nodes
		}
	case *parse.ActionNode:
		return []parse.Node{n.Pipe}
	case *parse.TemplateNode:
		if n.Pipe != nil {
			return []parse.Node{n.Pipe}
		}
	case *parse.ChainNode:
		return []parse.Node{n.Node}
	case *parse.CommandNode:
		return n.Args
	case *parse.PipeNode:
		for _, c := range n.Cmds {
			out = append(out, c)
		}
		for _, d := range n.Decl {
			out = append(out, d)
		}
	}
	return out
}

// Vars are the names of all fields and variables the template mentions, in small letters.
func (t *Template) Vars() []string {
	var out []string
	var walk func(n parse.Node)
	walk = func(n parse.Node) {
		var names []string
		switch n := n.(type) {
		case *parse.FieldNode:
			names = n.Ident
		case *parse.VariableNode:
			names = n.Ident
		case *parse.ChainNode:
			names = n.Field
		}
		for _, name := range names {
			out = append(out, strings.ToLower(name))
		}
		for _, c := range children(n) {
			walk(c)
		}
	}
	for _, tree := range t.trees {
		walk(tree.Root)
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// Until is the template without the first action that mentions the field, and all that follows it.
func (t *Template) Until(field string) *Template {
	trees := maps.Clone(t.trees)
	root := trees[""].Root.CopyList()
	keepUntil(root, field, new(bool))
	trees[""] = &parse.Tree{Root: root}
	return &Template{trees}
}

// keepUntil drops from n what stands behind the field, and reports whether n itself stays.
func keepUntil(n parse.Node, field string, cut *bool) bool {
	if *cut {
		return false
	}
	list := func(l *parse.ListNode) *parse.ListNode {
		if l == nil || *cut {
			return nil
		}
		l.Nodes = slices.DeleteFunc(l.Nodes, func(c parse.Node) bool { return !keepUntil(c, field, cut) })
		return l
	}
	if b := branch(n); b != nil {
		b.List, b.ElseList = list(b.List), list(b.ElseList)
	}
	switch n := n.(type) {
	case *parse.ListNode:
		list(n)
	case *parse.ActionNode:
		return keepUntil(n.Pipe, field, cut)
	case *parse.PipeNode:
		for i, c := range n.Cmds {
			c.Args = slices.DeleteFunc(c.Args, func(a parse.Node) bool { return !keepUntil(a, field, cut) })
			if len(c.Args) == 0 {
				n.Cmds = n.Cmds[:i]
				return false
			}
		}
	case *parse.FieldNode:
		*cut = slices.Contains(n.Ident, field)
	}
	return true
}

// Render runs the template with data. It fails with the meter's errors, or with one that says what
// the template stumbled over.
func (t *Template) Render(m *origin.Meter, out *origin.Builder, data any) error {
	return origin.Render(m, out, func(o *origin.Run) {
		r := &run{Run: o, t: t, vars: []variable{{"$", data}}}
		r.list(t.trees[""].Root, data)
	})
}
