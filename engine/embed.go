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
	before, err := m.o.Prompts.Before(r.PromptName, r.Instruction)
	if err != nil && m.info.Context > 0 {
		return Embeddings{}, fmt.Errorf("%w: %s %w", ErrRequest, m.info.Name, err)
	}
	if m.o.Prompts.Turns {
		return embedTurns(ctx, m, r, func(int) string { return before })
	}
	return embedTexts(ctx, m, r, before)
}

// embedTexts is Embed with what stands before each text.
func embedTexts(ctx context.Context, m *Model, r EmbedRequest, before string) (Embeddings, error) {
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
	if shown {
		return embedShown(ctx, m, r)
	}
	if sizes := m.o.Sizes; r.Dimensions > 0 && len(sizes) > 0 && !slices.Contains(sizes, r.Dimensions) {
		return out, fmt.Errorf("%w: dimensions must be one of %s for %s, got %d", ErrRequest,
			strings.Trim(strings.Join(strings.Fields(fmt.Sprint(sizes)), ", "), "[]"), m.info.Name, r.Dimensions)
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
		text = before + text
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
	vectors, err := m.b.Embed(ctx, batch, m.o.key(r.Key))
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
