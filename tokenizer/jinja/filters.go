package jinja

import (
	"math"
	"slices"
	"strconv"
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
	length := none(func(r *run, v Value) Value { return r.length(v) })
	orElse := &builtin{params: []string{"default_value", "boolean"}, fn: func(_ *run, v Value, o opts) Value {
		if _, u := v.(*Undefined); u || truth(o.or(1, false)) && !truth(v) {
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
			switch d := v.(type) {
			case *Undefined:
				return &iter{}
			case *Dict:
				return &iter{items: d.pairs(r)}
			}
			r.failf("items needs a dict, not %s", typeName(v))
			return nil
		}),
		"upper":      none(func(r *run, v Value) Value { return r.upper(r.str(v)) }),
		"lower":      none(func(r *run, v Value) Value { return r.lower(r.str(v)) }),
		"capitalize": none(func(r *run, v Value) Value { return r.capitalize(r.str(v)) }),
		"title": none(func(r *run, v Value) Value {
			return r.words(r.str(v), upper, func(c rune) bool { return isSpace(c) || strings.ContainsRune("-({[<", c) })
		}),
		"trim": {params: []string{"chars"}, fn: func(r *run, v Value, o opts) Value { return r.strip(r.str(v), o.or(0, nil), true, true) }},
		"first": none(func(r *run, v Value) Value {
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
		}),
		"last": none(func(r *run, v Value) Value {
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
		}),
		"join": {params: []string{"d", "attribute"}, fn: func(r *run, v Value, o opts) Value {
			sep, get := r.str(o.or(0, own(""))), r.getter(o.or(1, nil), absent{}, false)
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
		"reverse": none(func(r *run, v Value) Value {
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
		}),
		"indent": {params: []string{"width", "first", "blank"}, fn: indent},
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
		"abs": none(func(r *run, v Value) Value {
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
		}),
		"round": {params: []string{"precision", "method"}, fn: round},
		"format": {variadic: true, fn: func(r *run, v Value, o opts) Value {
			a := o[0].(*args)
			if len(a.pos) > 0 && len(a.names) > 0 {
				r.failf("format takes arguments by place or by name, not both")
			}
			if len(a.names) > 0 {
				return r.percent(r.str(v), newDict(r, a))
			}
			return r.percent(r.str(v), &List{a.pos, true})
		}},
		"attr": {params: []string{"name"}, need: 1, fn: func(r *run, v Value, o opts) Value {
			name := r.str(o[0]).String()
			if a, ok := r.attr(v, name); ok {
				return a
			}
			return missing(v, name)
		}},
		"map":        {variadic: true, fn: mapFilter},
		"select":     {variadic: true, fn: picker(false, true)},
		"reject":     {variadic: true, fn: picker(false, false)},
		"selectattr": {variadic: true, fn: picker(true, true)},
		"rejectattr": {variadic: true, fn: picker(true, false)},
		"sort": {params: []string{"reverse", "case_sensitive", "attribute"}, fn: func(r *run, v Value, o opts) Value {
			return newList(r.sorted(r.items(v), r.getters(o.or(2, nil), !truth(o.or(1, false))), truth(o.or(0, false))))
		}},
		"dictsort": {params: []string{"case_sensitive", "by", "reverse"}, fn: func(r *run, v Value, o opts) Value {
			d, ok := v.(*Dict)
			if !ok {
				r.failf("dictsort needs a dict, not %s", typeName(v))
			}
			by := slices.Index([]string{"key", "value"}, r.text(o.or(1, own("key")), "dictsort").String())
			if by < 0 {
				r.failf("dictsort goes by key or by value")
			}
			get := r.getter(by, absent{}, !truth(o.or(0, false)))
			return newList(r.sorted(d.pairs(r), get, truth(o.or(2, false))))
		}},
		"unique": {params: []string{"case_sensitive", "attribute"}, fn: func(r *run, v Value, o opts) Value {
			return &iter{make: func() []Value {
				seen, get := &Dict{}, r.getter(o.or(1, nil), absent{}, !truth(o.or(0, false)))
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
			}}
		}},
		"groupby": {params: []string{"attribute", "default", "case_sensitive"}, need: 1, fn: groupBy},
		"min":     {params: []string{"case_sensitive", "attribute"}, fn: extreme("<")},
		"max":     {params: []string{"case_sensitive", "attribute"}, fn: extreme(">")},
		"sum": {params: []string{"attribute", "start"}, fn: func(r *run, v Value, o opts) Value {
			total, get := o.or(1, 0), r.getter(o.or(0, nil), absent{}, false)
			if _, ok := total.(origin.Text); ok {
				r.failf("sum of strings")
			}
			for _, x := range r.items(v) {
				r.Step(1)
				total = r.binary("+", total, get(x))
			}
			return total
		}},
		"batch": {params: []string{"linecount", "fill_with"}, need: 1, fn: func(r *run, v Value, o opts) Value {
			return &iter{make: func() []Value { return batch(r, v, o) }}
		}},
		"slice": {params: []string{"slices", "fill_with"}, need: 1, fn: func(r *run, v Value, o opts) Value {
			return &iter{make: func() []Value { return columns(r, v, o) }}
		}},
		"tojson": {params: []string{"ensure_ascii", "indent", "separators", "sort_keys"}, fn: toJSON},
	}
}

func toJSON(r *run, v Value, o opts) Value {
	d := &dumper{run: r, item: ", ", key: ": ", ascii: truth(o.or(0, false)), sorted: truth(o.or(3, false))}
	switch in := o.or(1, nil).(type) {
	case nil:
	case origin.Text:
		d.lines, d.indent = true, in.String()
	default:
		n := max(r.whole(in, "tojson"), 0)
		r.Grow(n)
		d.lines, d.indent = true, strings.Repeat(" ", n)
	}
	if d.lines {
		d.item = ","
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

func indent(r *run, v Value, o opts) Value {
	s, pad := r.text(v, "indent"), origin.Own("    ")
	if w := o.or(0, nil); w != nil {
		if t, ok := w.(origin.Text); ok {
			pad = t
		} else {
			n := max(r.whole(w, "indent"), 0)
			r.Grow(n)
			pad = origin.Own(strings.Repeat(" ", n))
		}
	}
	lines := r.lines(origin.Join([]origin.Text{s, origin.Own("\n")}, origin.Text{}), false)
	first, blank := truth(o.or(1, false)), truth(o.or(2, false))
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
	if !truth(o.or(1, false)) {
		if k := strings.LastIndexByte(cut.String(), ' '); k >= 0 {
			cut = cut.Slice(0, k)
		}
	}
	r.Grow(cut.Len() + end.Len())
	return origin.Join([]origin.Text{cut, end}, origin.Text{})
}

func toInt(r *run, v Value, o opts) Value {
	switch x := v.(type) {
	case *Undefined:
		r.undefined(x)
	case float64:
		if math.IsInf(x, 0) || math.Abs(x) >= 1<<63 {
			r.failf("the number %v does not fit 64 bits", x)
		}
		if !math.IsNaN(x) {
			return int(x)
		}
	case bool, int:
		n, _ := whole(v)
		return n
	case origin.Text:
		s := strings.TrimFunc(x.String(), isSpace)
		base := r.whole(o.or(1, 10), "int")
		if n, ok := parseInt(s, base); ok {
			return n
		}
		if f, ok := parseFloat(s); ok && !math.IsNaN(f) {
			if math.Abs(f) >= 1<<63 {
				r.failf("the number %s does not fit 64 bits", s)
			}
			return int(f)
		}
	}
	return o.or(0, 0)
}

func parseInt(s string, base int) (int, bool) {
	if len(s) > 4300 {
		return 0, false
	}
	sign := ""
	if strings.HasPrefix(s, "-") || strings.HasPrefix(s, "+") {
		sign, s = s[:1], s[1:]
	}
	prefix := map[int]string{2: "0b", 8: "0o", 16: "0x"}[base]
	if prefix != "" && strings.HasPrefix(strings.ToLower(s), prefix) {
		s = s[2:]
	}
	if s == "" || strings.HasPrefix(s, "-") || strings.HasPrefix(s, "+") || strings.HasPrefix(s, "_") && prefix == "" ||
		strings.HasSuffix(s, "_") || strings.Contains(s, "__") {
		return 0, false
	}
	if base != 0 && (base < 2 || base > 36) {
		return 0, false
	}
	n, err := strconv.ParseInt(sign+strings.ReplaceAll(s, "_", ""), base, 64)
	return int(n), err == nil
}

func parseFloat(s string) (float64, bool) {
	low := strings.ToLower(s)
	if strings.ContainsAny(low, "xp") || strings.HasPrefix(s, "_") || strings.HasSuffix(s, "_") || strings.Contains(s, "__") ||
		strings.Contains(s, "_.") || strings.Contains(s, "._") {
		return 0, false
	}
	f, err := strconv.ParseFloat(strings.ReplaceAll(s, "_", ""), 64)
	return f, err == nil || math.IsInf(f, 0)
}

func toFloat(r *run, v Value, o opts) Value {
	switch x := v.(type) {
	case *Undefined:
		r.undefined(x)
	case bool, int, float64:
		_, f, _, _ := number(v)
		return f
	case origin.Text:
		if f, ok := parseFloat(strings.TrimFunc(x.String(), isSpace)); ok {
			return f
		}
	}
	return o.or(0, 0.0)
}

func round(r *run, v Value, o opts) Value {
	p := r.whole(o.or(0, 0), "round")
	i, f, isFloat, ok := number(v)
	if !ok {
		r.failf("round of %s", typeName(v))
	}
	if p > 300 || p < -300 {
		r.failf("round to %d places", p)
	}
	scale := math.Pow(10, float64(p))
	switch method := r.text(o.or(1, own("common")), "round").String(); {
	case method == "ceil" || method == "floor":
		x := math.Floor(f * scale)
		if method == "ceil" {
			x = math.Ceil(f * scale)
		}
		if math.IsNaN(x) || math.IsInf(x, 0) {
			r.failf("%s of no number", method)
		}
		return x / scale
	case method != "common":
		r.failf("round knows common, ceil and floor")
	case !isFloat && p >= 0:
		return i
	case !isFloat:
		return int(math.RoundToEven(f*scale) / scale)
	case p < 0 || math.IsNaN(f) || math.IsInf(f, 0):
		return math.RoundToEven(f*scale) / scale
	}
	x, _ := strconv.ParseFloat(strconv.FormatFloat(f, 'f', p, 64), 64)
	return x
}

// getter returns what finds an attribute of an item: "a.b", a number, or the item itself where it is nil. or stands in for what is not
// there.
func (r *run) getter(attribute, or Value, fold bool) func(Value) Value {
	var path []Value
	switch a := attribute.(type) {
	case nil:
	case origin.Text:
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
			_, none := or.(absent)
			if _, u := v.(*Undefined); u && !none {
				v = or
			}
		}
		if t, ok := v.(origin.Text); ok && fold {
			return r.lower(t)
		}
		return v
	}
}

// getters is getter for several attributes with commas between, which are compared in turn.
func (r *run) getters(attribute Value, fold bool) func(Value) Value {
	t, ok := attribute.(origin.Text)
	if !ok || !strings.Contains(t.String(), ",") {
		return r.getter(attribute, absent{}, fold)
	}
	var all []func(Value) Value
	for _, p := range strings.Split(t.String(), ",") {
		all = append(all, r.getter(own(p), absent{}, fold))
	}
	return func(v Value) Value {
		out := r.list(len(all))
		for _, get := range all {
			out = append(out, get(v))
		}
		return newList(out)
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
		switch {
		case reverse && r.order("<", b.k, a.k) == -1:
			return -1
		case reverse && r.order("<", a.k, b.k) == -1:
			return 1
		case !reverse:
			return r.order("<", a.k, b.k) % unordered
		}
		return 0
	})
	out := r.list(len(list))
	for _, x := range list {
		out = append(out, x.v)
	}
	return out
}

func groupBy(r *run, v Value, o opts) Value {
	get := func(fold bool) func(Value) Value {
		if d := o.or(1, nil); d != nil {
			return r.getter(o[0], d, fold)
		}
		return r.getter(o[0], absent{}, fold)
	}
	key, shown := get(!truth(o.or(2, false))), get(false)
	var groups []Value
	var last Value
	var group *List
	for _, x := range r.sorted(r.items(v), key, false) {
		k := key(x)
		if group == nil || !r.equal(k, last) {
			group, last = &List{}, k
			groups = append(groups, &List{[]Value{shown(x), group}, true})
			r.Grow(4 * itemBytes)
		}
		group.Items = append(group.Items, x)
		r.Grow(itemBytes)
	}
	return newList(groups)
}

func extreme(op string) func(r *run, v Value, o opts) Value {
	return func(r *run, v Value, o opts) Value {
		get := r.getter(o.or(1, nil), absent{}, !truth(o.or(0, false)))
		items := r.items(v)
		if len(items) == 0 {
			return &Undefined{"the " + op + " of nothing"}
		}
		best, key := items[0], get(items[0])
		for _, x := range items[1:] {
			if k := get(x); r.compare(op, k, key) {
				best, key = x, k
			}
		}
		return best
	}
}

func batch(r *run, v Value, o opts) []Value {
	n := r.whole(o[0], "batch")
	var out, row []Value
	for _, x := range r.items(v) {
		if len(row) == n {
			out, row = append(out, newList(row)), nil
		}
		r.Grow(2 * itemBytes)
		row = append(row, x)
	}
	if len(row) == 0 {
		return out
	}
	if fill := o.or(1, nil); fill != nil && n > len(row) {
		row = append(append(r.list(n), row...), slices.Repeat([]Value{fill}, n-len(row))...)
	}
	return append(out, newList(row))
}

func columns(r *run, v Value, o opts) []Value {
	items, n, fill := r.items(v), r.whole(o[0], "slice"), o.or(1, nil)
	if n == 0 {
		r.failf("division by zero")
	}
	out := r.list(max(n, 0))
	at := 0
	for i := range max(n, 0) {
		size := len(items) / n
		if i < len(items)%n {
			size++
		}
		column := append(r.list(size+1), items[at:at+size]...)
		if fill != nil && i >= len(items)%n {
			column = append(column, fill)
		}
		out = append(out, newList(column))
		at += size
	}
	return out
}

func mapFilter(r *run, v Value, o opts) Value {
	a := o[0].(*args)
	if _, lazy := v.(*iter); !lazy && !truth(v) {
		return &iter{}
	}
	return &iter{make: func() []Value {
		var f func(Value) Value
		attribute, ok := a.take("attribute")
		if len(a.pos) == 0 && ok {
			or, ok := a.take("default")
			if !ok || or == nil {
				or = absent{}
			}
			if len(a.names) > 0 {
				r.failf("map takes no argument %q", a.names[0])
			}
			f = r.getter(attribute, or, false)
		} else {
			if len(a.pos) == 0 {
				r.failf("map needs a filter or an attribute")
			}
			if ok {
				a.names, a.named = append(a.names, "attribute"), append(a.named, attribute)
			}
			name := r.str(a.pos[0]).String()
			b := filters[name]
			if b == nil {
				r.failf("there is no filter %q", name)
			}
			f = func(x Value) Value {
				r.Step(1)
				return b.fn(r, x, b.bind(r, name, &args{a.pos[1:], a.names, a.named}))
			}
		}
		var out []Value
		for _, x := range r.items(v) {
			r.Grow(itemBytes)
			out = append(out, f(x))
		}
		return out
	}}
}

// picker makes select and its kin: with an attribute's name first, or without; keeping what passes the test, or the rest.
func picker(attr, want bool) func(r *run, v Value, o opts) Value {
	return func(r *run, v Value, o opts) Value {
		a := o[0].(*args)
		if _, lazy := v.(*iter); !lazy && !truth(v) {
			return &iter{}
		}
		return &iter{make: func() []Value {
			get, rest := func(x Value) Value { return x }, a.pos
			if attr {
				if len(rest) == 0 {
					r.failf("an attribute is missing")
				}
				get, rest = r.getter(rest[0], absent{}, false), rest[1:]
			}
			pass := truth
			if len(rest) > 0 {
				name := r.str(rest[0]).String()
				b := tests[name]
				if b == nil {
					r.failf("there is no test %q", name)
				}
				bound := b.bind(r, name, &args{rest[1:], a.names, a.named})
				pass = func(x Value) bool { return truth(b.fn(r, x, bound)) }
			}
			var out []Value
			for _, x := range r.items(v) {
				r.Step(1)
				if pass(get(x)) == want {
					r.Grow(itemBytes)
					out = append(out, x)
				}
			}
			return out
		}}
	}
}
