// Package speech is what models of speech do around the calls of their nets. It is given the nets
// as functions, so it knows no card.
//
//   - [SenseVoice], [Whisper], [Zipformer] and [QwenASR] write speech down: features of the sound,
//     pieces that a net can take, and text of what it gives.
//   - [Kokoro] speaks: symbols of the text, pieces that the nets can take, their durations, the
//     source of sound, and samples of the spectrum that the nets give.
//
// They may be used from any goroutine, as far as their nets may: those of a [SenseVoice] and a
// [Kokoro] give one turn at a time. None holds anything that has to be closed. What they return is
// used by one goroutine.
package speech

import "errors"

// ErrNonsense reports what is no number among what a net gave: the card computed nonsense.
var ErrNonsense = errors.New("speech: the net's output holds a NaN or an infinity")

// SampleRate is how many samples a second recognisers expect.
const SampleRate = 16000
