package engine

import (
	"context"
	"fmt"
	"iter"

	"github.com/axle-llm/axle/ask"
)

// SpeakRequest is text to be spoken, and Speech a piece of its sound.
type (
	SpeakRequest = ask.SpeakRequest
	Speech       = ask.Speech
)

// speaks is what a backend that speaks has in addition.
type speaks interface {
	Speak(ctx context.Context, r SpeakRequest) iter.Seq2[Speech, error]
}

// Speak yields the sound of a text, a piece at a time: a piece is yielded while the next one is
// computed. Leaving the loop, or ctx, ends it. Errors: ErrUnsupported, if the model does not speak;
// ErrRequest; ErrBusy; the card's.
func (m *Model) Speak(ctx context.Context, r SpeakRequest) iter.Seq2[Speech, error] {
	return speak(ctx, m.b, r, m.info.Name)
}

func speak(ctx context.Context, b Backend, r SpeakRequest, name string) iter.Seq2[Speech, error] {
	if b, ok := b.(speaks); ok {
		return b.Speak(ctx, r)
	}
	return func(yield func(Speech, error) bool) {
		yield(Speech{}, fmt.Errorf("%w: %s does not speak", ErrUnsupported, name))
	}
}
