package engine

import (
	"context"
	"fmt"
	"time"
)

// shows is what a backend that makes vectors of pictures has in addition. EmbedPictures returns one
// for each picture, not normalised. texts has the text beside each of them, or "" where there is
// none; a backend that makes a vector of one thing alone refuses a text.
type shows interface {
	EmbedPictures(ctx context.Context, pictures [][]byte, texts []string, key string) ([][]float32, error)
}

// embedShown is Embed of a request with pictures. Its inputs without one are texts like any other.
func embedShown(ctx context.Context, m *Model, r EmbedRequest) (Embeddings, error) {
	start := time.Now()
	if len(r.Pictures) != len(r.Input) {
		return Embeddings{}, fmt.Errorf("%w: %d pictures for %d inputs", ErrRequest, len(r.Pictures), len(r.Input))
	}
	var pictures [][]byte
	var beside []string
	var at, rest []int // of the inputs: those with a picture, and those without
	texts := r
	texts.Input, texts.Pictures = nil, nil
	for i, p := range r.Pictures {
		if p == nil {
			texts.Input, rest = append(texts.Input, r.Input[i]), append(rest, i)
			continue
		}
		pictures, beside, at = append(pictures, p), append(beside, r.Input[i]), append(at, i)
	}
	var out Embeddings
	if len(rest) > 0 { // first: what is wrong with one is known soonest
		var err error
		if out, err = m.Embed(ctx, texts); err != nil {
			return Embeddings{}, err
		}
	}
	vectors := make([][]float32, len(r.Input))
	for k, v := range out.Vectors {
		vectors[rest[k]] = v
	}
	seen, err := embedPictures(ctx, m.b, pictures, beside, r.Key)
	if err != nil {
		return Embeddings{}, err
	}
	for k, v := range seen {
		vectors[at[k]] = finished(v, r)
	}
	out.Vectors, out.Total = vectors, time.Since(start)
	return out, nil
}

func embedPictures(ctx context.Context, b Backend, pictures [][]byte, texts []string, key string) ([][]float32, error) {
	if b, ok := b.(shows); ok {
		return b.EmbedPictures(ctx, pictures, texts, key)
	}
	return nil, fmt.Errorf("%w: %s gives no vectors of pictures", ErrUnsupported, b.Info().Name)
}
