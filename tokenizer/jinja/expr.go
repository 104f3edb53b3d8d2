package jinja

import (
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/axle-llm/axle/tokenizer/origin"
)

func (x *literal) eval(r *run) Value {
	r.Step(1)
	return x.v
}

func (x *nameExpr) eval(r *run) Value {
	r.Step(1)
	return r.lookup(x.name)
}

func (x *listExpr) eval(r *run) Value {
	out := r.list(len(x.items))
	for _, item := range x.items {
		out = append(out, item.eval(r))
	}
	return &List{out, x.tuple}
}

func (x *dictExpr) eval(r *run) Value {
	r.Grow(2 * itemBytes * len(x.keys))
	d := &Dict{}
	for i, k := range x.keys {
		key := r.hashed(k.eval(r))
		d.set(key, x.values[i].eval(r))
	}
	return d
}

func (x *notExpr) eval(r *run) Value { return !truth(x.x.eval(r)) }

func (x *signExpr) eval(r *run) Value {
	sign := 1
	if x.minus {
		sign = -1
	}
	v := x.x.eval(r)
	out, ok := r.math("*", sign, v)
	if !ok {
		r.failf("a sign before %s", typeName(v))
	}
	return out
}

func (x *logicExpr) eval(r *run) Value {
	v := x.x.eval(r)
	if truth(v) == x.and {
		return x.y.eval(r)
	}
	return v
}

func (x *condExpr) eval(r *run) Value {
	switch {
	case truth(x.test.eval(r)):
		return x.yes.eval(r)
	case x.no == nil:
		return &Undefined{"an inline if without else was false: it"}
	}
	return x.no.eval(r)
}

func (x *concatExpr) eval(r *run) Value {
	texts := make([]origin.Text, len(x.parts))
	n := 0
	for i, p := range x.parts {
		texts[i] = r.str(p.eval(r))
		n += texts[i].Len() + 4*texts[i].Cuts()
	}
	r.Grow(n)
	return origin.Join(texts, origin.Text{})
}

func (x *compareExpr) eval(r *run) Value {
	left := x.x.eval(r)
	for i, op := range x.ops {
		r.line = x.line
		right := x.with[i].eval(r)
		if !r.compare(op, left, right) {
			return false
		}
		left = right
	}
	return true
}

func (r *run) compare(op string, x, y Value) bool {
	switch op {
	case "==":
		return r.equal(x, y)
	case "!=":
		return !r.equal(x, y)
	case "in":
		return r.contains(y, x)
	case "not in":
		return !r.contains(y, x)
	}
	c := r.order(op, x, y)
	switch op {
	case "<":
		return c == -1
	case "<=":
		return c == -1 || c == 0
	case ">":
		return c == 1
	}
	return c == 1 || c == 0
}

func (x *mathExpr) eval(r *run) Value {
	left := x.x.eval(r)
	right := x.y.eval(r)
	r.line = x.line
	r.Step(1)
	return r.binary(x.op, left, right)
}

// binary is what an operator between two values makes.
func (r *run) binary(op string, left, right Value) Value {
	if v, ok := r.math(op, left, right); ok {
		return v
	}
	switch a := left.(type) {
	case origin.Text:
		if b, ok := right.(origin.Text); ok && op == "+" {
			r.Grow(a.Len() + b.Len() + 4*(a.Cuts()+b.Cuts()))
			return origin.Join([]origin.Text{a, b}, origin.Text{})
		}
		if op == "%" {
			r.failf("formatting a string with %% is not supported")
		}
	case *List:
		if b, ok := right.(*List); ok && op == "+" && a.Tuple == b.Tuple {
			return &List{append(append(r.list(len(a.Items)+len(b.Items)), a.Items...), b.Items...), a.Tuple}
		}
	}
	if op == "*" {
		if n, ok := whole(left); ok {
			left, right = right, n
		}
		if n, ok := whole(right); ok {
			if v, ok := r.repeat(left, max(n, 0)); ok {
				return v
			}
		}
	}
	r.failf("%q does not go between %s and %s", op, typeName(left), typeName(right))
	return nil
}

func (r *run) repeat(v Value, n int) (Value, bool) {
	switch v := v.(type) {
	case origin.Text:
		r.growBy(0, n, v.Len()+4*v.Cuts())
		if given, ok := v.Whole(); ok {
			var b origin.Builder
			b.Write(strings.Repeat(v.String(), n), given)
			return b.Text(), true
		}
		return origin.Join(make([]origin.Text, n+1), v), true
	case *List:
		if n > 0 && len(v.Items) > origin.MaxText/n {
			r.Grow(origin.MaxText + 1)
		}
		out := r.list(n * len(v.Items))
		for range n {
			out = append(out, v.Items...)
		}
		return &List{out, v.Tuple}, true
	}
	return nil, false
}

func (x *attrExpr) eval(r *run) Value {
	v := x.x.eval(r)
	r.line = x.line
	r.Step(1)
	return r.attribute(v, x.name)
}

// attribute is v.name: what v has by that name, what the dict v holds under it, or undefined.
func (r *run) attribute(v Value, name string) Value {
	if a, ok := r.attr(v, name); ok {
		return a
	}
	if d, ok := v.(*Dict); ok {
		if a, ok := d.get(origin.Own(name)); ok {
			return a
		}
	}
	return missing(v, name)
}

func missing(v Value, name string) Value {
	switch v.(type) {
	case nil, *Dict, *Namespace:
		return &Undefined{"'" + typeName(v) + " object' has no attribute '" + name + "': it"}
	}
	return &Undefined{"the attribute '" + name + "' of " + typeName(v) + " is not supported: it"}
}

// attr is Python's getattr(v, name) in a sandbox: names with an underscore before them are not
// there.
func (r *run) attr(v Value, name string) (Value, bool) {
	if u, ok := v.(*Undefined); ok {
		r.undefined(u)
	}
	if strings.HasPrefix(name, "_") {
		return nil, false
	}
	switch v := v.(type) {
	case *Namespace:
		return v.attrs.Get(name)
	case *loopState:
		if f := loopAttrs[name]; f != nil {
			return f(v), true
		}
	}
	if m := methodsOf(v)[name]; m != nil {
		return m.of(v, name), true
	}
	return nil, false
}

func (x *itemExpr) eval(r *run) Value {
	v := x.x.eval(r)
	key := x.key.eval(r)
	r.line = x.line
	r.Step(1)
	return r.item(v, key)
}

// item is v[key], or what v has by that name, or undefined.
func (r *run) item(v, key Value) Value {
	i, isInt := whole(key)
	place := func(n int) (int, bool) {
		if i < 0 {
			i += n
		}
		return i, isInt && i >= 0 && i < n
	}
	switch v := v.(type) {
	case *Undefined:
		r.undefined(v)
	case *Dict:
		if hashable(key) {
			if x, ok := v.get(key); ok {
				return x
			}
		}
	case *List:
		if k, ok := place(len(v.Items)); ok {
			return v.Items[k]
		}
	case origin.Text:
		if !isInt {
			break
		}
		if k, ok := place(r.length(v)); ok {
			at := runeAt(v.String(), k)
			_, n := utf8.DecodeRuneInString(v.String()[at:])
			return v.Slice(at, at+n)
		}
	}
	if name, ok := key.(origin.Text); ok {
		if a, ok := r.attr(v, name.String()); ok {
			return a
		}
		return missing(v, name.String())
	}
	return &Undefined{"an item of " + typeName(v)}
}

// runeAt is the byte at which the nth character begins.
func runeAt(s string, n int) int {
	for i := range s {
		if n == 0 {
			return i
		}
		n--
	}
	return len(s)
}

func (x *sliceExpr) eval(r *run) Value {
	v := x.x.eval(r)
	var at [3]*int
	for i, e := range x.at {
		if e == nil {
			continue
		}
		if n := e.eval(r); n != nil {
			k, ok := whole(n)
			if !ok {
				r.failf("slice indices must be integers or None, not %s", typeName(n))
			}
			at[i] = &k
		}
	}
	r.line = x.line
	return r.slice(v, at)
}

func (r *run) slice(v Value, at [3]*int) Value {
	if at[2] != nil && *at[2] == 0 {
		r.failf("slice step cannot be zero")
	}
	switch v := v.(type) {
	case origin.Text:
		from, n, step := indices(at, r.length(v))
		s := v.String()
		if step == 1 {
			start := runeAt(s, from)
			return v.Slice(start, start+runeAt(s[start:], n))
		}
		r.Grow(8*len(s) + n)
		starts := make([]int, 0, len(s)+1)
		for i := range s {
			starts = append(starts, i)
		}
		starts = append(starts, len(s))
		var b origin.Builder
		for i := range n {
			k := from + i*step
			b.Write(s[starts[k]:starts[k+1]], v.GivenAt(starts[k]))
		}
		return b.Text()
	case *List:
		from, n, step := indices(at, len(v.Items))
		if step == 1 {
			return &List{v.Items[from : from+n : from+n], v.Tuple}
		}
		out := r.list(n)
		for i := range n {
			out = append(out, v.Items[from+i*step])
		}
		return &List{out, v.Tuple}
	case *Undefined:
		r.undefined(v)
	}
	r.failf("%s has no slices", typeName(v))
	return nil
}

// indices is Python's slice.indices(n): the first place, how many, and how far apart.
func indices(at [3]*int, n int) (from, count, step int) {
	step = 1
	if at[2] != nil {
		step = max(min(*at[2], n+1), -n-1)
	}
	low, high := 0, n
	if step < 0 {
		low, high = -1, n-1
	}
	place := func(p *int, or int) int {
		if p == nil {
			return or
		}
		k := *p
		if k < 0 {
			k = max(k, -n-1) + n
		}
		return max(low, min(k, high))
	}
	if step < 0 {
		from = place(at[0], high)
		count = (from - place(at[1], low) - step - 1) / -step
	} else {
		from = place(at[0], low)
		count = (place(at[1], high) - from + step - 1) / step
	}
	if count <= 0 {
		return 0, 0, step
	}
	return from, count, step
}

// args are a call's values.
type args struct {
	pos   []Value
	names []string
	named []Value
}

// take removes a named argument.
func (a *args) take(name string) (Value, bool) {
	i := slices.Index(a.names, name)
	if i < 0 {
		return nil, false
	}
	v := a.named[i]
	a.names = append(a.names[:i:i], a.names[i+1:]...)
	a.named = append(a.named[:i:i], a.named[i+1:]...)
	return v, true
}

func (x *arguments) eval(r *run) *args {
	a := &args{}
	for _, e := range x.pos {
		a.pos = append(a.pos, e.eval(r))
	}
	if x.star != nil {
		items := r.items(x.star.eval(r))
		a.pos = append(append(r.list(len(a.pos)+len(items)), a.pos...), items...)
	}
	for i, n := range x.names {
		a.names, a.named = append(a.names, n), append(a.named, x.named[i].eval(r))
	}
	return a
}

func (x *callExpr) eval(r *run) Value {
	fn := x.fn.eval(r)
	a := x.args.eval(r)
	r.line = x.line
	return r.call(fn, a)
}

func (r *run) call(fn Value, a *args) Value {
	r.Step(1)
	switch f := fn.(type) {
	case *function:
		return f.call(r, a)
	case *Undefined:
		r.undefined(f)
	}
	r.failf("%s is not callable", typeName(fn))
	return nil
}

func (x *builtinExpr) eval(r *run) Value { return x.apply(r, x.x.eval(r)) }

func (x *builtinExpr) apply(r *run, v Value) Value {
	r.line = x.line
	if x.f == nil {
		r.failf("the %s %q is not supported", x.what, x.name)
	}
	a := x.args.eval(r)
	r.Step(1)
	return x.f.fn(r, v, x.f.bind(r, x.name, a))
}
