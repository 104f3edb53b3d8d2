package jinja

import (
	"math"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/axle-llm/axle/tokenizer/origin"
)

// filters are what may stand behind a bar.
var filters map[string]*builtin

func init() {
	none := func(fn func(r *run, v Value) Value) *builtin {
		return &builtin{fn: func(r *run, v Value, _ opts) Value { return fn(r, v) }}
	}
	// lazy makes the items of what it returns when the first of them is asked for.
	lazy := func(fn func(r *run, v Value, o opts) []Value) func(r *run, v Value, o opts) Value {
		return func(r *run, v Value, o opts) Value { return &iter{make: func() []Value { return fn(r, v, o) }} }
	}
	length := none(func(r *run, v Value) Value { return r.length(v) })
	orElse := &builtin{params: []string{"default_value", "boolean"}, fn: func(_ *run, v Value, o opts) Value {
		if _, u := v.(*Undefined); u || o.flag(1) && !truth(v) {
			return o.or(0, own(""))
		}
		return v
	}}
	filters = map[string]*builtin{
		"length": length, "count": length,
		"default": orElse, "d": orElse,
		"safe":   none(func(r *run, v Value) Value { return r.str(v) }),
		"string": none(func(r *run, v Value) Value { return r.str(v) }),
		"list":   none(func(r *run, v Value) Value { items := r.items(v); return newList(append(r.list(len(items)), items...)) }),
		"items": none(func(r *run, v Value) Value {
			if _, u := v.(*Undefined); u {
				return &iter{}
			}
			return &iter{items: r.dict(v, "items").pairs(r)}
		}),
		"upper":      none(func(r *run, v Value) Value { return r.upper(r.str(v)) }),
		"lower":      none(func(r *run, v Value) Value { return r.lower(r.str(v)) }),
		"capitalize": none(func(r *run, v Value) Value { return r.capitalize(r.str(v)) }),
		"title": none(func(r *run, v Value) Value {
			return r.words(r.str(v), func(c rune) bool { return isSpace(c) || strings.ContainsRune("-({[<", c) })
		}),
		"trim": {params: []string{"chars"}, fn: func(r *run, v Value, o opts) Value {
			return r.strip(r.str(v), o.or(0, nil), true, true)
		}},
		"first": none(firstOf),
		"last":  none(lastOf),
		"join": {params: []string{"d", "attribute"}, fn: func(r *run, v Value, o opts) Value {
			sep, get := r.str(o.or(0, own(""))), r.getter(o.or(1, nil), nil, false)
			var texts []Value
			for _, x := range r.items(v) {
				texts = append(texts, r.str(get(x)))
				r.Grow(itemBytes)
			}
			return r.join(texts, sep)
		}},
		"replace": {params: []string{"old", "new", "count"}, need: 2, fn: func(r *run, v Value, o opts) Value {
			n := -1
			if c := o.or(2, nil); c != nil {
				n = r.whole(c, "replace")
			}
			return r.replace(r.str(v), r.str(o[0]), r.str(o[1]), n)
		}},
		"reverse":    none(reversed),
		"indent":     {params: []string{"width", "first", "blank"}, fn: indent},
		"int":        {params: []string{"default"}, fn: toInt},
		"float":      {params: []string{"default"}, fn: toFloat},
		"abs":        none(absolute),
		"map":        {variadic: true, fn: lazy(mapItems)},
		"select":     {variadic: true, fn: lazy(picker(false, true))},
		"reject":     {variadic: true, fn: lazy(picker(false, false))},
		"selectattr": {variadic: true, fn: lazy(picker(true, true))},
		"rejectattr": {variadic: true, fn: lazy(picker(true, false))},
		"sort": {params: []string{"reverse", "case_sensitive", "attribute"}, fn: func(r *run, v Value, o opts) Value {
			return newList(r.sorted(r.items(v), r.getter(o.or(2, nil), nil, !o.flag(1)), o.flag(0)))
		}},
		"dictsort": {params: []string{"case_sensitive", "by", "reverse"}, fn: func(r *run, v Value, o opts) Value {
			by := slices.Index([]string{"key", "value"}, r.text(o.or(1, own("key")), "dictsort").String())
			if by < 0 {
				r.failf("dictsort goes by key or by value")
			}
			return newList(r.sorted(r.dict(v, "dictsort").pairs(r), r.getter(by, nil, !o.flag(0)), o.flag(2)))
		}},
		"unique": {params: []string{"case_sensitive", "attribute"}, fn: lazy(unique)},
		"sum": {params: []string{"attribute", "start"}, fn: func(r *run, v Value, o opts) Value {
			total, get := o.or(1, 0), r.getter(o.or(0, nil), nil, false)
			if _, ok := total.(origin.Text); ok {
				r.failf("sum of strings")
			}
			for _, x := range r.items(v) {
				r.Step(1)
				total = r.binary("+", total, get(x))
			}
			return total
		}},
		"tojson": {params: []string{"ensure_ascii", "indent", "separators", "sort_keys"}, fn: toJSON},
	}
}

func firstOf(r *run, v Value) Value {
	if it, ok := v.(*iter); ok {
		if items := it.rest(); len(items) > 0 {
			it.items = items[1:]
			return items[0]
		}
	} else if t, ok := v.(origin.Text); ok && t.Len() > 0 {
		_, n := utf8.DecodeRuneInString(t.String())
		return t.Slice(0, n)
	} else if items := r.items(v); len(items) > 0 {
		return items[0]
	}
	return &Undefined{"the first of nothing"}
}

func lastOf(r *run, v Value) Value {
	switch t := v.(type) {
	case *iter:
		r.failf("%s has no last item", typeName(v))
	case origin.Text:
		if t.Len() > 0 {
			_, n := utf8.DecodeLastRuneInString(t.String())
			return t.Slice(t.Len()-n, t.Len())
		}
	}
	if items := r.items(v); len(items) > 0 {
		return items[len(items)-1]
	}
	return &Undefined{"the last of nothing"}
}

func absolute(r *run, v Value) Value {
	i, f, isFloat, ok := number(v)
	switch {
	case !ok:
		r.failf("abs of %s", typeName(v))
	case isFloat:
		return math.Abs(f)
	case i < 0:
		neg, _ := r.math("-", 0, i)
		return neg
	}
	return i
}

func reversed(r *run, v Value) Value {
	if t, ok := v.(origin.Text); ok {
		return r.slice(t, [3]*int{2: new(-1)})
	}
	items := r.items(v)
	out := append(r.list(len(items)), items...)
	slices.Reverse(out)
	if _, ok := v.(*iter); ok {
		return newList(out)
	}
	return &iter{items: out}
}

func toJSON(r *run, v Value, o opts) Value {
	d := &dumper{run: r, item: ", ", key: ": ", ascii: o.flag(0), sorted: o.flag(3)}
	if width := o.or(1, nil); width != nil {
		d.lines, d.indent, d.item = true, r.margin(width, "tojson").String(), ","
	}
	if seps := o.or(2, nil); seps != nil {
		list := r.items(seps)
		if len(list) != 2 {
			r.failf("tojson needs two separators")
		}
		d.item, d.key = r.text(list[0], "tojson").String(), r.text(list[1], "tojson").String()
	}
	d.dump(v, 0)
	return origin.Given(d.b.String())
}

// margin is what is put before a line: a text, or this many spaces.
func (r *run) margin(width Value, who string) origin.Text {
	if t, ok := width.(origin.Text); ok {
		return t
	}
	n := max(r.whole(width, who), 0)
	r.Grow(n)
	return origin.Own(strings.Repeat(" ", n))
}

func indent(r *run, v Value, o opts) Value {
	s, pad := r.text(v, "indent"), origin.Own("    ")
	if w := o.or(0, nil); w != nil {
		pad = r.margin(w, "indent")
	}
	lines := r.lines(origin.Join([]origin.Text{s, origin.Own("\n")}, origin.Text{}))
	first, blank := o.flag(1), o.flag(2)
	var b origin.Builder
	for i, line := range lines {
		line := line.(origin.Text)
		r.Grow(line.Len() + pad.Len() + 1)
		r.Fits(b.Len() + line.Len() + pad.Len())
		if i > 0 {
			b.Write("\n", false)
		}
		if i == 0 && first || i > 0 && (blank || line.Len() > 0) {
			b.Add(pad)
		}
		b.Add(line)
	}
	return b.Text()
}
