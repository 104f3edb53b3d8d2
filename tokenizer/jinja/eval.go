package jinja

import (
	"fmt"
	"slices"
	"time"

	"github.com/axle-llm/axle/tokenizer/origin"
)

// Raised is what a template says with raise_exception, for the client that sent the conversation.
type Raised struct{ Message string }

func (e *Raised) Error() string { return e.Message }

// run is one rendering.
type run struct {
	*origin.Run
	scope *scope
	vars  map[string]Value
	now   time.Time
	line  int // of the statement at hand
}

// scope holds what was set in a block. Names are few, so they are looked through one by one.
type scope struct {
	parent *scope
	names  []string
	values []Value
}

func (s *scope) set(name string, v Value) {
	if i := slices.Index(s.names, name); i >= 0 {
		s.values[i] = v
		return
	}
	s.names, s.values = append(s.names, name), append(s.values, v)
}

func (r *run) failf(format string, args ...any) {
	r.End(&Error{r.line, fmt.Sprintf(format, args...)})
}

func (r *run) undefined(u *Undefined) { r.failf("%s is undefined", u.what) }

// Render executes the template with variables of the caller's; the values in vars are not changed.
// now is what strftime_now tells. It fails with a [*Raised], an [*Error], or what the meter fails
// with.
func (t *Template) Render(m *origin.Meter, vars map[string]Value, now time.Time) (origin.Text, error) {
	var out origin.Builder
	if err := origin.Render(m, &out, func(o *origin.Run) {
		r := &run{Run: o, scope: &scope{}, vars: vars, now: now}
		r.all(t.body)
	}); err != nil {
		return origin.Text{}, err
	}
	return out.Text(), nil
}

func (r *run) all(body []stmt) flow {
	for _, s := range body {
		if f := s.exec(r); f != flowNext {
			return f
		}
	}
	return flowNext
}

// capture returns what f prints.
func (r *run) capture(f func() flow) (origin.Text, flow) {
	defer r.Deeper()()
	outer := r.Out
	r.Out = &origin.Builder{}
	how := f()
	text := r.Out.Text()
	r.Out = outer
	return text, how
}

// inner runs f in a scope of its own.
func (r *run) inner(f func() flow) flow {
	outer := r.scope
	r.scope = &scope{parent: outer}
	how := f()
	r.scope = outer
	return how
}

func (r *run) lookup(name string) Value {
	for s := r.scope; s != nil; s = s.parent {
		if i := slices.Index(s.names, name); i >= 0 {
			return s.values[i]
		}
	}
	if v, ok := r.vars[name]; ok {
		return v
	}
	if f, ok := globals[name]; ok {
		return f
	}
	if name == "varargs" || name == "kwargs" {
		r.failf("%s of a macro is not supported", name)
	}
	return &Undefined{"'" + name + "'"}
}

func (r *run) assign(t target, v Value) {
	switch {
	case t.attr != "":
		ns, ok := r.lookup(t.name).(*Namespace)
		if !ok {
			r.failf("cannot assign the attribute %s of an object that is no namespace", t.attr)
		}
		r.Grow(itemBytes)
		ns.attrs.Set(t.attr, v)
	case t.name != "":
		r.scope.set(t.name, v)
	default:
		items := r.items(v)
		if len(items) != len(t.tuple) {
			r.failf("%d values cannot be given to %d names", len(items), len(t.tuple))
		}
		for i, to := range t.tuple {
			r.assign(to, items[i])
		}
	}
}

func (s *dataStmt) exec(r *run) flow {
	r.Print(s.text)
	return flowNext
}

func (s *outputStmt) exec(r *run) flow {
	r.line = s.line
	r.Print(r.str(s.x.eval(r)))
	return flowNext
}

func (s *ifStmt) exec(r *run) flow {
	for i, test := range s.tests {
		if truth(test.eval(r)) {
			return r.all(s.bodies[i])
		}
	}
	return r.all(s.other)
}

func (f flow) exec(*run) flow { return f }

func (s *setStmt) exec(r *run) flow {
	r.line = s.line
	r.assign(s.target, s.x.eval(r))
	return flowNext
}

func (s *captureStmt) exec(r *run) flow {
	r.line = s.line
	text, how := r.capture(func() flow { return r.inner(func() flow { return r.all(s.body) }) })
	if how != flowNext {
		return how
	}
	var v Value = text
	for _, f := range s.filters {
		v = f.apply(r, v)
	}
	if s.target == nil {
		r.Print(r.str(v))
	} else {
		r.assign(*s.target, v)
	}
	return flowNext
}

func (s *scopeStmt) exec(r *run) flow {
	return r.inner(func() flow { return r.all(s.body) })
}

// loopState is the variable loop.
type loopState struct {
	items []Value
	at    int
}

// exec goes through the items. What a body sets is gone in the next round.
func (s *forStmt) exec(r *run) flow {
	r.line = s.line
	items := r.items(s.items.eval(r))
	outer := r.scope
	defer func() { r.scope = outer }()
	sc := &scope{parent: outer}
	if s.test != nil {
		kept := items[:0:0]
		r.scope = sc
		for _, v := range items {
			sc.names, sc.values = sc.names[:0], sc.values[:0]
			if r.assign(s.target, v); truth(s.test.eval(r)) {
				kept = append(kept, v)
				r.Grow(16)
			}
		}
		items = kept
	}
	l := &loopState{items: items}
	r.scope = sc
	done := false
	for l.at = 0; l.at < len(l.items); l.at++ {
		r.Step(1)
		sc.names, sc.values = append(sc.names[:0], "loop"), append(sc.values[:0], l)
		r.assign(s.target, l.items[l.at])
		f := r.all(s.body)
		if f == flowBreak {
			break
		}
		done = done || f == flowNext
	}
	if !done { // jinja2 looks whether any round came to its end
		sc.names, sc.values = sc.names[:0], sc.values[:0]
		return r.all(s.other)
	}
	return flowNext
}

// loopAttrs are what a template sees of loop.
var loopAttrs = map[string]func(l *loopState) Value{
	"index":     func(l *loopState) Value { return l.at + 1 },
	"index0":    func(l *loopState) Value { return l.at },
	"revindex":  func(l *loopState) Value { return len(l.items) - l.at },
	"revindex0": func(l *loopState) Value { return len(l.items) - l.at - 1 },
	"first":     func(l *loopState) Value { return l.at == 0 },
	"last":      func(l *loopState) Value { return l.at == len(l.items)-1 },
	"length":    func(l *loopState) Value { return len(l.items) },
	"previtem":  func(l *loopState) Value { return l.neighbour(l.at-1, "previous") },
	"nextitem":  func(l *loopState) Value { return l.neighbour(l.at+1, "next") },
}

func (l *loopState) neighbour(at int, which string) Value {
	if at < 0 || at >= len(l.items) {
		return &Undefined{"there is no " + which + " item: it"}
	}
	return l.items[at]
}

func (s *macroStmt) exec(r *run) flow {
	r.line = s.line
	r.scope.set(s.name, s.function(r))
	return flowNext
}

// function is the macro as a value. What its body reads is looked up where the macro stands, when
// it is called.
func (s *macroStmt) function(r *run) *function {
	home := r.scope
	return &function{func(r *run, a *args) Value {
		outer, line := r.scope, r.line
		r.scope = &scope{parent: home}
		s.bind(r, a)
		text, _ := r.capture(func() flow { return r.all(s.body) })
		r.scope, r.line = outer, line
		return text
	}}
}

// bind gives a call's arguments to the parameters, as jinja2 does.
func (s *macroStmt) bind(r *run, a *args) {
	r.Step(1)
	given := min(len(a.pos), len(s.params))
	var missing []int
	for i, name := range s.params {
		if i < given {
			r.scope.set(name, a.pos[i])
		} else if v, ok := a.take(name); ok {
			r.scope.set(name, v)
		} else {
			missing = append(missing, i)
		}
	}
	for _, i := range missing { // a default may name the other parameters
		if k := i - (len(s.params) - len(s.defaults)); k >= 0 {
			r.scope.set(s.params[i], s.defaults[k].eval(r))
		} else {
			r.scope.set(s.params[i], &Undefined{"parameter '" + s.params[i] + "'"})
		}
	}
	if !slices.Contains(s.params, "caller") {
		v, ok := a.take("caller")
		if !ok {
			v = &Undefined{"no caller defined: it"}
		}
		r.scope.set("caller", v)
	}
	if len(a.names) > 0 {
		r.failf("macro %s takes no keyword argument %q", s.name, a.names[0])
	}
	if len(a.pos) > given {
		r.failf("macro %s takes not more than %d arguments", s.name, len(s.params))
	}
}

func (s *callStmt) exec(r *run) flow {
	fn := s.call.fn.eval(r)
	a := s.call.args.eval(r)
	a.names, a.named = append(a.names, "caller"), append(a.named, s.block.function(r))
	r.line = s.call.line
	r.Print(r.str(r.call(fn, a)))
	return flowNext
}
