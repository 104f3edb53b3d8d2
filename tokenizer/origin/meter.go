package origin

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
)

// What one rendering may do. Real templates stay far below.
const (
	MaxSteps = 4 << 20  // nodes evaluated, and what is walked otherwise, in units of about as much work
	MaxBytes = 48 << 20 // all that a rendering makes on its way
	MaxText  = 16 << 20 // one value, or the prompt; no context holds a quarter
	MaxDepth = 200      // macros in macros, values in values
)

// free is what each rendering may make without asking its room: a conversation without pictures or
// documents needs no more.
const free = 1 << 20

// grain is what a meter takes of its room at once.
const grain = 256 << 10

// ErrBudget is in the chain of errors of templates that do more than any honest one would: the
// request or the package that brought it is at fault.
var ErrBudget = errors.New("the template does not come to an end")

// ErrRoom is in the chain of errors of renderings that found no room because of others that run.
// The same rendering works later.
var ErrRoom = errors.New("too many large prompts are rendered at once, try again")

// Room is the memory that renderings share. The zero Room has none beyond what each may make
// without asking.
type Room struct {
	Size  int64
	taken atomic.Int64
}

// Taken is how much of it is in use.
func (r *Room) Taken() int64 { return r.taken.Load() }

// Meter counts what one rendering does. What it counts is asked for before it is done, so that
// nothing too large is ever made.
type Meter struct {
	ctx   context.Context //nolint:containedctx // a meter is one call's
	room  *Room
	steps int // left
	pause int // when steps are down to it, ctx is looked at
	bytes int // made
	held  int64
	depth int
}

// NewMeter begins a rendering. room may be nil: then there is no limit but the rendering's own.
func NewMeter(ctx context.Context, room *Room) *Meter {
	return &Meter{ctx: ctx, room: room, steps: MaxSteps, pause: MaxSteps}
}

// Close gives the meter's part of the room back. A second Close does nothing.
func (m *Meter) Close() {
	if m.room != nil {
		m.room.taken.Add(-m.held)
	}
	m.held = 0
}

// Step counts n steps. It fails with ErrBudget, or with the context's error.
func (m *Meter) Step(n int) error {
	if m.steps -= n; m.steps > m.pause && n >= 0 {
		return nil
	}
	return m.look(n)
}

func (m *Meter) look(n int) error {
	if n < 0 || m.steps < 0 {
		m.steps = -1
		return fmt.Errorf("%w: more than %d steps", ErrBudget, MaxSteps)
	}
	m.pause = max(m.steps-4096, 0)
	if err := m.ctx.Err(); err != nil {
		return fmt.Errorf("the rendering was broken off: %w", err)
	}
	return nil
}

// Grow is asked before a value of n bytes is made.
func (m *Meter) Grow(n int) error {
	if n < 0 || n > MaxText {
		return fmt.Errorf("%w: it makes a text of more than %d bytes", ErrBudget, MaxText)
	}
	if m.bytes += n; m.bytes > MaxBytes {
		return fmt.Errorf("%w: it makes more than %d bytes on its way", ErrBudget, MaxBytes)
	}
	if need := int64(m.bytes) - free; m.room != nil && need > m.held {
		more := (need - m.held + grain - 1) / grain * grain
		//rule:T7 TestRoom > m.room.Size => < 0
		if m.room.taken.Add(more) > m.room.Size {
			m.room.taken.Add(-more)
			return ErrRoom
		}
		m.held += more
	}
	return m.Step(n / 64)
}

// Enter begins something that may hold itself, and Leave ends it.
func (m *Meter) Enter() error {
	if m.depth++; m.depth > MaxDepth {
		return fmt.Errorf("%w: it goes more than %d deep", ErrBudget, MaxDepth)
	}
	return nil
}

// Leave ends what Enter began.
func (m *Meter) Leave() { m.depth-- }
