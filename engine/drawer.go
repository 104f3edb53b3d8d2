package engine

import (
	"context"
	"fmt"
	"iter"

	"github.com/axle-llm/axle/ask"
)

// DrawRequest asks for a picture, and Drawing is an event of its making.
type (
	DrawRequest = ask.DrawRequest
	Drawing     = ask.Drawing
)

// draws is what a backend that draws has in addition.
type draws interface {
	Draw(ctx context.Context, r DrawRequest) iter.Seq2[Drawing, error]
}

// Draw yields an event for each step of a picture, and the picture last. Leaving the loop, or ctx,
// ends it after the call of a net that the card is at. Errors: ErrUnsupported, if the model does
// not draw, or not as it is asked to; ErrRequest; ErrBusy; the card's.
func (m *Model) Draw(ctx context.Context, r DrawRequest) iter.Seq2[Drawing, error] {
	return drawWith(ctx, m.b, r, m.info.Name)
}

func drawWith(ctx context.Context, b Backend, r DrawRequest, name string) iter.Seq2[Drawing, error] {
	if b, ok := b.(draws); ok {
		return b.Draw(ctx, r)
	}
	return func(yield func(Drawing, error) bool) {
		yield(Drawing{}, fmt.Errorf("%w: %s does not draw", ErrUnsupported, name))
	}
}
