package tokenizer

import (
	"math"
	"time"
)

// A file's normalizers and decoders are a program from outside: forty replacements of a
// by aa make a terabyte of a letter. So what may be made of a text is a multiple of it, asked for
// before it is made.
const (
	//rule:T7 TestChains 4 => 4000
	growth     = 4        // times its length; a space becomes three bytes, marks that are taken apart three for one
	growthFree = 64 << 10 // and for any text, however short: one character may become eleven times as long
	workTimes  = 64       // how often all of that may be gone through
	stepCost   = 16       // what a rule costs on a text of no length
	maxChain   = 256      // rules of one kind in a file
)

// room is what is left of that for one text.
type room struct {
	limit int // bytes of text at one time
	kept  int // of those, what earlier stretches of the text became
	work  int
	// Time spent in patterns of regexp2's, and how much may be.
	slow, late time.Duration
	stop       func() error // says that the request has gone; nil: it has not
}

// roomFor is the room of a text of n bytes.
func roomFor(n int, stop func() error) room {
	limit := math.MaxInt / (2 * workTimes)
	if n < limit/growth-growthFree {
		limit = growth*n + growthFree
	}
	return room{limit: limit, work: workTimes * limit, late: slowLimit(n), stop: stop}
}

// halted is the panic that ends a text's way through the rules; see catchHalt.
type halted struct{ err error }

// take asks for n bytes of text beside what is kept. It panics where there is no room, or the
// request has gone.
func (m *room) take(n int) {
	if m.work -= n + stepCost; n > m.limit-m.kept || n < 0 || m.work < 0 {
		panic(halted{ErrGrows})
	}
	m.wanted()
}

// wanted panics where the request has gone.
func (m *room) wanted() {
	if m.stop != nil {
		if err := m.stop(); err != nil {
			panic(halted{err})
		}
	}
}

// spent counts the time that a pattern took.
func (m *room) spent(d time.Duration) {
	if m.slow += d; m.slow > m.late {
		panic(halted{ErrSlow})
	}
}

// replaced is how long a text is with n times old replaced by new.
func replaced(s, old, new string, n int) int {
	if d := len(new) - len(old); d > 0 && n > (math.MaxInt-len(s))/d {
		return -1 // more than there is room for
	}
	return len(s) + n*(len(new)-len(old))
}

// catchHalt turns the panic into the error.
func catchHalt(err *error) {
	switch p := recover().(type) {
	case nil:
	case halted:
		*err = p.err
	default:
		panic(p)
	}
}
