package engine

import (
	"context"
	"fmt"

	"github.com/axle-llm/axle/ask"
)

// FaceRequest asks for the faces in a picture, and Face is one of them.
type (
	FaceRequest = ask.FaceRequest
	Face        = ask.Face
)

// tellsFaces is what a backend that finds faces in pictures has in addition.
type tellsFaces interface {
	Faces(ctx context.Context, r FaceRequest) ([]Face, error)
}

// Faces returns the faces in a picture with their vectors, the surest first. Errors:
// ErrUnsupported, if the model does not find faces; ErrRequest, for a picture that cannot be read;
// detect.ErrNonsense; ErrBusy; the card's.
func (m *Model) Faces(ctx context.Context, r FaceRequest) ([]Face, error) {
	return faces(ctx, m.b, r, m.info.Name)
}

func faces(ctx context.Context, b Backend, r FaceRequest, name string) ([]Face, error) {
	if b, ok := b.(tellsFaces); ok {
		return b.Faces(ctx, r)
	}
	return nil, fmt.Errorf("%w: %s does not find faces in pictures", ErrUnsupported, name)
}
