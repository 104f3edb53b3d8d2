package jinja

import (
	"cmp"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/axle-llm/axle/tokenizer/origin"
)

// Value is one of
//
//	nil            None
//	bool, int, float64
//	origin.Text    str
//	*List          list and tuple
//	*Dict          dict, with its order
//	*Undefined     what is not there
//	*Namespace     what namespace() returns
//	*iter          a generator: what map, select and the like return
//	*function      a macro, a method, a function
//	*loopState     the variable loop
//
// Lists and dicts never change once they are made: templates run in jinja2's immutable sandbox. So
// no value can hold itself, but for a namespace.
type Value any

// List is a list, or a tuple.
type List struct {
	Items []Value
	Tuple bool
}

// Undefined is what is not there: it prints as nothing, is false and empty, and anything else done
// with it fails.
type Undefined struct{ what string }

// Namespace holds what outlives a loop's round.
type Namespace struct{ attrs *Dict }

// iter gives each of its items once. They are made when the first is asked for.
type iter struct {
	make  func() []Value
	items []Value
}

func (it *iter) rest() []Value {
	if it.make != nil {
		it.items, it.make = it.make(), nil
	}
	return it.items
}

func (it *iter) drain() []Value {
	items := it.rest()
	it.items = nil
	return items
}

// function is what can be called: a macro, a method, a function.
type function struct {
	call func(r *run, a *args) Value
}

func newList(items []Value) *List { return &List{Items: items} }

// own is a string of the interpreter's that no given text went into.
func own(s string) Value { return origin.Own(s) }

// sized is a value with a length other than a string, whose length is in characters.
type sized interface{ Len() int }

// Len is the number of items.
func (l *List) Len() int { return len(l.Items) }

func (u *Undefined) Len() int { return 0 }

// truth is Python's bool(v).
func truth(v Value) bool {
	switch v := v.(type) {
	case nil:
		return false
	case bool:
		return v
	case int:
		return v != 0
	case float64:
		return v != 0
	case origin.Text:
		return v.Len() > 0
	case sized:
		return v.Len() > 0
	}
	return true
}

// typeName is Python's name of v's type.
func typeName(v Value) string {
	switch v := v.(type) {
	case nil:
		return "NoneType"
	case *Undefined:
		return "Undefined"
	case bool:
		return "bool"
	case int:
		return "int"
	case float64:
		return "float"
	case origin.Text:
		return "str"
	case *List:
		if v.Tuple {
			return "tuple"
		}
		return "list"
	case *Dict:
		return "dict"
	case *Namespace:
		return "Namespace"
	case *loopState:
		return "LoopContext"
	case *iter:
		return "generator"
	}
	return "function"
}

// equal is Python's ==.
func (r *run) equal(x, y Value) bool {
	r.Step(1)
	if xi, xf, xFloat, ok := number(x); ok {
		yi, yf, yFloat, ok := number(y)
		switch {
		case !ok:
			return false
		case !xFloat && !yFloat:
			return xi == yi
		}
		return xf == yf
	}
	switch x := x.(type) {
	case nil:
		return y == nil
	case *Undefined:
		_, ok := y.(*Undefined)
		return ok
	case origin.Text:
		t, ok := y.(origin.Text)
		if ok && x.Len() == t.Len() {
			r.Step(x.Len() / 64)
		}
		return ok && x.String() == t.String()
	case *List:
		l, ok := y.(*List)
		if !ok || x.Tuple != l.Tuple || len(x.Items) != len(l.Items) {
			return false
		}
		defer r.Deeper()()
		for i := range x.Items {
			if !r.equal(x.Items[i], l.Items[i]) {
				return false
			}
		}
		return true
	case *Dict:
		d, ok := y.(*Dict)
		if !ok || x.Len() != d.Len() {
			return false
		}
		defer r.Deeper()()
		for i, k := range x.keys {
			v, ok := d.get(k)
			if !ok || !r.equal(x.values[i], v) {
				return false
			}
		}
		return true
	}
	return x == y
}

// order compares as Python's < and > do; it fails where they would.
func (r *run) order(op string, x, y Value) int {
	r.Step(1)
	if xi, xf, xFloat, ok := number(x); ok {
		if yi, yf, yFloat, ok := number(y); ok {
			if !xFloat && !yFloat {
				return cmp.Compare(xi, yi)
			}
			return cmp.Compare(xf, yf)
		}
	}
	switch x := x.(type) {
	case origin.Text:
		if t, ok := y.(origin.Text); ok {
			r.Step(min(x.Len(), t.Len()) / 64)
			return strings.Compare(x.String(), t.String())
		}
	case *List:
		if l, ok := y.(*List); ok && x.Tuple == l.Tuple {
			defer r.Deeper()()
			for i := range min(len(x.Items), len(l.Items)) {
				if !r.equal(x.Items[i], l.Items[i]) {
					return r.order(op, x.Items[i], l.Items[i])
				}
			}
			return cmp.Compare(len(x.Items), len(l.Items))
		}
	}
	r.failf("%q does not go between %s and %s", op, typeName(x), typeName(y))
	return 0
}

// contains is Python's x in in.
func (r *run) contains(in, x Value) bool {
	switch in := in.(type) {
	case origin.Text:
		t, ok := x.(origin.Text)
		if !ok {
			r.failf("'in <string>' needs a string on its left, not %s", typeName(x))
		}
		r.Step(in.Len() / 64)
		return strings.Contains(in.String(), t.String())
	case *Dict:
		_, ok := in.get(r.hashed(x))
		return ok
	}
	return slices.ContainsFunc(r.items(in), func(v Value) bool { return r.equal(v, x) })
}

// items lists what a loop over v goes through.
func (r *run) items(v Value) []Value {
	switch v := v.(type) {
	case *List:
		return v.Items
	case *Dict:
		return v.keys
	case *Undefined:
		return nil
	case *iter:
		return v.drain()
	case origin.Text:
		n := utf8.RuneCountInString(v.String())
		out := r.list(n)
		for i := 0; i < v.Len(); {
			_, size := utf8.DecodeRuneInString(v.String()[i:])
			out = append(out, v.Slice(i, i+size))
			i += size
		}
		return out
	}
	r.failf("%s is not iterable", typeName(v))
	return nil
}

// itemBytes is what an item of a list takes, the string in it included.
const itemBytes = 48

// list makes room for n items.
func (r *run) list(n int) []Value {
	r.Step(n)
	r.Grow(n * itemBytes)
	return make([]Value, 0, n)
}

// length is Python's len(v).
func (r *run) length(v Value) int {
	switch v := v.(type) {
	case origin.Text:
		r.Step(v.Len() / 64)
		return utf8.RuneCountInString(v.String())
	case sized:
		return v.Len()
	}
	r.failf("%s has no length", typeName(v))
	return 0
}
