package realtime

import (
	"context"
	"errors"
	"slices"

	"github.com/axle-llm/axle/ask"
)

// pause is how many samples of silence begin an early hearing. Gaps within words are shorter. The
// longer it is, the less of a hearing lies in the silence that a turn's end waits for.
const pause = 100 * ms

// errWentOn is why an early hearing ends: the turn was not over, or is none.
var errWentOn = errors.Join(errors.New("the turn went on"), context.Canceled)

// early is a turn that is heard in a pause, as if it were over. Its sound ends in the pause's
// silence. If the pause ends the turn, then all that the turn has more is silence, which has no
// text: so the text is the turn's. If somebody speaks again, what was heard is forgotten.
type early struct {
	sound []int16
	set   transcription
	gone  chan struct{} // closed by who reads: it is forgotten

	// Of who works.
	deltas []string
	spoken string
	used   func() // nil: it was not heard, and the turn is as usual
}

// hearEarly has a turn that is in a pause heard, once for each pause. It does so only where who
// works has nothing to do, so that a session never asks for two things at once, and nothing waits
// for what may be forgotten. A model that writes down while somebody speaks needs none.
func (s *session) hearEarly() {
	d := s.found
	if !d.paused {
		return
	}
	d.paused = false
	t := s.set.Audio.Input.Transcription
	if s.hearsLive || s.live != nil || t == nil && s.set.talk == nil {
		return
	}
	sound := s.buffer.held[d.from-s.buffer.first:]
	if s.reserve(len(sound)) != nil {
		return
	}
	e := &early{sound: slices.Clone(sound), gone: make(chan struct{})}
	if t != nil {
		e.set = *t
	}
	n := int64(len(sound))
	s.ahead.Add(n)
	select {
	case s.pauses <- e:
		s.early = e
	default:
		s.ahead.Add(-n)
	}
}

// forgetEarly ends the early hearing of the turn that goes on, if there is one.
func (s *session) forgetEarly() {
	if s.early != nil {
		close(s.early.gone)
		s.early = nil
	}
}

// hear has it written down, but tells no client. An error is forgotten: the turn is heard again.
func (e *early) hear(ctx context.Context, h Hearer) {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	go func() {
		select {
		case <-e.gone:
			stop(errWentOn)
		case <-ctx.Done():
		}
	}()
	spoken, used, err := h.Early(ctx, e.set.Model, ask.TranscribeRequest{Sound: &turn{e.sound}, Language: e.set.Language,
		Prompt: e.set.Prompt}, func(delta string) { e.deltas = append(e.deltas, delta) })
	e.sound = nil
	if err == nil {
		e.spoken, e.used = spoken, used
	}
}
