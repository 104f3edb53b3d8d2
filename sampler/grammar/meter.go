package grammar

import (
	"context"
	"errors"
	"fmt"
)

// maxSteps is how much one compilation may do, in units of about a visited state: what real schemas
// take is a thousandth of it. A second of a slow processor.
const maxSteps = 12_000_000

// ErrRoom is in the chain of the error of a schema whose automaton found no room beside those in
// use: the same works later.
var ErrRoom = errors.New("too many large schemas are in use at once, try again")

// meter counts what one compilation does, and ends it from wherever it is when that is too much, or
// when its request has gone. A nil meter does not count: what is compiled once for all is this
// package's own.
type meter struct {
	ctx  context.Context //nolint:containedctx // a meter is one call's
	left int
	look int // when left is down to it, ctx is looked at
	done int64
}

func newMeter(ctx context.Context) *meter { return &meter{ctx: ctx, left: maxSteps, look: maxSteps} }

// stopped carries an error up to the compilation's beginning.
type stopped struct{ err error }

// errSpent is a compilation that has done all it may.
var errSpent = &Error{Msg: fmt.Sprintf("too large: compiling it takes more than %d steps", maxSteps)}

// step counts n steps.
func (m *meter) step(n int) {
	if m == nil {
		return
	}
	m.left -= n
	m.done += int64(n)
	if m.left > m.look {
		return
	}
	//rule:T7 TestSchemaBudget false
	if m.left < 0 {
		panic(stopped{errSpent})
	}
	m.look = max(m.left-10_000, 0)
	//rule:T16 TestCompileCancelled false
	if m.ctx.Err() != nil {
		panic(stopped{context.Cause(m.ctx)})
	}
}

// again allows a quarter more, for what is left of a schema whose compilation took too much.
func (m *meter) again() { m.left, m.look = maxSteps/4, maxSteps/4 }

// catch turns the panic of a meter, or of what found an error, into err. To be deferred.
func catch(err *error) {
	switch p := recover().(type) {
	case nil:
	case *Error:
		*err = p
	case stopped:
		*err = p.err
	default:
		panic(p)
	}
}

// attempt returns the error that f panics with. A meter's panic goes on.
func attempt(f func()) *Error {
	var err error
	func() {
		defer catch(&err)
		f()
	}()
	if err == nil {
		return nil
	}
	own, ok := err.(*Error)
	if !ok || own == errSpent {
		panic(stopped{err})
	}
	return own
}
