package scripted

import (
	"context"
	"fmt"
	"hash/fnv"
	"image"
	"io"
	"iter"
	"slices"
	"strings"

	"github.com/axle-llm/axle/ask"
	"github.com/axle-llm/axle/vision"
)

// Draws is what the model that draws can do.
var Draws = ask.Draws{Width: 512, Height: 384, Steps: 4, MostSteps: 4, Choices: []int{1, 2, 4}, Guided: true, Guidance: 7, Pictures: true}

// drawnWords is how many words of a prompt are told to be read.
const drawnWords = 64

// Draw implements the optional interface behind engine.Model.Draw. A picture has a frame in one
// colour and a middle in another. The frame's is made of the prompt and everything else that was
// asked for, the seed included; the middle's is the frame's until the picture is done, and the
// opposite then. [[delay:ms]] is how long each step takes.
func (b *Backend) Draw(ctx context.Context, r ask.DrawRequest) iter.Seq2[ask.Drawing, error] {
	return func(yield func(ask.Drawing, error) bool) {
		b.asked(r.Key)
		steps, err := b.drawable(r)
		if err == nil {
			err = b.enter(ctx)
		}
		if err != nil {
			yield(ask.Drawing{}, err)
			return
		}
		defer b.leave(0, nil)
		s := b.read(r.Prompt, 0)
		if s.err != nil {
			yield(ask.Drawing{}, s.err)
			return
		}
		for step := 1; step <= steps; step++ {
			if err := b.wait(ctx, s.delay); err != nil {
				if ctx.Err() == nil { // as models may end
					yield(ask.Drawing{}, err)
				}
				return
			}
			if s.crash && step == 2 {
				yield(ask.Drawing{}, io.ErrUnexpectedEOF)
				return
			}
			d := ask.Drawing{Step: step, Steps: steps}
			if n := len(strings.Fields(r.Prompt)); n > drawnWords && step == 1 {
				d.Cuts = []ask.Cut{{Limit: drawnWords, Prompt: n, Kept: drawnWords}}
			}
			if step < steps && steps-step <= r.Partial {
				d.Width, d.Height, d.Pixels = Draws.Width, Draws.Height, Drawn(r, false)
			}
			if !yield(d, nil) {
				return
			}
		}
		yield(ask.Drawing{Step: steps, Steps: steps, Done: true, Width: Draws.Width, Height: Draws.Height, Pixels: Drawn(r, true)}, nil)
	}
}

// drawable is in how many steps a picture is drawn, or why it is not.
func (b *Backend) drawable(r ask.DrawRequest) (steps int, err error) {
	switch {
	case !b.c.Info.Capabilities.Drawing:
		return 0, fmt.Errorf("%w: %s does not draw", ask.ErrUnsupported, b.c.Info.Name)
	case r.Width != 0 && r.Width != Draws.Width, r.Height != 0 && r.Height != Draws.Height:
		return 0, fmt.Errorf("%w: there is no size %dx%d", ask.ErrRequest, r.Width, r.Height)
	case r.Steps != 0 && !slices.Contains(Draws.Choices, r.Steps):
		return 0, fmt.Errorf("%w: steps must be one of %v, got %d", ask.ErrRequest, Draws.Choices, r.Steps)
	}
	if r.Picture != nil {
		if _, err := vision.Look(r.Picture, vision.Limits{}); err != nil {
			return 0, fmt.Errorf("%w: the picture cannot be read: %w", ask.ErrRequest, err)
		}
	}
	if r.Steps == 0 {
		return Draws.Steps, nil
	}
	return r.Steps, nil
}

// Drawn is the picture that a request is answered with, or one on the way to it.
func Drawn(r ask.DrawRequest, done bool) []byte {
	h := fnv.New32a()
	fmt.Fprint(h, r.Prompt, "\x00", r.Negative, "\x00", r.Strength, r.Steps, r.Guidance, r.Seed, len(r.Picture))
	sum := h.Sum32()
	frame := [3]byte{byte(sum), byte(sum >> 8), byte(sum >> 16)}
	inner := frame
	if done {
		for i, c := range frame {
			inner[i] = 255 - c
		}
	}
	middle := image.Rect(Draws.Width/4, Draws.Height/4, 3*Draws.Width/4, 3*Draws.Height/4)
	out := make([]byte, 0, 3*Draws.Width*Draws.Height)
	for y := range Draws.Height {
		for x := range Draws.Width {
			c := frame
			if (image.Point{X: x, Y: y}).In(middle) {
				c = inner
			}
			out = append(out, c[:]...)
		}
	}
	return out
}
