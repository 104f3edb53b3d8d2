package ask

import (
	"errors"
	"fmt"
)

// Errors a request can end with, other than a device's (axcl) and ctx's.
var (
	ErrBusy        = errors.New("engine: the queue is full")
	ErrDraining    = errors.New("engine: shutting down")
	ErrClosed      = errors.New("engine: closed")
	ErrUnsupported = errors.New("engine: not supported by this model")
	ErrNotFound    = errors.New("engine: model not found")
	ErrRequest     = errors.New("engine: bad request")
	// ErrWrong is a card that computes something else than it must, or than it did before, without
	// an error.
	ErrWrong  = errors.New("engine: the card gives other answers than it did")
	ErrMemory = errors.New("out of card memory")
)

// ContextError is a prompt that does not fit.
type ContextError struct{ Have, Max int }

func (e *ContextError) Error() string {
	return fmt.Sprintf("engine: the prompt has %d tokens, the context holds %d: shorten the prompt or choose a larger context", e.Have,
		e.Max)
}

// MemoryError is a model that does not fit on the card: Need is the most that it takes while it is
// loaded.
type MemoryError struct {
	Name       string
	Need, Free int64
	Most       int64 // that there is for models, as far as can be told
	Host       bool  // the memory is this machine's: the device has none of its own
	Never      bool  // it would not fit though no other model of ours were there: nothing need go for it
	Foreign    int64 // taken before the card was opened: another process's, or what one left; 0 where that is nothing to speak of
}

func (e *MemoryError) Error() string {
	of := "card memory"
	if e.Host {
		of = "this machine's memory"
	}
	s := fmt.Sprintf("engine: %s needs %s of %s, %s is free: stop another model, or choose a smaller one", e.Name,
		HumanBytes(e.Need), of, HumanBytes(e.Free))
	if e.Never {
		s = fmt.Sprintf("engine: %s needs %s of %s, and models can have %s of it at the most: choose a smaller one", e.Name,
			HumanBytes(e.Need), of, HumanBytes(e.Most))
	}
	if e.Foreign > 0 {
		s += "; " + TakenBefore(e.Foreign)
	}
	return s
}

// Is makes a MemoryError an ErrMemory.
func (e *MemoryError) Is(target error) bool { return target == ErrMemory }

// TakenBefore says that card memory was in use before this process came (promise D15).
func TakenBefore(n int64) string {
	return HumanBytes(n) + " of its memory were taken before: another process holds the card, or one died and its memory was not released"
}

// PictureError is a picture that could not be read: number Index of the request's, counted from 0.
// It is an ErrRequest.
type PictureError struct {
	Index int
	WebP  bool // it says that it is a webp
	Err   error
}

func (e *PictureError) Error() string {
	return fmt.Sprintf("engine: picture %d: %v", e.Index+1, e.Err)
}

func (e *PictureError) Unwrap() []error { return []error{ErrRequest, e.Err} }

// FewerError ends an answer that had begun on a card that was lost, while other cards with the same
// model go on. It is no axcl.ErrLost: the same request will be answered.
type FewerError struct{ Cause error }

func (e *FewerError) Error() string {
	return "engine: the card of this answer was lost, others go on, so ask again: " + e.Cause.Error()
}
