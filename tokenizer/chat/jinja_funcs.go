package chat

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/ardanlabs/jinja"
)

type tmplFunc = func(args []jinja.Value, kw map[string]jinja.Value) (jinja.Value, error)

// tmplFuncs returns what ours stands in for in one render.
func tmplFuncs(b *tmplBudget, now time.Time) map[string]jinja.Value {
	out := make(map[string]jinja.Value)
	def := func(name string, f tmplFunc) {
		out[name] = jinja.NewCallable(name, func(args []jinja.Value, kw map[string]jinja.Value) (jinja.Value, error) {
			if len(args) == 0 && name != "axle_enter" && name != "axle_round" && name != "range" && name != "strftime_now" {
				return jinja.Undefined(), fmt.Errorf("%s needs an argument", strings.TrimPrefix(name, "axle_"))
			}
			return f(args, kw)
		})
	}
	text := func(name string, f func(s string, args []jinja.Value) jinja.Value) {
		def("axle_"+name, func(args []jinja.Value, _ map[string]jinja.Value) (jinja.Value, error) {
			if !args[0].IsString() {
				return jinja.Undefined(), fmt.Errorf("%s is called on %s, which is no string", name, tmplKind(args[0]))
			}
			v := f(args[0].AsString(), args[1:])
			return v, b.made(v)
		})
	}
	same := func(args []jinja.Value, _ map[string]jinja.Value) (jinja.Value, error) { return args[0], nil }

	def("axle_out", func(args []jinja.Value, _ map[string]jinja.Value) (jinja.Value, error) {
		v := jinja.NewString(tmplString(args[0]))
		return v, b.made(v)
	})
	def("axle_keep", func(args []jinja.Value, _ map[string]jinja.Value) (jinja.Value, error) {
		if len(args) > 1 {
			if err := b.holds(args[1], args[0]); err != nil {
				return args[0], err
			}
		}
		if args[0].IsString() {
			return args[0], b.fits(len(args[0].AsString()))
		}
		return args[0], b.made(args[0])
	})
	def("axle_round", func([]jinja.Value, map[string]jinja.Value) (jinja.Value, error) { return jinja.None(), b.late() })
	def("axle_each", func(args []jinja.Value, _ map[string]jinja.Value) (jinja.Value, error) {
		switch v := args[0]; {
		case v.IsList():
			return v, b.step(v.AsList().Len() + 1)
		case v.IsString():
			return v, b.step(len(v.AsString()) + 1)
		case v.IsDict():
			return v, b.step(v.AsDict().Len() + 1)
		}
		return args[0], b.step(1)
	})
	def("axle_enter", func([]jinja.Value, map[string]jinja.Value) (jinja.Value, error) {
		if b.calls++; b.calls > tmplMaxCalls {
			return jinja.None(), fmt.Errorf("%w: more than %d macro calls", ErrBudget, tmplMaxCalls)
		}
		return jinja.None(), nil
	})
	def("range", func(args []jinja.Value, _ map[string]jinja.Value) (jinja.Value, error) {
		start, stop, step := int64(0), int64(0), int64(1)
		n := make([]int64, len(args))
		for i, a := range args {
			if !a.IsInt() {
				return a, fmt.Errorf("range is given %s, which is no whole number", tmplKind(a))
			}
			n[i] = a.AsInt()
		}
		switch len(n) {
		case 1:
			stop = n[0]
		case 2:
			start, stop = n[0], n[1]
		case 3:
			start, stop, step = n[0], n[1], n[2]
		default:
			return jinja.None(), errors.New("range needs one to three arguments")
		}
		if step == 0 {
			return jinja.None(), errors.New("range with step 0")
		}
		var items []jinja.Value
		for i := start; step > 0 && i < stop || step < 0 && i > stop; i += step {
			if len(items)%1024 == 0 {
				if err := b.step(1024); err != nil {
					return jinja.None(), err
				}
			}
			items = append(items, jinja.NewInt(i))
		}
		return jinja.NewList(items), nil
	})
	def("strftime_now", func(args []jinja.Value, _ map[string]jinja.Value) (jinja.Value, error) {
		if len(args) == 0 || !args[0].IsString() {
			return jinja.None(), errors.New("strftime_now needs a format")
		}
		return jinja.NewString(tmplTime(now, args[0].AsString())), nil
	})

	// Filters.
	def("axle_tojson", func(args []jinja.Value, kw map[string]jinja.Value) (jinja.Value, error) {
		indent, item, key := -1, ", ", ": "
		if v, ok := kw["indent"]; ok && v.IsInt() {
			indent = int(v.AsInt())
		}
		if indent > 64 {
			return jinja.None(), errors.New("tojson: the indent is larger than 64")
		}
		if indent >= 0 {
			item = ","
		}
		if v, ok := kw["separators"]; ok && v.IsList() && v.AsList().Len() == 2 {
			item, key = tmplString(v.AsList().Get(0)), tmplString(v.AsList().Get(1))
		}
		sorted := kw["sort_keys"].IsBool() && kw["sort_keys"].AsBool()
		var s strings.Builder
		if err := tmplToJSON(&s, args[0], indent, item, key, sorted, 0); err != nil {
			return jinja.Undefined(), err
		}
		return jinja.NewString(s.String()), b.grow(s.Len())
	})
	def("axle_string", func(args []jinja.Value, _ map[string]jinja.Value) (jinja.Value, error) {
		v := jinja.NewString(tmplString(args[0]))
		return v, b.made(v)
	})
	def("axle_default", func(args []jinja.Value, kw map[string]jinja.Value) (jinja.Value, error) {
		other := jinja.NewString("")
		if len(args) > 1 {
			other = args[1]
		} else if v, ok := kw["default_value"]; ok {
			other = v
		}
		loose := len(args) > 2 && args[2].IsTruthy() || kw["boolean"].IsTruthy()
		if args[0].IsUndefined() || loose && !args[0].IsTruthy() {
			return other, nil
		}
		return args[0], nil
	})
	out["axle_d"] = out["axle_default"]
	def("axle_length", func(args []jinja.Value, _ map[string]jinja.Value) (jinja.Value, error) {
		switch v := args[0]; {
		case v.IsList():
			return jinja.NewInt(int64(v.AsList().Len())), nil
		case v.IsDict():
			return jinja.NewInt(int64(v.AsDict().Len())), nil
		case v.IsString():
			return jinja.NewInt(int64(utf8.RuneCountInString(v.AsString()))), nil
		case v.IsUndefined():
			return jinja.NewInt(0), nil
		}
		return args[0], fmt.Errorf("%s has no length", tmplKind(args[0]))
	})
	out["axle_count"] = out["axle_length"]
	def("axle_trim", func(args []jinja.Value, kw map[string]jinja.Value) (jinja.Value, error) {
		s := tmplString(args[0])
		chars := kw["chars"]
		if len(args) > 1 {
			chars = args[1]
		}
		if chars.IsString() {
			return jinja.NewString(strings.Trim(s, chars.AsString())), nil
		}
		return jinja.NewString(strings.TrimFunc(s, tmplSpace)), nil
	})
	def("axle_upper", func(args []jinja.Value, _ map[string]jinja.Value) (jinja.Value, error) {
		v := jinja.NewString(strings.ToUpper(tmplString(args[0])))
		return v, b.made(v)
	})
	def("axle_lower", func(args []jinja.Value, _ map[string]jinja.Value) (jinja.Value, error) {
		v := jinja.NewString(strings.ToLower(tmplString(args[0])))
		return v, b.made(v)
	})
	def("axle_int", func(args []jinja.Value, kw map[string]jinja.Value) (jinja.Value, error) {
		switch v := args[0]; {
		case v.IsInt():
			return v, nil
		case v.IsFloat():
			return jinja.NewInt(int64(v.AsFloat())), nil
		case v.IsBool():
			if v.AsBool() {
				return jinja.NewInt(1), nil
			}
		case v.IsString():
			if n, err := strconv.ParseInt(strings.TrimSpace(v.AsString()), 10, 64); err == nil {
				return jinja.NewInt(n), nil
			}
			if f, err := strconv.ParseFloat(strings.TrimSpace(v.AsString()), 64); err == nil {
				return jinja.NewInt(int64(f)), nil
			}
		}
		if len(args) > 1 {
			return args[1], nil
		}
		return jinja.NewInt(0), nil
	})
	def("axle_list", func(args []jinja.Value, _ map[string]jinja.Value) (jinja.Value, error) {
		items, err := b.items(args[0])
		if err != nil {
			return args[0], err
		}
		return jinja.NewList(slices.Clone(items)), b.grow(len(items))
	})
	def("axle_first", func(args []jinja.Value, _ map[string]jinja.Value) (jinja.Value, error) {
		items, err := b.items(args[0])
		if len(items) > 0 {
			return items[0], err
		}
		return jinja.Undefined(), err
	})
	def("axle_last", func(args []jinja.Value, _ map[string]jinja.Value) (jinja.Value, error) {
		items, err := b.items(args[0])
		if len(items) > 0 {
			return items[len(items)-1], err
		}
		return jinja.Undefined(), err
	})
	def("axle_map", func(args []jinja.Value, kw map[string]jinja.Value) (jinja.Value, error) {
		var items []jinja.Value
		from, err := b.items(args[0])
		if err != nil {
			return args[0], err
		}
		for _, x := range from {
			if err := b.grow(1); err != nil {
				return jinja.None(), err
			}
			if name, ok := kw["attribute"]; ok {
				v := tmplAttr(x, name)
				if d, ok := kw["default"]; ok && v.IsUndefined() {
					v = d
				}
				items = append(items, v)
				continue
			}
			if len(args) < 2 {
				return jinja.None(), errors.New("map needs a filter or an attribute")
			}
			f, ok := out["axle_"+tmplString(args[1])]
			if !ok {
				return jinja.None(), fmt.Errorf("map: there is no filter %q", tmplString(args[1]))
			}
			v, err := f.AsCallable().Fn(append([]jinja.Value{x}, args[2:]...), kw)
			if err != nil {
				return v, err
			}
			items = append(items, v)
		}
		return jinja.NewList(items), nil
	})
	pick := func(name string, attr, want bool) {
		def("axle_"+name, func(args []jinja.Value, _ map[string]jinja.Value) (jinja.Value, error) {
			rest := args[1:]
			var key jinja.Value
			if attr {
				if len(rest) == 0 {
					return jinja.None(), fmt.Errorf("%s needs an attribute", name)
				}
				key, rest = rest[0], rest[1:]
			}
			cost := 1
			if len(rest) > 1 {
				if err := b.flat(rest[1]); err != nil {
					return jinja.None(), err
				}
				if rest[1].IsList() {
					cost += 8 * rest[1].AsList().Len()
				}
			}
			from, err := b.items(args[0])
			if err != nil {
				return jinja.None(), err
			}
			var items []jinja.Value
			for _, x := range from {
				if err := b.grow(cost); err != nil {
					return jinja.None(), err
				}
				v := x
				if attr {
					v = tmplAttr(x, key)
				}
				ok := v.IsTruthy()
				if len(rest) > 0 {
					var err error
					if ok, err = tmplTest(tmplString(rest[0]), v, rest[1:]); err != nil {
						return jinja.None(), err
					}
				}
				if ok == want {
					items = append(items, x)
				}
			}
			return jinja.NewList(items), nil
		})
	}
	pick("select", false, true)
	pick("reject", false, false)
	pick("selectattr", true, true)
	pick("rejectattr", true, false)

	// Methods of strings. join is a filter too: its separator comes second there.
	def("axle_join", func(args []jinja.Value, kw map[string]jinja.Value) (jinja.Value, error) {
		list, sep := args[0], kw["d"]
		if len(args) > 1 {
			sep = args[1]
			if list.IsString() && !sep.IsString() {
				list, sep = sep, list
			}
		}
		items, err := b.items(list)
		if err != nil {
			return jinja.None(), err
		}
		var parts []string
		sum, between := 0, tmplString(sep)
		for _, x := range items {
			if name, ok := kw["attribute"]; ok {
				x = tmplAttr(x, name)
			}
			s := tmplString(x)
			if sum += len(s) + len(between); sum > tmplMaxOutput {
				return jinja.None(), b.fits(sum)
			}
			parts = append(parts, s)
		}
		v := jinja.NewString(strings.Join(parts, between))
		return v, b.made(v)
	})
	list := func(parts []string) jinja.Value {
		items := make([]jinja.Value, len(parts))
		for i, p := range parts {
			items[i] = jinja.NewString(p)
		}
		return jinja.NewList(items)
	}
	most := func(args []jinja.Value) int {
		if len(args) > 1 && args[1].IsInt() && args[1].AsInt() >= 0 {
			return int(min(args[1].AsInt(), 1<<30)) + 1
		}
		return -1
	}
	// A list of many short strings takes more memory than their text, so it is paid for before it is made.
	splits := func(name string, f func(s, sep string, most int) []string) {
		def("axle_"+name, func(args []jinja.Value, _ map[string]jinja.Value) (jinja.Value, error) {
			if !args[0].IsString() {
				return jinja.Undefined(), fmt.Errorf("%s is called on %s, which is no string", name, tmplKind(args[0]))
			}
			s, args := args[0].AsString(), args[1:]
			if name != "splitlines" && (len(args) == 0 || !args[0].IsString() || args[0].AsString() == "") {
				n := 0
				for range strings.FieldsFuncSeq(s, tmplSpace) {
					n++
				}
				if err := b.grow(n * tmplItemBytes); err != nil {
					return jinja.Undefined(), err
				}
				return list(strings.FieldsFunc(s, tmplSpace)), nil
			}
			sep := "\n"
			if name != "splitlines" {
				sep = args[0].AsString()
			}
			n := strings.Count(s, sep) + 1
			if m := most(args); m > 0 {
				n = min(n, m)
			}
			if err := b.grow(n * tmplItemBytes); err != nil {
				return jinja.Undefined(), err
			}
			return list(f(s, sep, most(args))), nil
		})
	}
	splits("split", func(s, sep string, n int) []string { return strings.SplitN(s, sep, n) })
	splits("rsplit", func(s, sep string, n int) []string {
		if n < 0 {
			return strings.Split(s, sep)
		}
		var parts []string
		for len(parts) < n-1 {
			k := strings.LastIndex(s, sep)
			if k < 0 {
				break
			}
			parts = append(parts, s[k+len(sep):])
			s = s[:k]
		}
		parts = append(parts, s)
		slices.Reverse(parts)
		return parts
	})
	splits("splitlines", func(s, _ string, _ int) []string {
		lines := strings.Split(strings.ReplaceAll(strings.ReplaceAll(s, "\r\n", "\n"), "\r", "\n"), "\n")
		if lines[len(lines)-1] == "" {
			lines = lines[:len(lines)-1]
		}
		return lines
	})
	cut := func(name string, all func(string, string) string, space func(string, func(rune) bool) string) {
		text(name, func(s string, args []jinja.Value) jinja.Value {
			if len(args) > 0 && args[0].IsString() {
				return jinja.NewString(all(s, args[0].AsString()))
			}
			return jinja.NewString(space(s, tmplSpace))
		})
	}
	cut("strip", strings.Trim, strings.TrimFunc)
	cut("lstrip", strings.TrimLeft, strings.TrimLeftFunc)
	cut("rstrip", strings.TrimRight, strings.TrimRightFunc)
	arg := func(args []jinja.Value) string {
		if len(args) == 0 {
			return ""
		}
		return tmplString(args[0])
	}
	any := func(f func(s, x string) bool) func(string, []jinja.Value) jinja.Value {
		return func(s string, args []jinja.Value) jinja.Value {
			if len(args) > 0 && args[0].IsList() {
				for _, x := range args[0].AsList().Items {
					if f(s, tmplString(x)) {
						return jinja.NewBool(true)
					}
				}
				return jinja.NewBool(false)
			}
			return jinja.NewBool(f(s, arg(args)))
		}
	}
	text("startswith", any(strings.HasPrefix))
	text("endswith", any(strings.HasSuffix))
	text("removeprefix", func(s string, args []jinja.Value) jinja.Value {
		return jinja.NewString(strings.TrimPrefix(s, arg(args)))
	})
	text("removesuffix", func(s string, args []jinja.Value) jinja.Value {
		return jinja.NewString(strings.TrimSuffix(s, arg(args)))
	})
	place := func(s string, at int) jinja.Value {
		if at > 0 {
			at = utf8.RuneCountInString(s[:at])
		}
		return jinja.NewInt(int64(at))
	}
	text("rfind", func(s string, args []jinja.Value) jinja.Value { return place(s, strings.LastIndex(s, arg(args))) })
	text("index", func(s string, args []jinja.Value) jinja.Value { return place(s, strings.Index(s, arg(args))) })
	text("isdigit", func(s string, _ []jinja.Value) jinja.Value {
		return jinja.NewBool(s != "" && !strings.ContainsFunc(s, func(r rune) bool { return !unicode.IsDigit(r) }))
	})
	def("axle_format", func(args []jinja.Value, _ map[string]jinja.Value) (jinja.Value, error) {
		s := tmplString(args[0])
		for i, a := range args[1:] {
			name, x := "{"+strconv.Itoa(i)+"}", tmplString(a)
			if err := b.fits(len(s) + (strings.Count(s, name)+1)*len(x)); err != nil {
				return jinja.Undefined(), err
			}
			s = strings.Replace(strings.ReplaceAll(s, name, x), "{}", x, 1)
			if err := b.grow(len(s)); err != nil {
				return jinja.Undefined(), err
			}
		}
		return jinja.NewString(s), nil
	})
	tmplGrow(b, def)
	out["axle_safe"] = jinja.NewCallable("safe", same)
	return out
}

func tmplSpace(r rune) bool { return unicode.IsSpace(r) || r >= 0x1C && r <= 0x1F }

func tmplItems(v jinja.Value) []jinja.Value {
	switch {
	case v.IsList():
		return v.AsList().Items
	case v.IsDict():
		var out []jinja.Value
		for _, k := range v.AsDict().Keys {
			out = append(out, jinja.NewString(k))
		}
		return out
	case v.IsString():
		var out []jinja.Value
		for _, r := range v.AsString() {
			out = append(out, jinja.NewString(string(r)))
		}
		return out
	}
	return nil
}

// tmplAttr looks up a dotted name.
func tmplAttr(v, name jinja.Value) jinja.Value {
	for _, k := range strings.Split(tmplString(name), ".") {
		if !v.IsDict() {
			return jinja.Undefined()
		}
		v, _ = v.AsDict().Get(k)
	}
	return v
}

// tmplTest is the tests select and its kin may name.
func tmplTest(name string, v jinja.Value, args []jinja.Value) (bool, error) {
	var x jinja.Value
	if len(args) > 0 {
		x = args[0]
	}
	switch name {
	case "defined":
		return !v.IsUndefined(), nil
	case "undefined":
		return v.IsUndefined(), nil
	case "none":
		return v.IsNone(), nil
	case "string":
		return v.IsString(), nil
	case "mapping":
		return v.IsDict(), nil
	case "number":
		return v.IsNumber(), nil
	case "true":
		return v.IsBool() && v.AsBool(), nil
	case "false":
		return v.IsBool() && !v.AsBool(), nil
	case "iterable", "sequence":
		return v.IsList() || v.IsDict() || v.IsString(), nil
	case "eq", "equalto", "==":
		return v.Equals(x), nil
	case "ne", "!=":
		return !v.Equals(x), nil
	case "in":
		switch {
		case x.IsString() && v.IsString():
			return strings.Contains(x.AsString(), v.AsString()), nil
		default:
			return slices.ContainsFunc(tmplItems(x), v.Equals), nil
		}
	}
	return false, fmt.Errorf("there is no test %q", name)
}

func tmplSorted(keys []string) []string {
	keys = slices.Clone(keys)
	slices.Sort(keys)
	return keys
}

func tmplKind(v jinja.Value) string {
	switch {
	case v.IsUndefined():
		return "an undefined value"
	case v.IsNone():
		return "none"
	case v.IsBool():
		return "a boolean"
	case v.IsNumber():
		return "a number"
	case v.IsString():
		return "a string"
	case v.IsList():
		return "a list"
	case v.IsDict():
		return "a mapping"
	}
	return "a function"
}
