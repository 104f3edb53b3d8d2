package scripted

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"time"

	"github.com/axle-llm/axle/ask"
)

// Transcribe implements the optional interface behind engine.Model.Transcribe: each second of sound
// is a sentence that says which, and how loud it is. It knows English and German. Live, it says the
// first two words after half of the second.
func (b *Backend) Transcribe(ctx context.Context, r ask.TranscribeRequest) iter.Seq2[ask.Segment, error] {
	return func(yield func(ask.Segment, error) bool) {
		b.asked(r.Key)
		if !b.c.Info.Capabilities.Audio {
			yield(ask.Segment{}, fmt.Errorf("%w: %s does not hear", ask.ErrUnsupported, b.c.Info.Name))
			return
		}
		if r.Language != "" && r.Language != "en" && r.Language != "de" {
			yield(ask.Segment{}, fmt.Errorf("%w: the language %q is not known: en and de are", ask.ErrRequest, r.Language))
			return
		}
		if err := b.enter(ctx); err != nil {
			yield(ask.Segment{}, err)
			return
		}
		defer b.leave(0, nil)
		const rate = 16000
		for n := 1; ; n++ {
			var loudest float32
			length, begun := 0, false
			start := time.Duration(n-1) * time.Second
			var err error
			for block := make([]float32, rate); length < rate && err == nil; {
				var k int
				k, err = r.Sound.Read(block[:rate-length])
				for _, x := range block[:k] {
					loudest = max(loudest, x, -x)
				}
				length += k
				if b.c.Live && r.Partial && !begun && length >= rate/2 {
					begun = true
					if !yield(ask.Segment{Partial: true, Start: start, End: start + time.Second/2, Text: fmt.Sprint("Second ", n),
						Language: "en"}, nil) {
						return
					}
				}
			}
			if err != nil && !errors.Is(err, io.EOF) {
				yield(ask.Segment{}, err)
				return
			}
			if length > 0 {
				end := start + time.Duration(length)*time.Second/rate
				text := fmt.Sprintf("Second %d is %.0f%%.", n, 100*loudest)
				if r.Translate {
					text = "In English: " + text
				}
				if r.Prompt != "" {
					text += " After " + r.Prompt + "."
				}
				if ctx.Err() != nil { // as models may end
					return
				}
				if !yield(ask.Segment{Start: start, End: end, Text: text, Language: "en", Tokens: []int32{int32(n)},
					Logprob: -0.5, Temperature: r.Temperature,
					Words: []ask.Word{{Text: "Second", Start: start, End: start + 100*time.Millisecond}}}, nil) {
					return
				}
			}
			if err != nil {
				return
			}
		}
	}
}
