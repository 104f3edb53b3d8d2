package chat

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"unicode/utf8"

	"github.com/ardanlabs/jinja"
)

// tmplGrow defines what stands in for the engine's operators, and for its filters and methods that make more of less.
func tmplGrow(b *tmplBudget, def func(string, tmplFunc)) {
	two := func(name string, f func(x, y jinja.Value) (jinja.Value, error)) {
		def("axle_"+name, func(args []jinja.Value, _ map[string]jinja.Value) (jinja.Value, error) {
			if len(args) != 2 {
				return jinja.Undefined(), fmt.Errorf("%s needs two operands", name)
			}
			return f(args[0], args[1])
		})
	}
	text := func(v jinja.Value) string { // what + makes of a value beside a string: the engine is milder than Python
		if v.IsNone() {
			return ""
		}
		return tmplString(v)
	}
	join := func(x, y string) (jinja.Value, error) {
		if err := b.fits(len(x) + len(y)); err != nil {
			return jinja.Undefined(), err
		}
		v := jinja.NewString(x + y)
		return v, b.made(v)
	}
	number := func(op string, x, y jinja.Value, i func(x, y int64) int64, f func(x, y float64) float64) (jinja.Value, error) {
		if !x.IsFloat() && !y.IsFloat() {
			p, err := tmplNumber(op, x)
			q, err2 := tmplNumber(op, y)
			return jinja.NewInt(i(int64(p), int64(q))), errors.Join(err, err2)
		}
		p, err := tmplNumber(op, x)
		q, err2 := tmplNumber(op, y)
		return jinja.NewFloat(f(p, q)), errors.Join(err, err2)
	}
	two("add", func(x, y jinja.Value) (jinja.Value, error) {
		switch {
		case x.IsString() || y.IsString():
			return join(text(x), text(y))
		case x.IsList() && y.IsList():
			p, q := x.AsList().Items, y.AsList().Items
			if err := b.grow(8 * (len(p) + len(q))); err != nil {
				return x, err
			}
			v := jinja.NewList(append(append(make([]jinja.Value, 0, len(p)+len(q)), p...), q...))
			return v, b.made(v)
		case x.IsInt() && y.IsInt():
			return jinja.NewInt(x.AsInt() + y.AsInt()), nil
		}
		return number("+", x, y, func(x, y int64) int64 { return x + y }, func(x, y float64) float64 { return x + y })
	})
	two("cat", func(x, y jinja.Value) (jinja.Value, error) { return join(tmplString(x), tmplString(y)) })
	two("mul", func(x, y jinja.Value) (jinja.Value, error) {
		if x.IsInt() && (y.IsString() || y.IsList()) {
			x, y = y, x
		}
		n := 0
		if y.IsInt() {
			n = int(max(0, min(y.AsInt(), math.MaxInt32)))
		}
		switch {
		case x.IsString() && y.IsInt():
			if err := b.fits(len(x.AsString()) * n); err != nil {
				return x, err
			}
			v := jinja.NewString(strings.Repeat(x.AsString(), n))
			return v, b.made(v)
		case x.IsList() && y.IsInt():
			if err := b.step(x.AsList().Len() * n); err != nil {
				return x, err
			}
			var items []jinja.Value
			for range n {
				items = append(items, x.AsList().Items...)
			}
			return jinja.NewList(items), nil
		case x.IsInt() && y.IsInt():
			return jinja.NewInt(x.AsInt() * y.AsInt()), nil
		}
		return number("*", x, y, func(x, y int64) int64 { return x * y }, func(x, y float64) float64 { return x * y })
	})
	def("axle_slice", func(args []jinja.Value, _ map[string]jinja.Value) (jinja.Value, error) {
		var at [3]*int64
		for i, a := range args[1:] {
			if a.IsInt() && i < 3 {
				n := max(-math.MaxInt32, min(a.AsInt(), math.MaxInt32))
				at[i] = &n
			}
		}
		switch v := args[0]; {
		case v.IsString():
			s := v.AsString()
			if at[2] == nil || *at[2] == 1 { // nearly all of them, and no copy
				n := int64(utf8.RuneCountInString(s))
				from, to, _ := tmplRange(at, n)
				if from >= to {
					return jinja.NewString(""), nil
				}
				start := tmplRuneAt(s, from)
				return jinja.NewString(s[start : start+tmplRuneAt(s[start:], to-from)]), b.late()
			}
			if err := b.grow(4 * len(s)); err != nil {
				return v, err
			}
			runes := []rune(s)
			var out []rune
			from, to, step := tmplRange(at, int64(len(runes)))
			for i := from; step > 0 && i < to || step < 0 && i > to; i += step {
				out = append(out, runes[i])
			}
			return jinja.NewString(string(out)), nil
		case v.IsList():
			items := v.AsList().Items
			if err := b.grow(len(items)); err != nil {
				return v, err
			}
			var out []jinja.Value
			from, to, step := tmplRange(at, int64(len(items)))
			for i := from; step > 0 && i < to || step < 0 && i > to; i += step {
				out = append(out, items[i])
			}
			return jinja.NewList(out), nil
		}
		return jinja.Undefined(), nil
	})
	def("axle_flat", func(args []jinja.Value, _ map[string]jinja.Value) (jinja.Value, error) {
		switch v := args[0]; {
		case v.IsString():
			if err := b.fits(len(v.AsString())); err != nil {
				return v, err
			}
		case v.IsList(), v.IsDict():
			return v, b.flat(v)
		}
		return args[0], b.late()
	})
	def("axle_fn", func(args []jinja.Value, _ map[string]jinja.Value) (jinja.Value, error) {
		if !args[0].IsCallable() {
			return args[0], fmt.Errorf("%s is called, which is no function", tmplKind(args[0]))
		}
		return args[0], nil
	})
	def("axle_text", func(args []jinja.Value, _ map[string]jinja.Value) (jinja.Value, error) {
		if !args[0].IsCallable() {
			return args[0], fmt.Errorf("%s is called, which is no macro", tmplKind(args[0]))
		}
		f := args[0].AsCallable().Fn
		return jinja.NewCallable("call", func(args []jinja.Value, kw map[string]jinja.Value) (jinja.Value, error) {
			v, err := f(args, kw)
			if err != nil {
				return v, err
			}
			return jinja.NewString(tmplString(v)), nil
		}), nil
	})
	def("raise_exception", func(args []jinja.Value, _ map[string]jinja.Value) (jinja.Value, error) {
		return jinja.Undefined(), errors.New(tmplString(args[0]))
	})

	// Methods of lists and mappings that put a value into another.
	put := func(name string, n int, f func(l *jinja.List, args []jinja.Value)) {
		def("axle_"+name, func(args []jinja.Value, _ map[string]jinja.Value) (jinja.Value, error) {
			if !args[0].IsList() || len(args) != n+1 {
				return jinja.Undefined(), fmt.Errorf("%s is called on %s, with %d arguments", name, tmplKind(args[0]), len(args)-1)
			}
			if err := b.step(1); err != nil {
				return jinja.Undefined(), err
			}
			if err := b.holds(args[0], args[n]); err != nil {
				return jinja.Undefined(), err
			}
			f(args[0].AsList(), args[1:])
			return jinja.None(), nil
		})
	}
	put("append", 1, func(l *jinja.List, args []jinja.Value) { l.Append(args[0]) })
	put("insert", 2, func(l *jinja.List, args []jinja.Value) {
		at := int64(0)
		if args[0].IsInt() {
			at = args[0].AsInt()
		}
		if at < 0 {
			at += int64(l.Len())
		}
		at = max(0, min(at, int64(l.Len())))
		l.Append(jinja.None())
		copy(l.Items[at+1:], l.Items[at:])
		l.Items[at] = args[1]
	})
	def("axle_update", func(args []jinja.Value, kw map[string]jinja.Value) (jinja.Value, error) {
		if !args[0].IsDict() {
			return jinja.Undefined(), fmt.Errorf("update is called on %s", tmplKind(args[0]))
		}
		d := args[0].AsDict()
		set := func(k string, v jinja.Value) error {
			if err := b.step(1); err != nil {
				return err
			}
			if err := b.holds(args[0], v); err != nil {
				return err
			}
			d.Set(k, v)
			return nil
		}
		if len(args) > 1 && args[1].IsDict() {
			other := args[1].AsDict()
			for _, k := range other.OrderedKeys() {
				if err := set(k, other.Data[k]); err != nil {
					return jinja.Undefined(), err
				}
			}
		}
		for k, v := range kw {
			if err := set(k, v); err != nil {
				return jinja.Undefined(), err
			}
		}
		return jinja.None(), nil
	})

	// Filters.
	arg := func(args []jinja.Value, i int, kw map[string]jinja.Value, name string, or jinja.Value) jinja.Value {
		if v, ok := kw[name]; ok {
			return v
		}
		if i < len(args) {
			return args[i]
		}
		return or
	}
	def("axle_replace", func(args []jinja.Value, kw map[string]jinja.Value) (jinja.Value, error) {
		s, old, with := tmplString(args[0]), arg(args, 1, kw, "old", jinja.None()), arg(args, 2, kw, "new", jinja.None())
		if !old.IsString() || !with.IsString() {
			return jinja.Undefined(), errors.New("replace needs two strings")
		}
		n := strings.Count(s, old.AsString())
		if c := arg(args, 3, kw, "count", jinja.None()); c.IsInt() && c.AsInt() >= 0 {
			n = int(min(int64(n), c.AsInt()))
		}
		if err := b.fits(len(s) + n*(len(with.AsString())-len(old.AsString()))); err != nil {
			return jinja.Undefined(), err
		}
		v := jinja.NewString(strings.Replace(s, old.AsString(), with.AsString(), n))
		return v, b.made(v)
	})
	def("axle_indent", func(args []jinja.Value, kw map[string]jinja.Value) (jinja.Value, error) {
		s, pad := tmplString(args[0]), "    "
		switch w := arg(args, 1, kw, "width", jinja.NewInt(4)); {
		case w.IsString():
			pad = w.AsString()
		case w.IsInt() && w.AsInt() <= 1024:
			pad = strings.Repeat(" ", int(max(w.AsInt(), 0)))
		default:
			return jinja.Undefined(), fmt.Errorf("%w: an indent of %s", ErrBudget, tmplString(w))
		}
		if err := b.fits(len(s) + len(pad)*(strings.Count(s, "\n")+1)); err != nil {
			return jinja.Undefined(), err
		}
		blank := arg(args, 3, kw, "blank", jinja.None()).IsTruthy()
		lines := strings.Split(s, "\n")
		for i, line := range lines {
			if (i > 0 || arg(args, 2, kw, "first", jinja.None()).IsTruthy()) && (line != "" || blank || i == 0) {
				lines[i] = pad + line
			}
		}
		v := jinja.NewString(strings.Join(lines, "\n"))
		return v, b.made(v)
	})
	def("axle_center", func(args []jinja.Value, kw map[string]jinja.Value) (jinja.Value, error) {
		s, w := tmplString(args[0]), arg(args, 1, kw, "width", jinja.NewInt(80))
		if !w.IsInt() || w.AsInt() > 1024 {
			return jinja.Undefined(), fmt.Errorf("%w: a width of %s", ErrBudget, tmplString(w))
		}
		n := max(0, int(w.AsInt())-utf8.RuneCountInString(s))
		left := n/2 + n&int(w.AsInt())&1 // as Python rounds
		v := jinja.NewString(strings.Repeat(" ", left) + s + strings.Repeat(" ", n-left))
		return v, b.made(v)
	})
	def("axle_fromjson", func(args []jinja.Value, _ map[string]jinja.Value) (jinja.Value, error) {
		if !args[0].IsString() {
			return jinja.Undefined(), nil
		}
		if err := b.grow(16 * len(args[0].AsString())); err != nil {
			return jinja.Undefined(), err
		}
		return tmplJSON([]byte(args[0].AsString()))
	})
}

// tmplNumber reads an operand of arithmetic. What is not there counts as nothing, which the engine has always done.
func tmplNumber(op string, v jinja.Value) (float64, error) {
	switch {
	case v.IsInt():
		return float64(v.AsInt()), nil
	case v.IsFloat():
		return v.AsFloat(), nil
	case v.IsBool():
		if v.AsBool() {
			return 1, nil
		}
		return 0, nil
	case v.IsUndefined(), v.IsNone():
		return 0, nil
	}
	return 0, fmt.Errorf("%s does not go with %s", op, tmplKind(v))
}

// tmplRange is Python's slice.indices: what lies in between is within n.
func tmplRange(at [3]*int64, n int64) (from, to, step int64) {
	step = 1
	if at[2] != nil && *at[2] != 0 {
		step = *at[2]
	}
	low, high := int64(0), n
	if step < 0 {
		low, high = -1, n-1
	}
	place := func(p *int64, or int64) int64 {
		if p == nil {
			return or
		}
		x := *p
		if x < 0 {
			x += n
		}
		return max(low, min(x, high))
	}
	if step < 0 {
		return place(at[0], high), place(at[1], low), step
	}
	return place(at[0], low), place(at[1], high), step
}

// tmplRuneAt is the byte at which the nth character begins.
func tmplRuneAt(s string, n int64) int {
	for i := range s {
		if n == 0 {
			return i
		}
		n--
	}
	return len(s)
}
