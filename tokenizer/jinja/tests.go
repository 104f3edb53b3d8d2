package jinja

import (
	"github.com/axle-llm/axle/tokenizer/origin"
)

// tests are what may stand behind is.
var tests map[string]*builtin

func init() {
	is := func(f func(r *run, v Value) bool) *builtin {
		return &builtin{fn: func(r *run, v Value, _ opts) Value { return f(r, v) }}
	}
	than := func(op string) *builtin {
		return &builtin{params: []string{"other"}, need: 1, fn: func(r *run, v Value, o opts) Value { return r.compare(op, v, o[0]) }}
	}
	mod := func(r *run, v, by Value) int {
		m, ok := r.math("%", v, by)
		if !ok {
			r.failf("%s is no number", typeName(v))
		}
		n, f, isFloat, _ := number(m)
		if isFloat && f != float64(int(f)) {
			return -1
		} else if isFloat {
			return int(f)
		}
		return n
	}
	tests = map[string]*builtin{
		"defined":   is(func(_ *run, v Value) bool { _, u := v.(*Undefined); return !u }),
		"undefined": is(func(_ *run, v Value) bool { _, u := v.(*Undefined); return u }),
		"none":      is(func(_ *run, v Value) bool { return v == nil }),
		"boolean":   is(func(_ *run, v Value) bool { _, ok := v.(bool); return ok }),
		"true":      is(func(_ *run, v Value) bool { b, ok := v.(bool); return ok && b }),
		"false":     is(func(_ *run, v Value) bool { b, ok := v.(bool); return ok && !b }),
		"integer":   is(func(_ *run, v Value) bool { _, ok := v.(int); return ok }),
		"float":     is(func(_ *run, v Value) bool { _, ok := v.(float64); return ok }),
		"number":    is(func(_ *run, v Value) bool { _, _, _, ok := number(v); return ok }),
		"string":    is(func(_ *run, v Value) bool { _, ok := v.(origin.Text); return ok }),
		"mapping":   is(func(_ *run, v Value) bool { _, ok := v.(*Dict); return ok }),
		"sequence": is(func(_ *run, v Value) bool {
			switch v.(type) {
			case origin.Text, *List, *Dict, *Range, *Undefined:
				return true
			}
			return false
		}),
		"iterable": is(func(_ *run, v Value) bool {
			switch v.(type) {
			case origin.Text, *List, *Dict, *Range, *Undefined, *view, *iter, *loopState:
				return true
			}
			return false
		}),
		"callable": is(func(_ *run, v Value) bool {
			switch v.(type) {
			case *function, *loopState, *Undefined:
				return true
			}
			return false
		}),
		"lower":       ofStr("islower"),
		"upper":       ofStr("isupper"),
		"odd":         is(func(r *run, v Value) bool { return mod(r, v, 2) == 1 }),
		"even":        is(func(r *run, v Value) bool { return mod(r, v, 2) == 0 }),
		"escaped":     is(func(*run, Value) bool { return false }),
		"divisibleby": {params: []string{"num"}, need: 1, fn: func(r *run, v Value, o opts) Value { return mod(r, v, o[0]) == 0 }},
		"in":          {params: []string{"seq"}, need: 1, fn: func(r *run, v Value, o opts) Value { return r.contains(o[0], v) }},
		"sameas": {params: []string{"other"}, need: 1, fn: func(_ *run, v Value, o opts) Value {
			if t, ok := v.(origin.Text); ok {
				other, ok := o[0].(origin.Text)
				return ok && t.String() == other.String()
			}
			return typeName(v) == typeName(o[0]) && v == o[0]
		}},
		"filter": is(func(r *run, v Value) bool { return filters[r.name(v)] != nil }),
		"test":   is(func(r *run, v Value) bool { return tests[r.name(v)] != nil }),
		"==":     than("=="), "eq": than("=="), "equalto": than("=="),
		"!=": than("!="), "ne": than("!="),
		"<": than("<"), "lt": than("<"), "lessthan": than("<"),
		"<=": than("<="), "le": than("<="),
		">": than(">"), "gt": than(">"), "greaterthan": than(">"),
		">=": than(">="), "ge": than(">="),
	}
}

// name is the name that v is; "" for what is none and could be the key of a dict, as Python looks
// for one.
func (r *run) name(v Value) string {
	if t, ok := r.hashed(v).(origin.Text); ok {
		return t.String()
	}
	return ""
}
