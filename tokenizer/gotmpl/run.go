package gotmpl

import (
	"cmp"
	"fmt"
	"reflect"
	"slices"
	"text/template/parse"

	"github.com/axle-llm/axle/tokenizer/origin"
)

// run is one rendering. Its values are origin.Text for strings, and else whatever the data hold.
type run struct {
	*origin.Run
	t    *Template
	vars []variable
}

type variable struct {
	name  string
	value any
}

func (r *run) failf(format string, args ...any) {
	r.End(fmt.Errorf("template: "+format, args...))
}

// flow is how a node ends.
type flow uint8

const (
	flowNext flow = iota
	flowBreak
	flowContinue
)

func (r *run) list(l *parse.ListNode, dot any) flow {
	if l == nil {
		return flowNext
	}
	for _, n := range l.Nodes {
		if f := r.node(n, dot); f != flowNext {
			return f
		}
	}
	return flowNext
}

func (r *run) node(n parse.Node, dot any) flow {
	r.Step(1)
	switch n := n.(type) {
	case *parse.TextNode:
		r.Print(origin.Own(string(n.Text)))
	case *parse.ActionNode:
		v := r.pipe(n.Pipe, dot)
		if len(n.Pipe.Decl) == 0 {
			r.Print(r.sprint1(printable(v)))
		}
	case *parse.IfNode:
		return r.branch(&n.BranchNode, dot, false)
	case *parse.WithNode:
		return r.branch(&n.BranchNode, dot, true)
	case *parse.RangeNode:
		return r.loop(n, dot)
	case *parse.TemplateNode:
		r.include(n, dot)
	case *parse.BreakNode:
		return flowBreak
	case *parse.ContinueNode:
		return flowContinue
	default:
		r.failf("%s cannot be run", n)
	}
	return flowNext
}

func (r *run) branch(b *parse.BranchNode, dot any, with bool) flow {
	defer r.pop(len(r.vars))
	v := r.pipe(b.Pipe, dot)
	if !truth(v) {
		return r.list(b.ElseList, dot)
	}
	if with {
		dot = v
	}
	return r.list(b.List, dot)
}

func (r *run) pop(n int) { r.vars = r.vars[:n] }

func (r *run) include(n *parse.TemplateNode, dot any) {
	defer r.Deeper()()
	var data any
	if n.Pipe != nil {
		data = r.pipe(n.Pipe, dot)
	}
	vars := r.vars
	r.vars = []variable{{"$", data}}
	r.list(r.t.trees[n.Name].Root, data)
	r.vars = vars
}

// loop runs a range over a number, a list or a map.
func (r *run) loop(n *parse.RangeNode, dot any) flow {
	mark := len(r.vars)
	defer r.pop(mark)
	over := r.pipe(n.Pipe, dot)
	inner := len(r.vars)
	once := func(k, v any) bool {
		r.Step(1)
		switch len(n.Pipe.Decl) {
		case 1:
			r.set(n.Pipe, 0, v)
		case 2:
			r.set(n.Pipe, 0, k)
			r.set(n.Pipe, 1, v)
		}
		f := r.list(n.List, v)
		r.pop(inner)
		return f != flowBreak
	}
	empty := true
	each := func(n int, at func(i int) (k, v any)) {
		for i := range n {
			empty = false
			if k, v := at(i); !once(k, v) {
				return
			}
		}
	}
	switch x := indirect(reflect.ValueOf(over)); {
	case x.Kind() == reflect.Slice:
		each(x.Len(), func(i int) (any, any) { return i, value(x.Index(i)) })
	case x.Kind() == reflect.Map:
		keys := r.keys(x)
		each(len(keys), func(i int) (any, any) { return value(keys[i]), value(x.MapIndex(keys[i])) })
	case x.CanInt() && len(n.Pipe.Decl) > 1:
		r.failf("can't use %v to iterate over more than one variable", over)
	case x.CanInt():
		each(int(x.Int()), func(i int) (any, any) { return i, i })
	case over == nil:
	default:
		r.failf("range can't iterate over %v", kindOf(over))
	}
	if empty {
		return r.list(n.ElseList, dot)
	}
	return flowNext
}

// keys are a map's, sorted.
func (r *run) keys(m reflect.Value) []reflect.Value {
	r.Step(m.Len())
	r.Grow(48 * m.Len())
	keys := m.MapKeys()
	slices.SortFunc(keys, func(a, b reflect.Value) int {
		if a.Kind() == reflect.String && b.Kind() == reflect.String {
			return cmp.Compare(a.String(), b.String())
		}
		return cmp.Compare(fmt.Sprint(a), fmt.Sprint(b))
	})
	return keys
}

// set gives a variable of a pipeline its value: the ith that it declares, or assigns to.
func (r *run) set(p *parse.PipeNode, i int, v any) {
	name := p.Decl[i].Ident[0]
	if !p.IsAssign {
		r.vars = append(r.vars, variable{name, v})
		return
	}
	for i := len(r.vars) - 1; i >= 0; i-- {
		if r.vars[i].name == name {
			r.vars[i].value = v
			return
		}
	}
	r.failf("undefined variable: %s", name)
}

// pipe evaluates a pipeline, and declares its variables.
func (r *run) pipe(p *parse.PipeNode, dot any) any {
	r.Step(1)
	var v any
	for i, c := range p.Cmds {
		v = r.command(c, dot, v, i > 0)
	}
	for i := range p.Decl {
		r.set(p, i, v)
	}
	return v
}

func (r *run) command(c *parse.CommandNode, dot, last any, piped bool) any {
	r.Step(1)
	first := c.Args[0]
	switch n := first.(type) {
	case *parse.IdentifierNode:
		return r.function(n.Ident, c.Args[1:], dot, last, piped)
	case *parse.NilNode:
		r.failf("nil is not a command")
	}
	if piped || len(c.Args) > 1 {
		r.failf("can't give argument to non-function %s", first)
	}
	return r.operand(first, dot)
}

// operand evaluates a node that is no call with arguments.
func (r *run) operand(n parse.Node, dot any) any {
	r.Step(1)
	switch n := n.(type) {
	case *parse.DotNode:
		return dot
	case *parse.NilNode:
		return nil
	case *parse.BoolNode:
		return n.True
	case *parse.StringNode:
		return origin.Own(n.Text)
	case *parse.NumberNode:
		switch {
		case n.IsInt:
			return int(n.Int64)
		case n.IsUint:
			r.failf("%s overflows int", n.Text)
		}
		return n.Float64
	case *parse.FieldNode:
		return r.fields(dot, n.Ident)
	case *parse.VariableNode:
		for i := len(r.vars) - 1; i >= 0; i-- {
			if r.vars[i].name == n.Ident[0] {
				return r.fields(r.vars[i].value, n.Ident[1:])
			}
		}
		r.failf("undefined variable: %s", n.Ident[0])
	case *parse.ChainNode:
		return r.fields(r.operand(n.Node, dot), n.Field)
	case *parse.PipeNode:
		defer r.pop(len(r.vars))
		return r.pipe(n, dot)
	case *parse.IdentifierNode:
		return r.function(n.Ident, nil, dot, nil, false)
	}
	r.failf("%s cannot be evaluated", n)
	return nil
}

func (r *run) fields(v any, names []string) any {
	for _, name := range names {
		r.Step(1)
		v = r.field(v, name)
	}
	return v
}

func (r *run) field(v any, name string) any {
	x := indirect(reflect.ValueOf(v))
	switch x.Kind() {
	case reflect.Struct:
		if f := x.FieldByName(name); f.IsValid() && f.CanInterface() {
			return value(f)
		}
	case reflect.Map:
		if x.Type().Key().Kind() == reflect.String {
			f := x.MapIndex(reflect.ValueOf(name).Convert(x.Type().Key()))
			if !f.IsValid() {
				f = reflect.Zero(x.Type().Elem())
			}
			return value(f)
		}
	case reflect.Invalid:
		r.failf("nil data; no entry for key %q", name)
	}
	r.failf("can't evaluate field %s in %s", name, kindOf(v))
	return nil
}

// indirect goes through pointers and interfaces; nil ones are invalid.
func indirect(v reflect.Value) reflect.Value {
	for v.Kind() == reflect.Pointer || v.Kind() == reflect.Interface {
		v = v.Elem()
	}
	return v
}

// value is what the data hold, strings as given text.
func value(v reflect.Value) any {
	for v.Kind() == reflect.Interface {
		v = v.Elem()
	}
	if !v.IsValid() {
		return nil
	}
	if v.Kind() == reflect.String && !v.Type().Implements(stringer) {
		return origin.Given(v.String())
	}
	return v.Interface()
}

var stringer = reflect.TypeFor[fmt.Stringer]()

func kindOf(v any) string {
	switch v.(type) {
	case nil:
		return "nil"
	case origin.Text:
		return "string"
	}
	return fmt.Sprintf("%T", v)
}

// truth is text/template's.
func truth(v any) bool {
	if t, ok := v.(origin.Text); ok {
		return t.Len() > 0
	}
	x := reflect.ValueOf(v)
	switch x.Kind() {
	case reflect.Invalid:
		return false
	case reflect.Map, reflect.Slice, reflect.String:
		return x.Len() > 0
	case reflect.Struct:
		return true
	}
	return !x.IsZero()
}
