package gotmpl

import (
	"encoding/json"
	"fmt"
	"net/url"
	"reflect"
	"strings"
	"text/template"
	"text/template/parse"
	"time"

	"github.com/ollama/ollama/api"

	"github.com/axle-llm/axle/tokenizer/origin"
)

// funcs are text/template's functions and Ollama's. and and or stop where they can; see [run.function].
var funcs map[string]func(r *run, args []any) any

func init() {
	compare := func(ok func(r *run, x, y any) bool) func(r *run, args []any) any {
		return func(r *run, args []any) any {
			r.need(args, 2, 2)
			return ok(r, args[0], args[1])
		}
	}
	escape := func(f func(string) string) func(r *run, args []any) any {
		return func(r *run, args []any) any {
			t := r.sprint(args)
			r.Grow(6 * t.Len()) // the most that any of them makes of a byte
			return t.Map(f)
		}
	}
	funcs = map[string]func(r *run, args []any) any{
		"and": nil, "or": nil,
		"not": func(r *run, args []any) any { r.need(args, 1, 1); return !truth(args[0]) },
		"eq": func(r *run, args []any) any {
			r.need(args, 2, 1<<20)
			for _, y := range args[1:] {
				if r.equal(args[0], y) {
					return true
				}
			}
			return false
		},
		"ne":  compare(func(r *run, x, y any) bool { return !r.equal(x, y) }),
		"lt":  compare(func(r *run, x, y any) bool { return r.less(x, y) }),
		"le":  compare(func(r *run, x, y any) bool { return r.less(x, y) || r.equal(x, y) }),
		"gt":  compare(func(r *run, x, y any) bool { return !r.less(x, y) && !r.equal(x, y) }),
		"ge":  compare(func(r *run, x, y any) bool { return !r.less(x, y) }),
		"len": func(r *run, args []any) any { r.need(args, 1, 1); return r.length(args[0]) },
		"index": func(r *run, args []any) any {
			r.need(args, 1, 1<<20)
			v := args[0]
			for _, k := range args[1:] {
				v = r.index(v, k)
			}
			return v
		},
		"slice":    (*run).slice,
		"print":    func(r *run, args []any) any { return r.sprint(args) },
		"println":  func(r *run, args []any) any { return r.sprintln(args) },
		"printf":   func(r *run, args []any) any { r.need(args, 1, 1<<20); return r.sprintf(args[0], args[1:]) },
		"html":     escape(template.HTMLEscapeString),
		"js":       escape(template.JSEscapeString),
		"urlquery": escape(url.QueryEscape),
		"json": func(r *run, args []any) any {
			r.need(args, 1, 1)
			r.Grow(6 * r.weigh(reflect.ValueOf(plain(args[0])), 0))
			b, _ := json.Marshal(plain(args[0]))
			return origin.Given(string(b))
		},
		"currentDate":   func(*run, []any) any { return origin.Own(time.Now().Format(time.DateOnly)) },
		"yesterdayDate": func(*run, []any) any { return origin.Own(time.Now().AddDate(0, 0, -1).Format(time.DateOnly)) },
		"toTypeScriptType": func(r *run, args []any) any {
			r.need(args, 1, 1)
			r.Grow(2 * r.weigh(reflect.ValueOf(args[0]), 0))
			switch v := args[0].(type) {
			case api.ToolProperty:
				return origin.Given(v.ToTypeScriptType())
			case *api.ToolProperty:
				if v != nil {
					return origin.Given(v.ToTypeScriptType())
				}
			}
			return origin.Own("any")
		},
	}
}

func (r *run) need(args []any, least, most int) {
	if len(args) < least || len(args) > most {
		r.failf("wrong number of args: %d", len(args))
	}
}

// function calls one with its arguments; what comes through a pipe is the last of them.
func (r *run) function(name string, nodes []parse.Node, dot, last any, piped bool) any {
	if name == "and" || name == "or" {
		var v any
		for i, n := range nodes {
			if v = r.operand(n, dot); truth(v) == (name == "or") || i == len(nodes)-1 && !piped {
				return v
			}
		}
		if !piped {
			r.failf("wrong number of args for %s: 0", name)
		}
		return last
	}
	args := make([]any, 0, len(nodes)+1)
	for _, n := range nodes {
		args = append(args, r.operand(n, dot))
	}
	if piped {
		args = append(args, last)
	}
	return funcs[name](r, args)
}

// basic sorts values into those that compare with each other.
func basic(v any) (kind string, x reflect.Value) {
	if _, ok := v.(origin.Text); ok {
		return "string", reflect.Value{}
	}
	x = reflect.ValueOf(v)
	switch {
	case x.Kind() == reflect.String:
		return "string", x
	case x.Kind() == reflect.Bool:
		return "bool", x
	case x.CanInt():
		return "int", x
	case x.CanUint():
		return "uint", x
	case x.CanFloat():
		return "float", x
	}
	return "", x
}

func (r *run) equal(x, y any) bool {
	xk, xv := basic(x)
	yk, yv := basic(y)
	r.Step(1)
	switch {
	case xk == "string" && yk == "string":
		a, b := text(x), text(y)
		if len(a) != len(b) {
			return false
		}
		r.Step(len(a) / 64)
		return a == b
	case xk == "int" && yk == "uint":
		return xv.Int() >= 0 && uint64(xv.Int()) == yv.Uint()
	case xk == "uint" && yk == "int":
		return yv.Int() >= 0 && uint64(yv.Int()) == xv.Uint()
	case x == nil || y == nil:
		return x == nil && y == nil
	case xk != yk:
		r.failf("incompatible types for comparison")
	case xk == "" && !(xv.Comparable() && yv.Comparable()):
		r.failf("non-comparable types %T, %T", x, y)
	case xk == "bool":
		return xv.Bool() == yv.Bool()
	case xk == "int":
		return xv.Int() == yv.Int()
	case xk == "uint":
		return xv.Uint() == yv.Uint()
	case xk == "float":
		return xv.Float() == yv.Float()
	}
	return x == y
}

func (r *run) less(x, y any) bool {
	xk, xv := basic(x)
	yk, yv := basic(y)
	r.Step(1)
	switch {
	case xk == "int" && yk == "uint":
		return xv.Int() < 0 || uint64(xv.Int()) < yv.Uint()
	case xk == "uint" && yk == "int":
		return yv.Int() >= 0 && xv.Uint() < uint64(yv.Int())
	case xk != yk || xk == "" || xk == "bool":
		r.failf("incompatible types for comparison")
	case xk == "string":
		r.Step(min(len(text(x)), len(text(y))) / 64)
		return text(x) < text(y)
	case xk == "int":
		return xv.Int() < yv.Int()
	case xk == "uint":
		return xv.Uint() < yv.Uint()
	}
	return xv.Float() < yv.Float()
}

func text(v any) string {
	if t, ok := v.(origin.Text); ok {
		return t.String()
	}
	return reflect.ValueOf(v).String()
}

func (r *run) length(v any) int {
	if t, ok := v.(origin.Text); ok {
		return t.Len()
	}
	x := indirect(reflect.ValueOf(v))
	switch x.Kind() {
	case reflect.String, reflect.Slice, reflect.Array, reflect.Map:
		return x.Len()
	}
	r.failf("len of type %s", kindOf(v))
	return 0
}

func (r *run) index(v, key any) any {
	r.Step(1)
	x := indirect(reflect.ValueOf(v))
	t, isText := v.(origin.Text)
	switch {
	case isText || x.Kind() == reflect.Slice || x.Kind() == reflect.Array:
		i, ok := key.(int)
		if !ok {
			r.failf("cannot index with %s", kindOf(key))
		}
		if i < 0 || i >= r.length(v) {
			r.failf("index out of range: %d", i)
		}
		if isText {
			return t.String()[i]
		}
		return value(x.Index(i))
	case x.Kind() == reflect.Map:
		k := reflect.ValueOf(plain(key))
		if !k.IsValid() || !k.CanConvert(x.Type().Key()) || k.Kind() != x.Type().Key().Kind() {
			r.failf("value has type %s; should be %s", kindOf(key), x.Type().Key())
		}
		f := x.MapIndex(k.Convert(x.Type().Key()))
		if !f.IsValid() {
			f = reflect.Zero(x.Type().Elem())
		}
		return value(f)
	}
	r.failf("can't index item of type %s", kindOf(v))
	return nil
}

func (r *run) slice(args []any) any {
	r.need(args, 1, 4)
	at := [2]int{0, r.length(args[0])}
	for i, k := range args[1:min(len(args), 3)] {
		n, ok := k.(int)
		if !ok || n < 0 || n > r.length(args[0]) {
			r.failf("index out of range: %v", plain(k))
		}
		at[i] = n
	}
	if at[0] > at[1] {
		r.failf("invalid slice index: %d > %d", at[0], at[1])
	}
	if t, ok := args[0].(origin.Text); ok {
		return t.Slice(at[0], at[1])
	}
	x := indirect(reflect.ValueOf(args[0]))
	if x.Kind() != reflect.Slice {
		r.failf("can't slice item of type %s", kindOf(args[0]))
	}
	return x.Slice(at[0], at[1]).Interface()
}

// plain is a value as Go's own functions want it.
func plain(v any) any {
	if t, ok := v.(origin.Text); ok {
		return t.String()
	}
	return v
}

// str is what an action prints of a value.
func (r *run) str(v any) origin.Text {
	switch v := v.(type) {
	case origin.Text:
		return v
	case nil:
		return origin.Own("<no value>")
	}
	x := reflect.ValueOf(v)
	if x.Kind() == reflect.Pointer && !x.IsNil() && !x.Type().Implements(stringer) {
		v = x.Elem().Interface()
	}
	r.Grow(8 * r.weigh(x, 0)) // what prints itself prints JSON, which makes six bytes of one
	return origin.Given(fmt.Sprint(v))
}

// weigh is about how many bytes a value prints as, its names included.
func (r *run) weigh(v reflect.Value, depth int) int {
	r.Step(1)
	if depth > origin.MaxDepth {
		r.End(fmt.Errorf("%w: a value is nested more than %d deep", origin.ErrBudget, origin.MaxDepth))
	}
	v = indirect(v)
	sum := 8
	switch v.Kind() {
	case reflect.String:
		return sum + v.Len()
	case reflect.Slice, reflect.Array:
		if v.Kind() == reflect.Slice && v.Type().Elem().Kind() == reflect.Uint8 {
			return sum + 4*v.Len()
		}
		for i := range v.Len() {
			sum += r.weigh(v.Index(i), depth+1)
		}
	case reflect.Map:
		for it := v.MapRange(); it.Next(); {
			sum += r.weigh(it.Key(), depth+1) + r.weigh(it.Value(), depth+1)
		}
	case reflect.Struct:
		if t, ok := v.Interface().(origin.Text); ok {
			return sum + t.Len()
		}
		for i := range v.NumField() {
			if f := v.Type().Field(i); f.IsExported() {
				sum += len(f.Name) + r.weigh(v.Field(i), depth+1)
			}
		}
		if m, ok := v.Interface().(interface{ ToMap() map[string]any }); ok {
			sum += r.weigh(reflect.ValueOf(m.ToMap()), depth+1)
		} else if m, ok := v.Interface().(interface {
			ToMap() map[string]api.ToolProperty
		}); ok {
			sum += r.weigh(reflect.ValueOf(m.ToMap()), depth+1)
		}
	}
	return sum
}

// sprint is fmt.Sprint: a space goes between two operands that are no strings.
func (r *run) sprint(args []any) origin.Text {
	texts := make([]origin.Text, 0, 2*len(args))
	sum := 0
	for i, a := range args {
		if i > 0 && !isString(a) && !isString(args[i-1]) {
			texts = append(texts, origin.Own(" "))
			sum++
		}
		t := r.shown(a)
		sum += t.Len() + 4*t.Cuts()
		r.Fits(sum)
		texts = append(texts, t)
	}
	r.Grow(sum)
	return origin.Join(texts, origin.Text{})
}

func (r *run) sprintln(args []any) origin.Text {
	var with []any
	for i, a := range args {
		if i > 0 {
			with = append(with, origin.Own(" "))
		}
		with = append(with, r.shown(a))
	}
	return r.sprint(append(with, origin.Own("\n")))
}

// shown is what fmt.Sprint makes of a value.
func (r *run) shown(v any) origin.Text {
	if v == nil {
		return origin.Own("<nil>")
	}
	return r.str(v)
}

func isString(v any) bool {
	kind, _ := basic(v)
	return kind == "string"
}

// sprintf is fmt.Sprintf. Where the format has no more than simple verbs, each byte keeps its origin.
func (r *run) sprintf(format any, args []any) origin.Text {
	f, ok := format.(origin.Text)
	if !ok {
		r.failf("wrong type for the format of printf: %s", kindOf(format))
	}
	str := f.String()
	var texts []origin.Text
	used, from := 0, 0
	for i := 0; i < len(str); i++ {
		if str[i] != '%' {
			continue
		}
		texts = append(texts, f.Slice(from, i))
		i++
		switch {
		case i < len(str) && str[i] == '%':
			texts = append(texts, f.Slice(i, i+1))
		case i < len(str) && used < len(args) && (str[i] == 's' && isString(args[used]) || str[i] == 'v' || str[i] == 'd' &&
			isInt(args[used])):
			texts = append(texts, r.shown(args[used]))
			used++
		default:
			return r.anyFormat(str, args)
		}
		from = i + 1
	}
	if used < len(args) {
		return r.anyFormat(str, args)
	}
	with := make([]any, 0, len(texts)+1)
	for _, t := range append(texts, f.Slice(min(from, len(str)), len(str))) {
		with = append(with, t)
	}
	return r.sprint(with)
}

func isInt(v any) bool {
	kind, _ := basic(v)
	return kind == "int"
}

// anyFormat refuses a format that could print too much, by its widths or by naming a long argument again and again, and else leaves it to
// fmt.
func (r *run) anyFormat(format string, args []any) origin.Text {
	widest, sum := 0, len(format)
	list := make([]any, len(args))
	for i, a := range args {
		list[i] = plain(a)
		n := r.weigh(reflect.ValueOf(list[i]), 0)
		widest, sum = max(widest, n), sum+n+64 // an argument without a verb is printed too, with its type
	}
	for i := 0; i < len(format); i++ {
		if format[i] != '%' {
			continue
		}
		width := 0
		for i++; i < len(format) && strings.IndexByte("+-# 0123456789.*[]", format[i]) >= 0; i++ {
			switch c := format[i]; {
			case c == '*':
				width += 1_000_000 // the most that fmt takes
			case c >= '0' && c <= '9':
				n := 0
				for ; i < len(format) && format[i] >= '0' && format[i] <= '9'; i++ {
					n = min(10*n+int(format[i]-'0'), 1_000_000)
				}
				i--
				width += n
			}
		}
		if sum += width + 12*(widest+64); sum > origin.MaxText { // %+q and %# x write more than they are given
			break
		}
	}
	r.Grow(sum)
	return origin.Given(fmt.Sprintf(format, list...))
}
