// Package speech is what recognisers of speech do around the calls of their nets: features of the
// sound, pieces that a net can take, and text of what it gives. It is given the nets as functions,
// so it knows no card.
//
// A [SenseVoice] may be used from any goroutine, a [Whisper] as far as its nets may. Neither holds
// anything that has to be closed. What they return is used by one goroutine.
package speech

import (
	"context"
	"errors"
)

// Run calls a net: in has all inputs, and out is filled.
type Run func(ctx context.Context, in, out map[string][]byte) error

// ErrNonsense reports logits that are no numbers: the card computed nonsense.
var ErrNonsense = errors.New("speech: the logits hold a NaN or an infinity")

// SampleRate is how many samples a second are expected.
const SampleRate = 16000
