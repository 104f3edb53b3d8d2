package jinja

import (
	"slices"
	"strconv"
	"strings"

	"github.com/axle-llm/axle/tokenizer/origin"
)

// getter returns what finds an attribute of an item: "a.b", a number, or the item itself where it
// is nil. or stands in for what is not there, unless it is nil.
func (r *run) getter(attribute, or Value, fold bool) func(Value) Value {
	var path []Value
	switch a := attribute.(type) {
	case nil:
	case origin.Text:
		if strings.Contains(a.String(), ",") {
			r.failf("several attributes at once are not supported")
		}
		for _, p := range strings.Split(a.String(), ".") {
			if n, err := strconv.Atoi(p); err == nil && strings.Trim(p, "0123456789") == "" {
				path = append(path, n)
			} else {
				path = append(path, own(p))
			}
		}
	default:
		path = []Value{r.whole(a, "an attribute")}
	}
	return func(v Value) Value {
		r.Step(1)
		for _, p := range path {
			v = r.item(v, p)
			if _, u := v.(*Undefined); u && or != nil {
				v = or
			}
		}
		if t, ok := v.(origin.Text); ok && fold {
			return r.lower(t)
		}
		return v
	}
}

func (r *run) sorted(items []Value, key func(Value) Value, reverse bool) []Value {
	type keyed struct{ k, v Value }
	r.list(len(items))
	list := make([]keyed, len(items))
	for i, v := range items {
		list[i] = keyed{key(v), v}
	}
	slices.SortStableFunc(list, func(a, b keyed) int {
		if reverse {
			a, b = b, a
		}
		return r.order("<", a.k, b.k)
	})
	out := r.list(len(list))
	for _, x := range list {
		out = append(out, x.v)
	}
	return out
}

func unique(r *run, v Value, o opts) []Value {
	seen, get := &Dict{}, r.getter(o.or(1, nil), nil, !o.flag(0))
	var out []Value
	for _, x := range r.items(v) {
		k := r.hashed(get(x))
		if _, ok := seen.get(k); !ok {
			r.Grow(3 * itemBytes)
			seen.set(k, true)
			out = append(out, x)
		}
	}
	return out
}

// called is the filter or the test that a names first, with the rest of a as its arguments.
func (r *run) called(what string, known map[string]*builtin, a args) func(Value) Value {
	name := r.str(a.pos[0]).String()
	b := known[name]
	if b == nil {
		r.failf("the %s %q is not supported", what, name)
	}
	return func(x Value) Value {
		r.Step(1)
		return b.fn(r, x, b.bind(r, name, &args{a.pos[1:], a.names, a.named}))
	}
}

func mapItems(r *run, v Value, o opts) []Value {
	if !truth(v) {
		return nil
	}
	a := o.args()
	var f func(Value) Value
	if len(a.pos) > 0 {
		f = r.called("filter", filters, *a)
	} else {
		attribute, ok := a.take("attribute")
		or, _ := a.take("default")
		if !ok || len(a.names) > 0 {
			r.failf("map needs a filter, or an attribute and perhaps a default")
		}
		f = r.getter(attribute, or, false)
	}
	var out []Value
	for _, x := range r.items(v) {
		r.Grow(itemBytes)
		out = append(out, f(x))
	}
	return out
}

// picker makes select and its kin: with an attribute's name first, or without; keeping what passes
// the test, or the rest.
func picker(attr, want bool) func(r *run, v Value, o opts) []Value {
	return func(r *run, v Value, o opts) []Value {
		if !truth(v) {
			return nil
		}
		a := *o.args()
		get, pass := func(x Value) Value { return x }, func(x Value) Value { return x }
		if attr {
			if len(a.pos) == 0 {
				r.failf("an attribute is missing")
			}
			get, a.pos = r.getter(a.pos[0], nil, false), a.pos[1:]
		}
		if len(a.pos) > 0 {
			pass = r.called("test", tests, a)
		}
		var out []Value
		for _, x := range r.items(v) {
			r.Step(1)
			if truth(pass(get(x))) == want {
				r.Grow(itemBytes)
				out = append(out, x)
			}
		}
		return out
	}
}
