package jinja

import (
	"math"
	"slices"
	"strings"
	"unicode"
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
		"upper":      ofStr("upper"),
		"lower":      ofStr("lower"),
		"capitalize": ofStr("capitalize"),
		"trim":       ofStr("strip", "chars"),
		"title": none(func(r *run, v Value) Value {
			return r.words(r.str(v), upper, func(c rune) bool { return isSpace(c) || strings.ContainsRune("-({[<", c) })
		}),
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
		"reverse": none(reversed),
		"indent":  {params: []string{"width", "first", "blank"}, fn: indent},
		"center": {params: []string{"width"},
			fn: func(r *run, v Value, o opts) Value { return r.pad(r.str(v), r.whole(o.or(0, 80), "center"), " ", 'c') }},
		"truncate": {params: []string{"length", "killwords", "end", "leeway"}, fn: truncate},
		"wordcount": none(func(r *run, v Value) Value {
			r.Step(r.str(v).Len() / 16)
			n := 0
			for range strings.FieldsFuncSeq(r.str(v).String(), func(c rune) bool {
				return c != '_' && !unicode.IsLetter(c) &&
					!unicode.IsNumber(c)
			}) {
				n++
			}
			return n
		}),
		"int":   {params: []string{"default", "base"}, fn: toInt},
		"float": {params: []string{"default"}, fn: toFloat},
		"abs":   none(absolute),
		"round": {params: []string{"precision", "method"}, fn: round},
		"format": {variadic: true, fn: func(r *run, v Value, o opts) Value {
			a := o.args()
			if len(a.pos) > 0 && len(a.names) > 0 {
				r.failf("format takes arguments by place or by name, not both")
			}
			if len(a.names) > 0 {
				return r.percent(r.str(v), newDict(r, a))
			}
			return r.percent(r.str(v), &List{a.pos, true})
		}},
		"attr": {params: []string{"name"}, need: 1, fn: func(r *run, v Value, o opts) Value {
			return r.attrOr(v, r.str(o[0]).String())
		}},
		"map":        {variadic: true, fn: lazy(mapItems)},
		"select":     {variadic: true, fn: lazy(picker(false, true))},
		"reject":     {variadic: true, fn: lazy(picker(false, false))},
		"selectattr": {variadic: true, fn: lazy(picker(true, true))},
		"rejectattr": {variadic: true, fn: lazy(picker(true, false))},
		"sort": {params: []string{"reverse", "case_sensitive", "attribute"}, fn: func(r *run, v Value, o opts) Value {
			return newList(r.sorted(r.items(v), r.getters(o.or(2, nil), !o.flag(1)), o.flag(0)))
		}},
		"dictsort": {params: []string{"case_sensitive", "by", "reverse"}, fn: func(r *run, v Value, o opts) Value {
			by := slices.Index([]string{"key", "value"}, r.text(o.or(1, own("key")), "dictsort").String())
			if by < 0 {
				r.failf("dictsort goes by key or by value")
			}
			return newList(r.sorted(r.dict(v, "dictsort").pairs(r), r.getter(by, nil, !o.flag(0)), o.flag(2)))
		}},
		"unique":  {params: []string{"case_sensitive", "attribute"}, fn: lazy(unique)},
		"groupby": {params: []string{"attribute", "default", "case_sensitive"}, need: 1, fn: groupBy},
		"min":     {params: []string{"case_sensitive", "attribute"}, fn: extreme("<")},
		"max":     {params: []string{"case_sensitive", "attribute"}, fn: extreme(">")},
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
		"batch":  {params: []string{"linecount", "fill_with"}, need: 1, fn: lazy(batch)},
		"slice":  {params: []string{"slices", "fill_with"}, need: 1, fn: lazy(columns)},
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
	case *iter, *loopState:
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
		back := -1
		return r.slice(t, [3]*int{2: &back})
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
	lines := r.lines(origin.Join([]origin.Text{s, origin.Own("\n")}, origin.Text{}), false)
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

func truncate(r *run, v Value, o opts) Value {
	end := r.text(o.or(2, own("...")), "truncate")
	n, leeway := r.whole(o.or(0, 255), "truncate"), 5
	if l := o.or(3, nil); l != nil {
		leeway = r.whole(l, "truncate")
	}
	keep := n - r.length(end)
	if keep < 0 || leeway < 0 {
		r.failf("truncate to less than its end")
	}
	if r.length(v) <= n+leeway {
		return v
	}
	s := r.text(v, "truncate")
	cut := r.slice(s, [3]*int{1: &keep}).(origin.Text)
	if !o.flag(1) {
		if k := strings.LastIndexByte(cut.String(), ' '); k >= 0 {
			cut = cut.Slice(0, k)
		}
	}
	r.Grow(cut.Len() + end.Len())
	return origin.Join([]origin.Text{cut, end}, origin.Text{})
}
