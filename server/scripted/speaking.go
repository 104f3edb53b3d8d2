package scripted

import (
	"context"
	"fmt"
	"iter"
	"math"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/axle-llm/axle/ask"
)

// voices are those of the model that speaks.
var voices = []ask.Voice{{Name: "ada", Language: "en-US"}, {Name: "ben", Language: "en-GB"}}

const speakRate = 24000

// Tone is the frequency, in hertz, of the sound of a word: it tells the word's letters, and the
// voice.
func Tone(word, voice string) int {
	f := 300 + 100*min(utf8.RuneCountInString(word), 20)
	if voice == voices[1].Name {
		f += 50
	}
	return f
}

// Speak implements the optional interface behind engine.Model.Speak: a piece is a sentence, each
// word is a tone of a tenth of a second, and a sentence ends with half as much silence. A sentence
// with [[err:STATUS:text]] fails, and [[delay:ms]] is how long each takes.
func (b *Backend) Speak(ctx context.Context, r ask.SpeakRequest) iter.Seq2[ask.Speech, error] {
	return func(yield func(ask.Speech, error) bool) {
		b.asked(r.Key)
		if !b.c.Info.Capabilities.Speech {
			yield(ask.Speech{}, fmt.Errorf("%w: %s does not speak", ask.ErrUnsupported, b.c.Info.Name))
			return
		}
		voice := r.Voice
		if voice == "" {
			voice = voices[0].Name
		}
		if !slices.ContainsFunc(voices, func(v ask.Voice) bool { return v.Name == voice }) {
			yield(ask.Speech{}, fmt.Errorf("%w: there is no voice %q", ask.ErrRequest, voice))
			return
		}
		speed := r.Speed
		if speed == 0 {
			speed = 1
		}
		if err := b.enter(ctx); err != nil {
			yield(ask.Speech{}, err)
			return
		}
		defer b.leave(0, nil)
		delay := b.read(r.Text, 0).delay
		n := 0
		for text := range sentences(r.Text) {
			if n++; b.c.Speaks != nil {
				b.c.Speaks(n)
			}
			err := b.read(text, 0).err
			if err == nil {
				err = b.wait(ctx, delay)
			}
			if ctx.Err() != nil { // as models may end
				return
			}
			if err != nil {
				yield(ask.Speech{}, err)
				return
			}
			p := ask.Speech{Text: text}
			length := int(speakRate / 10 / speed)
			for _, word := range strings.Fields(text) {
				step := 2 * math.Pi * float64(Tone(word, voice)) / speakRate
				for i := range length {
					p.Samples = append(p.Samples, float32(0.5*math.Sin(step*float64(i))))
				}
			}
			p.Samples = append(p.Samples, make([]float32, length/2)...)
			if !yield(p, nil) {
				return
			}
		}
	}
}

// sentences are cut where a space follows a full stop or its like.
func sentences(text string) iter.Seq[string] {
	return func(yield func(string) bool) {
		for text != "" {
			n := len(text)
			for _, end := range []string{". ", "! ", "? ", ".\n"} {
				if i := strings.Index(text, end); i >= 0 {
					n = min(n, i+len(end))
				}
			}
			if s := strings.TrimSpace(text[:n]); s != "" && !yield(s) {
				return
			}
			text = text[n:]
		}
	}
}
