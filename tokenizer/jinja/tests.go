package jinja

import "github.com/axle-llm/axle/tokenizer/origin"

// tests are what may stand behind is.
var tests map[string]*builtin

func init() {
	is := func(f func(r *run, v Value) bool) *builtin {
		return &builtin{fn: func(r *run, v Value, _ opts) Value { return f(r, v) }}
	}
	than := func(op string) *builtin {
		return &builtin{params: []string{"other"}, need: 1, fn: func(r *run, v Value, o opts) Value { return r.compare(op, v, o[0]) }}
	}
	// unchanged reports whether f leaves a text that has letters as it is.
	unchanged := func(f func(string) string) *builtin {
		return is(func(r *run, v Value) bool {
			s := r.str(v)
			r.Step(1 + s.Len()/16)
			return isCased(s.String()) && f(s.String()) == s.String()
		})
	}
	odd := func(r *run, v Value) bool { return r.equal(r.binary("%", v, 2), 1) }
	tests = map[string]*builtin{
		"defined":   is(func(_ *run, v Value) bool { _, u := v.(*Undefined); return !u }),
		"undefined": is(func(_ *run, v Value) bool { _, u := v.(*Undefined); return u }),
		"none":      is(func(_ *run, v Value) bool { return v == nil }),
		"boolean":   is(func(_ *run, v Value) bool { _, ok := v.(bool); return ok }),
		"true":      is(func(_ *run, v Value) bool { return v == true }),
		"false":     is(func(_ *run, v Value) bool { return v == false }),
		"integer":   is(func(_ *run, v Value) bool { _, ok := v.(int); return ok }),
		"float":     is(func(_ *run, v Value) bool { _, ok := v.(float64); return ok }),
		"number":    is(func(_ *run, v Value) bool { _, _, _, ok := number(v); return ok }),
		"string":    is(func(_ *run, v Value) bool { _, ok := v.(origin.Text); return ok }),
		"mapping":   is(func(_ *run, v Value) bool { _, ok := v.(*Dict); return ok }),
		"sequence": is(func(_ *run, v Value) bool {
			switch v.(type) {
			case origin.Text, *List, *Dict, *Undefined:
				return true
			}
			return false
		}),
		"iterable": is(func(_ *run, v Value) bool {
			switch v.(type) {
			case origin.Text, *List, *Dict, *Undefined, *iter:
				return true
			}
			return false
		}),
		"callable": is(func(_ *run, v Value) bool {
			switch v.(type) {
			case *function, *Undefined:
				return true
			}
			return false
		}),
		"lower": unchanged(lower),
		"upper": unchanged(upper),
		"odd":   is(odd),
		"even":  is(func(r *run, v Value) bool { return !odd(r, v) }),
		"in":    {params: []string{"seq"}, need: 1, fn: func(r *run, v Value, o opts) Value { return r.contains(o[0], v) }},
		"==":    than("=="), "eq": than("=="), "equalto": than("=="),
		"!=": than("!="), "ne": than("!="),
		"<": than("<"), "lt": than("<"), "lessthan": than("<"),
		"<=": than("<="), "le": than("<="),
		">": than(">"), "gt": than(">"), "greaterthan": than(">"),
		">=": than(">="), "ge": than(">="),
	}
}
