package jinja

import (
	"fmt"
	"slices"

	_ "github.com/axle-llm/axle/internal/plain" // says which machines this cannot be built for
	"github.com/axle-llm/axle/tokenizer/origin"
)

// builtin is a filter, a test or a method. Its parameters are named as Python names them; those
// after need may be left out.
type builtin struct {
	params   []string
	need     int
	variadic bool // any arguments: fn gets them in a *args, alone
	fn       func(r *run, v Value, o opts) Value
}

// opts are a call's arguments in the order of the parameters; absent where one was left out.
type opts []Value

type absent struct{}

func (o opts) has(i int) bool {
	_, no := o[i].(absent)
	return !no
}

// or is argument i, or v.
func (o opts) or(i int, v Value) Value {
	if o.has(i) {
		return o[i]
	}
	return v
}

// flag is the truth of argument i, which need not be there.
func (o opts) flag(i int) bool { return truth(o.or(i, false)) }

// args are all arguments of a builtin that is variadic.
func (o opts) args() *args { return o[0].(*args) }

func (f *builtin) bind(r *run, name string, a *args) opts {
	if f.variadic {
		return opts{a}
	}
	if len(a.pos) > len(f.params) {
		r.failf("%s takes not more than %d arguments", name, len(f.params))
	}
	if len(f.params) == 0 && len(a.names) == 0 {
		return nil
	}
	o := make(opts, len(f.params))
	for i := range o {
		o[i] = absent{}
	}
	copy(o, a.pos)
	for i, n := range a.names {
		k := slices.Index(f.params, n)
		if k < 0 || o.has(k) {
			r.failf("%s takes no argument %q, or has it already", name, n)
		}
		o[k] = a.named[i]
	}
	for i := range f.need {
		if !o.has(i) {
			r.failf("%s needs the argument %q", name, f.params[i])
		}
	}
	return o
}

// text, whole and the like read an argument of one type.
func (r *run) text(v Value, who string) origin.Text {
	t, ok := v.(origin.Text)
	if !ok {
		r.failf("%s needs a string, not %s", who, typeName(v))
	}
	return t
}

func (r *run) whole(v Value, who string) int {
	n, ok := whole(v)
	if !ok {
		r.failf("%s needs a whole number, not %s", who, typeName(v))
	}
	return n
}

// of is the builtin as a method of v, or, where v is nil, as a function.
func (f *builtin) of(v Value, name string) *function {
	return &function{func(r *run, a *args) Value { return f.fn(r, v, f.bind(r, name, a)) }}
}

func (r *run) dict(v Value, who string) *Dict {
	d, ok := v.(*Dict)
	if !ok {
		r.failf("%s needs a dict, not %s", who, typeName(v))
	}
	return d
}

// globals are the functions every template sees. A variable of the same name hides one.
var globals = map[string]*function{}

func init() {
	for name, f := range map[string]*builtin{
		"namespace": {variadic: true, fn: func(r *run, _ Value, o opts) Value { return &Namespace{newDict(r, o.args())} }},
		"dict":      {variadic: true, fn: func(r *run, _ Value, o opts) Value { return newDict(r, o.args()) }},
		"range":     {variadic: true, fn: func(r *run, _ Value, o opts) Value { return newRange(r, o.args()) }},
		"raise_exception": {params: []string{"message"}, need: 1, fn: func(r *run, _ Value, o opts) Value {
			r.End(&Raised{r.str(o[0]).String()})
			return nil
		}},
		"strftime_now": {params: []string{"format"}, need: 1, fn: func(r *run, _ Value, o opts) Value {
			format := r.text(o[0], "strftime_now")
			r.Grow(16 * format.Len())
			return format.Map(r.strftime)
		}},
	} {
		globals[name] = f.of(nil, name)
	}
	for _, name := range []string{"cycler", "joiner", "lipsum"} {
		globals[name] = &function{func(r *run, _ *args) Value { r.failf("%s is not supported", name); return nil }}
	}
}

func newDict(r *run, a *args) *Dict {
	d := &Dict{}
	if len(a.pos) > 0 {
		r.failf("a dict of another value is not supported")
	}
	for i, n := range a.names {
		r.Grow(2 * itemBytes)
		d.Set(n, a.named[i])
	}
	return d
}

// maxRange is jinja2's own limit in a sandbox.
const maxRange = 100_000

// errRange is a range beyond all need.
var errRange = fmt.Errorf("%w: it counts further than %d", origin.ErrBudget, maxRange)

// newRange is a list of numbers, which stands for Python's range.
func newRange(r *run, a *args) Value {
	if len(a.pos) < 1 || len(a.pos) > 3 || len(a.names) > 0 {
		r.failf("range needs one to three whole numbers")
	}
	n := make([]int, len(a.pos))
	for i, v := range a.pos {
		n[i] = r.whole(v, "range")
		if n[i] > 1<<40 || n[i] < -1<<40 {
			r.End(errRange)
		}
	}
	start, stop, step := 0, n[0], 1
	if len(n) > 1 {
		start, stop = n[0], n[1]
	}
	if len(n) > 2 {
		step = n[2]
	}
	count := 0
	switch {
	case step == 0:
		r.failf("range with step 0")
	case step > 0:
		count = (stop - start + step - 1) / step
	default:
		count = (stop - start + step + 1) / step
	}
	if count > maxRange {
		r.End(errRange)
	}
	out := r.list(max(count, 0))
	for i := range max(count, 0) {
		out = append(out, start+i*step)
	}
	return newList(out)
}
