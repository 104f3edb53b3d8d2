package chat

import (
	"errors"
	"fmt"
	"time"
	"unicode/utf8"

	"github.com/ardanlabs/jinja"
)

// What one render may do. Real templates stay far below.
const (
	tmplMaxSource = 256 << 10 // the longest in use have 20 KB
	tmplMaxOutput = 16 << 20  // bytes of one value or of the prompt; no context holds a quarter
	tmplMaxBytes  = 128 << 20 // bytes of all that a render makes on its way
	tmplMaxSteps  = 1 << 20   // loop rounds and range items; nodes of Go's templates
	tmplMaxCalls  = 10_000    // macro calls
	tmplMaxTime   = 5 * time.Second
)

// ErrBudget is in the chain of errors of templates that do more than any honest one would: the request or the package that brought it is at fault.
var ErrBudget = errors.New("the template does not come to an end")

// tmplBudget counts what a render does.
type tmplBudget struct {
	steps, calls, bytes int
	until               time.Time
}

func newBudget() *tmplBudget { return &tmplBudget{until: time.Now().Add(tmplMaxTime)} }

// late is for work that no count shows, such as comparing long strings with each other.
func (b *tmplBudget) late() error {
	if time.Now().After(b.until) {
		return fmt.Errorf("%w: it takes longer than %v", ErrBudget, tmplMaxTime)
	}
	return nil
}

func (b *tmplBudget) step(n int) error {
	if b.steps += n; n < 0 || b.steps > tmplMaxSteps {
		return fmt.Errorf("%w: more than %d steps", ErrBudget, tmplMaxSteps)
	}
	return b.late()
}

// fits is asked before a value of n bytes is made.
func (b *tmplBudget) fits(n int) error {
	if n < 0 || n > tmplMaxOutput {
		return fmt.Errorf("%w: it makes a text of more than %d bytes", ErrBudget, tmplMaxOutput)
	}
	return nil
}

// grow counts a value of n bytes.
func (b *tmplBudget) grow(n int) error {
	if err := b.fits(n); err != nil {
		return err
	}
	if b.bytes += n; b.bytes > tmplMaxBytes {
		return fmt.Errorf("%w: it makes more than %d bytes of text on its way", ErrBudget, tmplMaxBytes)
	}
	return b.late()
}

// tmplItemBytes is what an item of a list takes.
const tmplItemBytes = 40

// made counts a value that an operator or a function has made.
func (b *tmplBudget) made(v jinja.Value) error {
	switch {
	case v.IsString():
		return b.grow(len(v.AsString()))
	case v.IsList():
		if v.AsList().Len() > tmplMaxSteps {
			return fmt.Errorf("%w: a list of %d items", ErrBudget, v.AsList().Len())
		}
		return b.grow(8 * v.AsList().Len())
	}
	return b.late()
}

// flat walks a value as the engine's comparing and printing do. It fails where they would go on for too long, or for ever.
func (b *tmplBudget) flat(v jinja.Value) error {
	left := tmplMaxOutput
	var walk func(v jinja.Value, depth int) bool
	walk = func(v jinja.Value, depth int) bool {
		left -= 8
		if v.IsString() {
			left -= len(v.AsString())
		}
		if left < 0 || depth > tmplDeep {
			return false
		}
		switch {
		case v.IsList():
			for _, x := range v.AsList().Items {
				if !walk(x, depth+1) {
					return false
				}
			}
		case v.IsDict():
			for k, x := range v.AsDict().Data {
				if left -= len(k); !walk(x, depth+1) {
					return false
				}
			}
		}
		return true
	}
	if !walk(v, 0) {
		return fmt.Errorf("%w: a value is too large, or holds itself", ErrBudget)
	}
	return b.late()
}

// holds fails if v is in, or becomes by being put in it, a part of itself.
func (b *tmplBudget) holds(in, v jinja.Value) error {
	left := tmplMaxSteps
	var free func(v jinja.Value, depth int) bool
	free = func(v jinja.Value, depth int) bool {
		if left--; left < 0 || depth > tmplDeep {
			return false
		}
		switch {
		case v.IsList():
			if in.IsList() && in.AsList() == v.AsList() {
				return false
			}
			for _, x := range v.AsList().Items {
				if !free(x, depth+1) {
					return false
				}
			}
		case v.IsDict():
			if in.IsDict() && in.AsDict() == v.AsDict() {
				return false
			}
			for _, x := range v.AsDict().Data {
				if !free(x, depth+1) {
					return false
				}
			}
		}
		return true
	}
	if !free(v, 0) {
		return fmt.Errorf("%w: a value is too large, or holds itself", ErrBudget)
	}
	return b.late()
}

// items lists what a loop over v goes through.
func (b *tmplBudget) items(v jinja.Value) ([]jinja.Value, error) {
	n := 0
	switch {
	case v.IsList():
		return v.AsList().Items, nil
	case v.IsDict():
		n = v.AsDict().Len()
	case v.IsString():
		n = utf8.RuneCountInString(v.AsString())
	}
	if n > tmplMaxSteps {
		return nil, fmt.Errorf("%w: a list of %d items", ErrBudget, n)
	}
	return tmplItems(v), b.grow(n)
}
