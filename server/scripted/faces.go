package scripted

import (
	"context"
	"fmt"

	"github.com/axle-llm/axle/ask"
	"github.com/axle-llm/axle/vision"
)

// faceVector is how long a face's vector is, as ArcFace's.
const faceVector = 512

// Faces implements the optional interface behind engine.Model.Faces: a face fills the middle of
// each picture, half as wide and high. Value i of its vector is i.
func (b *Backend) Faces(ctx context.Context, r ask.FaceRequest) ([]ask.Face, error) {
	b.asked(r.Key)
	if !b.c.Info.Capabilities.Faces {
		return nil, fmt.Errorf("%w: %s does not find faces in pictures", ask.ErrUnsupported, b.c.Info.Name)
	}
	h, err := vision.Look(r.Picture, vision.Limits{})
	if err != nil {
		return nil, fmt.Errorf("%w: the picture cannot be read: %w", ask.ErrRequest, err)
	}
	if err := b.enter(ctx); err != nil {
		return nil, err
	}
	defer b.leave(0, nil)
	w, hh := float64(h.Width), float64(h.Height)
	f := ask.Face{Score: 0.9, X0: w / 4, Y0: hh / 4, X1: 3 * w / 4, Y1: 3 * hh / 4, Vector: make([]float32, faceVector),
		Points: [5][2]float64{{0.4 * w, 0.4 * hh}, {0.6 * w, 0.4 * hh}, {0.5 * w, 0.5 * hh}, {0.4 * w, 0.6 * hh}, {0.6 * w, 0.6 * hh}}}
	for i := range f.Vector {
		f.Vector[i] = float32(i)
	}
	if f.Score < r.Least {
		return nil, nil
	}
	return []ask.Face{f}, nil
}
