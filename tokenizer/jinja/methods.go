package jinja

import (
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/axle-llm/axle/tokenizer/origin"
)

// The methods that values have. What would change a list or a dict is missing, as it is in jinja2's
// immutable sandbox.
var strMethods, dictMethods map[string]*builtin

func methodsOf(v Value) map[string]*builtin {
	switch v.(type) {
	case origin.Text:
		return strMethods
	case *Dict:
		return dictMethods
	}
	return nil
}

func init() {
	strip := func(left, right bool) *builtin {
		return textMethod(0, func(r *run, s origin.Text, o opts) Value { return r.strip(s, o.or(0, nil), left, right) }, "chars")
	}
	changed := func(f func(*run, origin.Text) origin.Text) *builtin {
		return textMethod(0, func(r *run, s origin.Text, _ opts) Value { return f(r, s) })
	}
	split := func(f func(*run, origin.Text, Value, int) []Value) *builtin {
		return textMethod(0, func(r *run, s origin.Text, o opts) Value {
			return newList(f(r, s, o.or(0, nil), r.whole(o.or(1, -1), "split")))
		}, "sep", "maxsplit")
	}
	affix := func(has func(s, affix string) bool) *builtin {
		return textMethod(1, func(r *run, s origin.Text, o opts) Value {
			list := []Value{o[0]}
			if l, is := o[0].(*List); is && l.Tuple {
				list = l.Items
			}
			return slices.ContainsFunc(list, func(x Value) bool { return has(s.String(), r.text(x, "a prefix").String()) })
		}, "prefix")
	}
	strMethods = map[string]*builtin{
		"upper": changed((*run).upper), "lower": changed((*run).lower), "title": changed((*run).title),
		"capitalize": changed((*run).capitalize),
		"strip":      strip(true, true), "lstrip": strip(true, false), "rstrip": strip(false, true),
		"split": split((*run).split), "rsplit": split((*run).splitLast),
		"splitlines": textMethod(0, func(r *run, s origin.Text, _ opts) Value { return newList(r.lines(s)) }),
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
		"startswith": affix(strings.HasPrefix), "endswith": affix(strings.HasSuffix),
		"find": textMethod(1, func(r *run, s origin.Text, o opts) Value {
			before, _, ok := strings.Cut(s.String(), r.text(o[0], "find").String())
			if !ok {
				return -1
			}
			return utf8.RuneCountInString(before)
		}, "sub"),
		"count": textMethod(1, func(r *run, s origin.Text, o opts) Value {
			return strings.Count(s.String(), r.text(o[0], "count").String())
		}, "sub"),
	}
	dictMethods = map[string]*builtin{
		"get": {params: []string{"key", "default"}, need: 1, fn: func(r *run, v Value, o opts) Value {
			if x, ok := v.(*Dict).get(r.hashed(o[0])); ok {
				return x
			}
			return o.or(1, nil)
		}},
		"keys":   {fn: func(_ *run, v Value, _ opts) Value { return newList(v.(*Dict).keys) }},
		"values": {fn: func(_ *run, v Value, _ opts) Value { return newList(v.(*Dict).values) }},
		"items":  {fn: func(r *run, v Value, _ opts) Value { return newList(v.(*Dict).pairs(r)) }},
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

func (d *Dict) pairs(r *run) []Value {
	out := r.list(2 * len(d.keys))
	for i, k := range d.keys {
		out = append(out, &List{[]Value{k, d.values[i]}, true})
	}
	return out
}
