package engine

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/axle-llm/axle/tokenizer/chat"
)

// Embed returns one vector for each input, of length one unless Raw is set. Errors: *ContextError,
// ErrRequest, and as Chat.
func (m *Model) Embed(ctx context.Context, r EmbedRequest) (Embeddings, error) {
	start := time.Now()
	var out Embeddings
	shown := slices.ContainsFunc(r.Pictures, func(p []byte) bool { return p != nil })
	if m.info.Context == 0 && !shown { // it reads no text, and says so
		_, err := m.b.Embed(ctx, nil, r.Key)
		return out, err
	}
	if r.Dimensions < 0 || r.Dimensions > m.info.Hidden {
		return out, fmt.Errorf("%w: dimensions must be between 0 and %d, got %d", ErrRequest, m.info.Hidden, r.Dimensions)
	}
	if r.PromptName != "" && !slices.Contains(m.info.Prompts, r.PromptName) {
		return out, fmt.Errorf("%w: %s has no prompt %q: %s", ErrRequest, m.info.Name, r.PromptName, promptNames(m.info.Prompts))
	}
	if shown {
		return embedShown(ctx, m, r)
	}
	ends := m.b.Ends()
	most := m.info.Context
	if r.NumCtx > 0 {
		most = min(most, r.NumCtx)
	}
	if len(ends) >= most {
		return out, &ContextError{Have: len(ends) + 1, Max: most}
	}
	batch := make([][]int32, len(r.Input))
	for i, text := range r.Input {
		if text == "" && len(ends) == 0 {
			continue // a vector of zeros, as in Ollama: there is no row to take one from
		}
		ids, err := m.b.Encode(ctx, []chat.Piece{{Text: text}}, true)
		if err != nil {
			return out, err
		}
		if n := len(ids) + len(ends); n > most {
			if !r.Truncate {
				return out, &ContextError{Have: n, Max: most}
			}
			ids = ids[:most-len(ends)]
			out.Cuts = append(out.Cuts, Cut{Limit: most, Prompt: n, Kept: most})
		}
		batch[i] = append(ids, ends...)
		out.Prompt += len(batch[i])
	}
	vectors, err := m.b.Embed(ctx, batch, r.Key)
	if err != nil {
		return out, err
	}
	for i, v := range vectors {
		vectors[i] = finished(v, r)
	}
	out.Vectors, out.Total = vectors, time.Since(start)
	return out, nil
}

// finished is a vector as it is asked for.
func finished(v []float32, r EmbedRequest) []float32 {
	if r.Dimensions > 0 {
		v = v[:min(len(v), r.Dimensions)]
	}
	if !r.Raw {
		normalise(v)
	}
	return v
}

// promptNames says which prompts there are.
func promptNames(names []string) string {
	if len(names) == 0 {
		return "it has none"
	}
	return "it has " + strings.Join(names, ", ")
}

func normalise(v []float32) {
	var sum float64
	for _, x := range v {
		sum += float64(x) * float64(x)
	}
	if sum == 0 {
		return
	}
	scale := float32(1 / math.Sqrt(sum))
	for i := range v {
		v[i] *= scale
	}
}
