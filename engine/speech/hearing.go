package speech

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"strings"
	"time"

	"github.com/axle-llm/axle/ask"
	"github.com/axle-llm/axle/audio/vad"
)

// This file is what recognisers have in common before their nets are called: what they refuse, and
// how they read sound.

// refusal says why a recogniser that does not translate cannot hear a request, or nil. known says
// whether it knows the request's language.
func refusal(r ask.TranscribeRequest, name string, known bool, languages []string) error {
	switch {
	case r.Translate:
		return fmt.Errorf("%w: %s does not translate: use a Whisper model", ask.ErrRequest, name)
	case !known:
		return fmt.Errorf("%w: %s does not know the language %q: it knows %s", ask.ErrRequest, name, r.Language,
			strings.Join(languages, ", "))
	}
	return nil
}

// at is the time of a sample, also of one of a stream that runs for weeks.
func at(sample int) time.Duration { return time.Duration(sample) * (time.Second / SampleRate) }

// readSound reads at least one sample, or gives an error. Sounds that give neither again and again
// are broken, and would keep a caller who left.
func readSound(ctx context.Context, sound ask.Sound, samples []float32) (n int, err error) {
	for range 100 {
		if err := ctx.Err(); err != nil {
			return 0, err
		}
		if n, err := sound.Read(samples); n > 0 || err != nil {
			return n, err
		}
	}
	return 0, io.ErrNoProgress
}

// pieces reads the sound and cuts it where it is quiet, into pieces of at most longest samples.
func pieces(ctx context.Context, sound ask.Sound, longest int) iter.Seq2[vad.Piece, error] {
	return func(yield func(vad.Piece, error) bool) {
		cutter, err := vad.NewSplitter(longest)
		if err != nil {
			yield(vad.Piece{}, err)
			return
		}
		block := make([]float32, SampleRate)
		for {
			n, err := readSound(ctx, sound, block)
			for _, p := range cutter.Add(block[:n]) {
				if !yield(p, nil) {
					return
				}
			}
			if errors.Is(err, io.EOF) {
				if p, ok := cutter.Finish(); ok {
					yield(p, nil)
				}
				return
			}
			if err != nil {
				yield(vad.Piece{}, err)
				return
			}
		}
	}
}
