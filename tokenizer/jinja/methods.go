package jinja

import (
	"math"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/axle-llm/axle/tokenizer/origin"
)

// The methods that values have. What would change a list or a dict is missing, as it is in jinja2's
// immutable sandbox.
var strMethods, listMethods, dictMethods, floatMethods, loopMethods, cyclerMethods map[string]*builtin

func methodsOf(v Value) map[string]*builtin {
	switch v.(type) {
	case origin.Text:
		return strMethods
	case *List, *Range:
		return listMethods
	case *Dict:
		return dictMethods
	case float64:
		return floatMethods
	case *loopState:
		return loopMethods
	case *cycler:
		return cyclerMethods
	}
	return nil
}

func init() {
	all := func(f func(rune) bool) *builtin {
		return textMethod(0, func(_ *run, s origin.Text, _ opts) Value {
			return s.Len() > 0 && strings.IndexFunc(s.String(), func(c rune) bool { return !f(c) }) < 0
		})
	}
	strip := func(left, right bool) *builtin {
		return textMethod(0, func(r *run, s origin.Text, o opts) Value { return r.strip(s, o.or(0, nil), left, right) }, "chars")
	}
	pad := func(side byte) *builtin {
		return textMethod(1, func(r *run, s origin.Text, o opts) Value {
			fill := r.text(o.or(1, own(" ")), "a width")
			if utf8.RuneCountInString(fill.String()) != 1 {
				r.failf("the fill is not one character")
			}
			return r.pad(s, r.whole(o[0], "a width"), fill.String(), side)
		}, "width", "fillchar")
	}
	// changed is what f makes of a text, and unchanged reports whether f leaves one with letters as
	// it is.
	changed := func(f func(*run, origin.Text) origin.Text) *builtin {
		return textMethod(0, func(r *run, s origin.Text, _ opts) Value { return f(r, s) })
	}
	unchanged := func(f func(*run, origin.Text) origin.Text) *builtin {
		return textMethod(0, func(r *run, s origin.Text, _ opts) Value {
			return isCased(s.String()) && f(r, s).String() == s.String()
		})
	}
	strMethods = map[string]*builtin{
		"upper": changed((*run).upper), "lower": changed((*run).lower), "title": changed((*run).title),
		"casefold": changed((*run).casefold), "swapcase": changed((*run).swapcase), "capitalize": changed((*run).capitalize),
		"isupper": unchanged((*run).upper), "islower": unchanged((*run).lower), "istitle": unchanged((*run).title),
		"strip": strip(true, true), "lstrip": strip(true, false), "rstrip": strip(false, true),
		"split": splitMethod(false), "rsplit": splitMethod(true),
		"splitlines": textMethod(0, func(r *run, s origin.Text, o opts) Value {
			return newList(r.lines(s, truth(o.or(0, false))))
		}, "keepends"),
		"partition": partsMethod(false), "rpartition": partsMethod(true),
		"join": textMethod(1, func(r *run, s origin.Text, o opts) Value {
			items := r.items(o[0])
			for _, x := range items {
				r.text(x, "join")
			}
			return r.join(items, s)
		}, "iterable"),
		"replace": textMethod(2, func(r *run, s origin.Text, o opts) Value {
			return r.replace(s, r.text(o[0], "replace"), r.text(o[1], "replace"), r.whole(o.or(2, -1), "replace"))
		}, "old", "new", "count"),
		"startswith": affixMethod(strings.HasPrefix), "endswith": affixMethod(strings.HasSuffix),
		"removeprefix": textMethod(1, func(r *run, s origin.Text, o opts) Value {
			if p := r.text(o[0], "removeprefix"); strings.HasPrefix(s.String(), p.String()) {
				return s.Slice(p.Len(), s.Len())
			}
			return s
		}, "prefix"),
		"removesuffix": textMethod(1, func(r *run, s origin.Text, o opts) Value {
			if p := r.text(o[0], "removesuffix"); strings.HasSuffix(s.String(), p.String()) {
				return s.Slice(0, s.Len()-p.Len())
			}
			return s
		}, "suffix"),
		"find": findMethod(false, false), "rfind": findMethod(true, false),
		"index": findMethod(false, true), "rindex": findMethod(true, true),
		"count": textMethod(1, func(r *run, s origin.Text, o opts) Value {
			part, _, ok := r.window(s, o, 1)
			if !ok {
				return 0
			}
			return strings.Count(part, r.text(o[0], "count").String())
		}, "sub", "start", "end"),
		"center": pad('c'), "ljust": pad('<'), "rjust": pad('>'),
		"zfill": textMethod(1, func(r *run, s origin.Text, o opts) Value {
			n := r.whole(o[0], "zfill")
			if s.Len() > 0 && (s.String()[0] == '-' || s.String()[0] == '+') {
				return origin.Join([]origin.Text{s.Slice(0, 1), r.pad(s.Slice(1, s.Len()), n-1, "0", '>')}, origin.Text{})
			}
			return r.pad(s, n, "0", '>')
		}, "width"),
		"isalpha": all(unicode.IsLetter), "isspace": all(isSpace), "isdecimal": all(unicode.IsDigit),
		"isdigit": all(func(c rune) bool {
			return unicode.IsDigit(c) || strings.ContainsRune("²³¹⁰⁴⁵⁶⁷⁸⁹₀₁₂₃₄₅₆₇₈₉", c)
		}),
		"isnumeric": all(unicode.IsNumber),
		"isalnum":   all(func(c rune) bool { return unicode.IsLetter(c) || unicode.IsNumber(c) }),
		"isascii": textMethod(0, func(_ *run, s origin.Text, _ opts) Value {
			return strings.IndexFunc(s.String(), func(c rune) bool { return c > 127 }) < 0
		}),
		"format": {variadic: true, fn: func(r *run, v Value, o opts) Value {
			return (&formatter{run: r, args: o.args()}).format(v.(origin.Text))
		}},
	}
	listMethods = map[string]*builtin{
		"count": {params: []string{"value"}, need: 1, fn: func(r *run, v Value, o opts) Value {
			n := 0
			for _, x := range r.items(v) {
				if r.equal(x, o[0]) {
					n++
				}
			}
			return n
		}},
		"index": {params: []string{"value", "start", "stop"}, need: 1, fn: func(r *run, v Value, o opts) Value {
			items := r.items(v)
			from, n, _ := indices([3]*int{r.optional(o, 1), r.optional(o, 2)}, len(items))
			for i, x := range items[from : from+n] {
				if r.equal(x, o[0]) {
					return from + i
				}
			}
			r.failf("the value is not in the list")
			return nil
		}},
		"copy": {fn: func(_ *run, v Value, _ opts) Value { return v }},
	}
	dictMethods = map[string]*builtin{
		"get": {params: []string{"key", "default"}, need: 1, fn: func(r *run, v Value, o opts) Value {
			if x, ok := v.(*Dict).get(r.hashed(o[0])); ok {
				return x
			}
			return o.or(1, nil)
		}},
		"keys":   {fn: func(_ *run, v Value, _ opts) Value { return &view{"keys", v.(*Dict).keys} }},
		"values": {fn: func(_ *run, v Value, _ opts) Value { return &view{"values", v.(*Dict).values} }},
		"items":  {fn: func(r *run, v Value, _ opts) Value { return &view{"items", v.(*Dict).pairs(r)} }},
		"copy":   {fn: func(_ *run, v Value, _ opts) Value { return v }},
	}
	floatMethods = map[string]*builtin{
		"is_integer": {fn: func(_ *run, v Value, _ opts) Value { f := v.(float64); return f == math.Trunc(f) && !math.IsInf(f, 0) }},
	}
	loopMethods = map[string]*builtin{
		"cycle": {variadic: true, fn: func(r *run, v Value, o opts) Value {
			items := o.args().pos
			if len(items) == 0 {
				r.failf("no items for cycling given")
			}
			return items[v.(*loopState).at%len(items)]
		}},
		"changed": {variadic: true, fn: func(r *run, v Value, o opts) Value {
			l, was := v.(*loopState), v.(*loopState).changed
			l.changed = newList(o.args().pos)
			return was == nil || !r.equal(was, l.changed)
		}},
	}
	cyclerMethods = map[string]*builtin{
		"next": {fn: func(_ *run, v Value, _ opts) Value {
			c := v.(*cycler)
			defer func() { c.at = (c.at + 1) % len(c.items) }()
			return c.items[c.at]
		}},
		"reset": {fn: func(_ *run, v Value, _ opts) Value { v.(*cycler).at = 0; return nil }},
	}
}

// textMethod is a method of a string with the given parameters, those after need being optional.
func textMethod(need int, fn func(r *run, s origin.Text, o opts) Value, params ...string) *builtin {
	return &builtin{params: params, need: need, fn: func(r *run, v Value, o opts) Value {
		s := v.(origin.Text)
		r.Step(1 + s.Len()/64)
		return fn(r, s, o)
	}}
}

func findMethod(last, must bool) *builtin {
	return textMethod(1, func(r *run, s origin.Text, o opts) Value {
		part, base, ok := r.window(s, o, 1)
		sub, k := r.text(o[0], "find").String(), -1
		if ok && last {
			k = strings.LastIndex(part, sub)
		} else if ok {
			k = strings.Index(part, sub)
		}
		if k < 0 && must {
			r.failf("substring not found")
		} else if k < 0 {
			return -1
		}
		return base + utf8.RuneCountInString(part[:k])
	}, "sub", "start", "end")
}

func affixMethod(has func(s, affix string) bool) *builtin {
	return textMethod(1, func(r *run, s origin.Text, o opts) Value {
		part, _, ok := r.window(s, o, 1)
		list := []Value{o[0]}
		if l, is := o[0].(*List); is && l.Tuple {
			list = l.Items
		}
		for _, x := range list {
			if has(part, r.text(x, "a prefix").String()) && ok {
				return true
			}
		}
		return false
	}, "prefix", "start", "end")
}

func partsMethod(last bool) *builtin {
	return textMethod(1, func(r *run, s origin.Text, o opts) Value {
		sep := r.text(o[0], "partition")
		if sep.Len() == 0 {
			r.failf("empty separator")
		}
		k := strings.Index(s.String(), sep.String())
		if last {
			k = strings.LastIndex(s.String(), sep.String())
		}
		switch {
		case k >= 0:
			return &List{[]Value{s.Slice(0, k), sep, s.Slice(k+sep.Len(), s.Len())}, true}
		case last:
			return &List{[]Value{own(""), own(""), s}, true}
		}
		return &List{[]Value{s, own(""), own("")}, true}
	}, "sep")
}

func splitMethod(last bool) *builtin {
	return textMethod(0, func(r *run, s origin.Text, o opts) Value {
		return newList(r.split(s, o.or(0, nil), r.whole(o.or(1, -1), "split"), last))
	}, "sep", "maxsplit")
}

func (d *Dict) pairs(r *run) []Value {
	out := r.list(2 * len(d.keys))
	for i, k := range d.keys {
		out = append(out, &List{[]Value{k, d.values[i]}, true})
	}
	return out
}

// optional is a whole number, or nil.
func (r *run) optional(o opts, i int) *int {
	v := o.or(i, nil)
	if v == nil {
		return nil
	}
	n := r.whole(v, "a place")
	return &n
}

// window is the part of s between the places that o tells from its ith argument on, and the number
// of its first character. Where they are beyond the end nothing is found, not even nothing.
func (r *run) window(s origin.Text, o opts, i int) (part string, base int, ok bool) {
	from, to := r.optional(o, i), r.optional(o, i+1)
	if from == nil && to == nil {
		return s.String(), 0, true
	}
	n := r.length(s)
	place := func(p *int, or int) int {
		switch {
		case p == nil:
			return or
		case *p < 0:
			return max(0, *p+n)
		}
		return *p
	}
	base, end := place(from, 0), min(place(to, n), n)
	if base > end {
		return "", 0, false
	}
	start := runeAt(s.String(), base)
	return s.String()[start : start+runeAt(s.String()[start:], end-base)], base, true
}
