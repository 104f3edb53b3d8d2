package gotmpl

import (
	"cmp"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"text/template/parse"
	"time"

	"github.com/axle-llm/axle/tokenizer/origin"
)

// function is one of text/template's functions, or of Ollama's.
type function struct {
	least, most int // how many arguments it takes
	call        func(r *run, args []any) any
}

const many = 1 << 20

// funcs are all functions; [run.function] has and and or, which stop where they can.
var funcs map[string]function

func init() {
	funcs = map[string]function{
		"and": {}, "or": {},
		"not": {1, 1, func(_ *run, args []any) any { return !truth(args[0]) }},
		"eq": {2, many, func(r *run, args []any) any {
			return slices.ContainsFunc(args[1:], func(y any) bool { return r.equal(args[0], y) })
		}},
		"ne":     {2, 2, func(r *run, args []any) any { return !r.equal(args[0], args[1]) }},
		"lt":     {2, 2, func(r *run, args []any) any { return r.order(args[0], args[1]) < 0 }},
		"le":     {2, 2, func(r *run, args []any) any { return r.order(args[0], args[1]) <= 0 }},
		"gt":     {2, 2, func(r *run, args []any) any { return r.order(args[0], args[1]) > 0 }},
		"ge":     {2, 2, func(r *run, args []any) any { return r.order(args[0], args[1]) >= 0 }},
		"len":    {1, 1, func(r *run, args []any) any { return r.length(args[0]) }},
		"index":  {1, many, (*run).index},
		"slice":  {1, 4, (*run).slice},
		"print":  {0, many, func(r *run, args []any) any { return r.sprint(args) }},
		"printf": {1, many, func(r *run, args []any) any { return r.sprintf(args[0], args[1:]) }},
		"json": {1, 1, func(r *run, args []any) any {
			//rule:T7 ./tokenizer/chat TestEscapes drop
			r.Grow(6 * r.weigh(reflect.ValueOf(plain(args[0])), 0)) // JSON makes six bytes of one
			b, _ := json.Marshal(plain(args[0]))
			return origin.Given(string(b))
		}},
		"currentDate":   {0, many, func(*run, []any) any { return origin.Own(time.Now().Format(time.DateOnly)) }},
		"yesterdayDate": {0, many, func(*run, []any) any { return origin.Own(time.Now().AddDate(0, 0, -1).Format(time.DateOnly)) }},
		"toTypeScriptType": {1, 1, func(r *run, args []any) any {
			r.Grow(2 * r.weigh(reflect.ValueOf(args[0]), 0))
			switch v := args[0].(type) {
			case Property:
				return origin.Given(v.typeScript())
			case *Property:
				if v != nil {
					return origin.Given(v.typeScript())
				}
			}
			return origin.Own("any")
		}},
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
	f := funcs[name]
	if len(args) < f.least || len(args) > f.most {
		r.failf("wrong number of args for %s: %d", name, len(args))
	}
	return f.call(r, args)
}

// basic sorts values into those that compare with each other; "" is what has no order.
func basic(v any) (kind string, x reflect.Value) {
	x = reflect.ValueOf(plain(v))
	switch {
	case x.Kind() == reflect.String:
		return "string", x
	case x.Kind() == reflect.Bool:
		return "bool", x
	case x.CanInt():
		return "int", x
	case x.CanFloat():
		return "float", x
	}
	return "", x
}

func isBasic(v any, kind string) bool {
	k, _ := basic(v)
	return k == kind
}

// order compares strings, or numbers of one kind.
func (r *run) order(x, y any) int {
	xk, xv := basic(x)
	yk, yv := basic(y)
	r.Step(1)
	switch xk + " " + yk {
	case "string string":
		r.Step(min(xv.Len(), yv.Len()) / 64)
		return cmp.Compare(xv.String(), yv.String())
	case "int int":
		return cmp.Compare(xv.Int(), yv.Int())
	case "float float":
		return cmp.Compare(xv.Float(), yv.Float())
	}
	r.failf("incompatible types for comparison")
	return 0
}

func (r *run) equal(x, y any) bool {
	xk, xv := basic(x)
	yk, yv := basic(y)
	r.Step(1)
	isNil := func(v reflect.Value) bool {
		return !v.IsValid() || (v.Kind() == reflect.Pointer || v.Kind() == reflect.Map || v.Kind() == reflect.Slice) && v.IsNil()
	}
	switch {
	case xk == "bool" && yk == "bool":
		return xv.Bool() == yv.Bool()
	case xk != "" && yk != "":
		return r.order(x, y) == 0
	case x == nil || y == nil:
		return isNil(xv) && isNil(yv)
	case xk != yk || xv.Kind() != yv.Kind():
		r.failf("incompatible types for comparison")
	case isNil(xv) || isNil(yv):
		return isNil(xv) && isNil(yv)
	case !xv.Comparable() || !yv.Comparable():
		r.failf("non-comparable types %T, %T", x, y)
	}
	return x == y
}

func (r *run) length(v any) int {
	if t, ok := v.(origin.Text); ok {
		return t.Len()
	}
	x := indirect(reflect.ValueOf(v))
	switch x.Kind() {
	case reflect.String, reflect.Slice, reflect.Map:
		return x.Len()
	}
	r.failf("len of type %s", kindOf(v))
	return 0
}

func (r *run) index(args []any) any {
	v := args[0]
	if v == nil {
		r.failf("index of untyped nil")
	}
	for _, key := range args[1:] {
		v = r.item(v, key)
	}
	return v
}

func (r *run) item(v, key any) any {
	r.Step(1)
	x := indirect(reflect.ValueOf(v))
	t, isText := v.(origin.Text)
	switch {
	case isText || x.Kind() == reflect.Slice:
		i, ok := key.(int)
		if !ok {
			r.failf("cannot index with %s", kindOf(key))
		}
		if i < 0 || i >= r.length(v) {
			r.failf("index out of range: %d", i)
		}
		if isText {
			return int(t.String()[i])
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

// printable is what an action prints in a value's place: what a pointer points to, and something
// for nothing.
func printable(v any) any {
	x := reflect.ValueOf(v)
	if v == nil {
		return origin.Own("<no value>")
	} else if x.Kind() == reflect.Pointer && !x.IsNil() && !x.Type().Implements(stringer) {
		return x.Elem().Interface()
	}
	return v
}

// sprint1 is fmt.Sprint of one value.
func (r *run) sprint1(v any) origin.Text {
	switch v := v.(type) {
	case origin.Text:
		return v
	case nil:
		return origin.Own("<nil>")
	}
	r.Grow(8 * r.weigh(reflect.ValueOf(v), 0)) // what prints itself prints JSON, which makes six bytes of one
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
	case reflect.Slice:
		if v.Type().Elem().Kind() == reflect.Uint8 {
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
		if p, ok := v.Interface().(Properties); ok {
			sum += r.weigh(reflect.ValueOf(p.by), depth+1)
		}
	}
	return sum
}

// sprint is fmt.Sprint: a space goes between two operands that are no strings.
func (r *run) sprint(args []any) origin.Text {
	texts := make([]origin.Text, 0, 2*len(args))
	sum := 0
	for i, a := range args {
		if i > 0 && !isBasic(a, "string") && !isBasic(args[i-1], "string") {
			texts = append(texts, origin.Own(" "))
			sum++
		}
		t := r.sprint1(a)
		sum += t.Len() + 4*t.Cuts()
		r.Fits(sum)
		texts = append(texts, t)
	}
	r.Grow(sum)
	return origin.Join(texts, origin.Text{})
}

// sprintf is fmt.Sprintf with the verbs %v, %s of a string and %d of a whole number. Each byte
// keeps its origin.
func (r *run) sprintf(format any, args []any) origin.Text {
	f, ok := format.(origin.Text)
	if !ok {
		r.failf("wrong type for the format of printf: %s", kindOf(format))
	}
	str := f.String()
	var parts []any
	from := 0
	for i := strings.IndexByte(str, '%'); i >= 0; i = strings.IndexByte(str[from:], '%') {
		r.Grow(64) // for the parts
		i += from
		verb := str[i:min(i+2, len(str))]
		parts = append(parts, f.Slice(from, i))
		from = i + len(verb)
		switch {
		case verb == "%%":
			parts = append(parts, f.Slice(i, i+1))
			continue
		case len(args) == 0:
			r.failf("printf has no argument for %q", verb)
		case verb == "%v", verb == "%s" && isBasic(args[0], "string"), verb == "%d" && isBasic(args[0], "int"):
			parts = append(parts, r.sprint1(args[0]))
			args = args[1:]
			continue
		}
		r.failf("printf with %q for %s is not supported", verb, kindOf(args[0]))
	}
	if len(args) > 0 {
		r.failf("printf has %d arguments too many", len(args))
	}
	return r.sprint(append(parts, f.Slice(from, len(str))))
}
