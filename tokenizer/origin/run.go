package origin

// Run is one rendering, as both template languages do it: what it prints, under a meter. Whatever
// the meter refuses, and whatever else ends the rendering early, ends it from wherever it is:
// [Render] returns the error.
type Run struct {
	Out *Builder // what is printed now
	m   *Meter
}

// ended carries an error up to Render.
type ended struct{ err error }

// Render runs f, and returns what it printed to out, or what f was ended with.
func Render(m *Meter, out *Builder, f func(*Run)) (err error) {
	defer func() {
		if p := recover(); p != nil {
			e, ok := p.(ended)
			if !ok {
				panic(p)
			}
			err = e.err
		}
	}()
	f(&Run{Out: out, m: m})
	return nil
}

// End ends the rendering; an error that is nil does nothing.
func (r *Run) End(err error) {
	if err != nil {
		panic(ended{err})
	}
}

// Step counts n steps.
func (r *Run) Step(n int) { r.End(r.m.Step(n)) }

// Grow is asked before a value of n bytes is made.
func (r *Run) Grow(n int) { r.End(r.m.Grow(n)) }

// Fits is asked before a value grows to n bytes, most of them asked for already.
func (r *Run) Fits(n int) {
	if n > MaxText {
		r.Grow(n)
	}
}

// Deeper begins something that may hold itself: defer r.Deeper()().
func (r *Run) Deeper() func() {
	r.End(r.m.Enter())
	return r.m.Leave
}

// Print adds a text to what is printed.
func (r *Run) Print(t Text) {
	n := t.Len() + 4*t.Cuts()
	r.Step(1)
	r.Grow(n)
	r.Fits(r.Out.Len() + n)
	r.Out.Add(t)
}
