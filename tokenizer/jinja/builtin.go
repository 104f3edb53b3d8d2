package jinja

import (
	"slices"

	"github.com/axle-llm/axle/tokenizer/origin"
)

// builtin is a filter, a test or a method. Its parameters are named as Python names them; those after need may be left out.
type builtin struct {
	params   []string
	need     int
	variadic bool // any arguments: fn gets them in a *args, alone
	fn       func(r *run, v Value, o opts) Value
}

// opts are a call's arguments in the order of the parameters; absent where one was left out.
type opts []Value

type absent struct{}

func (o opts) has(i int) bool {
	_, no := o[i].(absent)
	return !no
}

// or is argument i, or v.
func (o opts) or(i int, v Value) Value {
	if o.has(i) {
		return o[i]
	}
	return v
}

func (f *builtin) bind(r *run, name string, a *args) opts {
	if f.variadic {
		return opts{a}
	}
	if len(a.pos) > len(f.params) {
		r.failf("%s takes not more than %d arguments", name, len(f.params))
	}
	if len(f.params) == 0 && len(a.names) == 0 {
		return nil
	}
	o := make(opts, len(f.params))
	for i := range o {
		o[i] = absent{}
	}
	copy(o, a.pos)
	for i, n := range a.names {
		k := slices.Index(f.params, n)
		if k < 0 || o.has(k) {
			r.failf("%s takes no argument %q, or has it already", name, n)
		}
		o[k] = a.named[i]
	}
	for i := range f.need {
		if !o.has(i) {
			r.failf("%s needs the argument %q", name, f.params[i])
		}
	}
	return o
}

// text, whole and the like read an argument of one type.
func (r *run) text(v Value, who string) origin.Text {
	t, ok := v.(origin.Text)
	if !ok {
		r.failf("%s needs a string, not %s", who, typeName(v))
	}
	return t
}

func (r *run) whole(v Value, who string) int {
	n, ok := whole(v)
	if !ok {
		r.failf("%s needs a whole number, not %s", who, typeName(v))
	}
	return n
}

// globals are the functions every template sees. A variable of the same name hides one.
var globals map[string]*function

func init() {
	globals = map[string]*function{
		"namespace": {name: "namespace", call: func(r *run, a *args) Value { return &Namespace{newDict(r, a)} }},
		"dict":      {name: "dict", call: func(r *run, a *args) Value { return newDict(r, a) }},
		"range":     {name: "range", call: newRange},
		"cycler": {name: "cycler", call: func(r *run, a *args) Value {
			if len(a.pos) == 0 {
				r.failf("cycler needs at least one item")
			}
			return &cycler{items: a.pos}
		}},
		"joiner": {name: "joiner", call: func(r *run, a *args) Value {
			f := builtin{params: []string{"sep"}}
			sep, used := f.bind(r, "joiner", a).or(0, own(", ")), false
			return &function{name: "joiner", call: func(r *run, a *args) Value {
				new(builtin).bind(r, "joiner", a)
				if used {
					return sep
				}
				used = true
				return own("")
			}}
		}},
		"raise_exception": {name: "raise_exception", call: func(r *run, a *args) Value {
			f := builtin{params: []string{"message"}, need: 1}
			r.End(&Raised{r.str(f.bind(r, "raise_exception", a)[0]).String()})
			return nil
		}},
		"strftime_now": {name: "strftime_now", call: func(r *run, a *args) Value {
			f := builtin{params: []string{"format"}, need: 1}
			format := r.text(f.bind(r, "strftime_now", a)[0], "strftime_now")
			r.Grow(16 * format.Len())
			return format.Map(func(s string) string { return strftime(r.now, s) })
		}},
	}
}

func newDict(r *run, a *args) *Dict {
	d := &Dict{}
	if len(a.pos) > 1 {
		r.failf("dict takes one argument")
	}
	for _, v := range a.pos {
		if from, ok := v.(*Dict); ok {
			r.Grow(2 * itemBytes * from.Len())
			for i, k := range from.keys {
				d.set(k, from.values[i])
			}
			continue
		}
		for _, pair := range r.items(v) {
			kv := r.items(pair)
			if len(kv) != 2 {
				r.failf("a dict is made of pairs")
			}
			r.Grow(2 * itemBytes)
			d.set(r.hashed(kv[0]), kv[1])
		}
	}
	for i, n := range a.names {
		r.Grow(2 * itemBytes)
		d.Set(n, a.named[i])
	}
	return d
}

// maxRange is jinja2's own limit in a sandbox.
const maxRange = 100_000

func newRange(r *run, a *args) Value {
	if len(a.pos) < 1 || len(a.pos) > 3 || len(a.names) > 0 {
		r.failf("range needs one to three whole numbers")
	}
	n := make([]int, len(a.pos))
	for i, v := range a.pos {
		n[i] = r.whole(v, "range")
		if n[i] > 1<<40 || n[i] < -1<<40 {
			r.End(errRange)
		}
	}
	out := &Range{stop: n[0], step: 1}
	if len(n) > 1 {
		out.start, out.stop = n[0], n[1]
	}
	if len(n) > 2 {
		out.step = n[2]
	}
	switch {
	case out.step == 0:
		r.failf("range with step 0")
	case out.step > 0:
		out.n = max(0, (out.stop-out.start+out.step-1)/out.step)
	default:
		out.n = max(0, (out.start-out.stop-out.step-1)/-out.step)
	}
	if out.n > maxRange {
		r.End(errRange)
	}
	return out
}

// cycler is what cycler() returns.
type cycler struct {
	items []Value
	at    int
}

func (h *cycler) attr(name string) (Value, bool) {
	move := func(f func() Value) (Value, bool) {
		return &function{name: name, call: func(*run, *args) Value { return f() }}, true
	}
	switch name {
	case "current":
		return h.items[h.at], true
	case "next":
		return move(func() Value {
			v := h.items[h.at]
			h.at = (h.at + 1) % len(h.items)
			return v
		})
	case "reset":
		return move(func() Value {
			h.at = 0
			return nil
		})
	}
	return nil, false
}
