package engine

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/axle-llm/axle/tokenizer/chat"
)

// This file makes vectors with models whose inputs are a user's turn of a chat, as those of
// Qwen3-VL-Embedding are. A turn has a text, a picture, or a picture and a text behind it. Pictures
// are read, encoded and cached as those of chats are.

// turner is what a backend that makes vectors of turns with pictures has in addition. EmbedTurns is
// Embed of prompts that have a placeholder for each row of their picture. A nil picture is none.
type turner interface {
	EmbedTurns(ctx context.Context, inputs [][]int32, pictures [][]byte, key string) ([][]float32, error)
}

func embedTurned(ctx context.Context, b Backend, inputs [][]int32, pictures [][]byte, key string) ([][]float32, error) {
	if t, ok := b.(turner); ok {
		return t.EmbedTurns(ctx, inputs, pictures, key)
	}
	if slices.ContainsFunc(pictures, func(p []byte) bool { return p != nil }) {
		return nil, fmt.Errorf("%w: %s gives no vectors of pictures", ErrUnsupported, b.Info().Name)
	}
	return b.Embed(ctx, inputs, key)
}

// embedTurns is Embed for a model whose inputs are turns. system returns the system text of input
// i.
func embedTurns(ctx context.Context, m *Model, r EmbedRequest, system func(i int) string) (out Embeddings, err error) {
	start := time.Now()
	if r.Dimensions < 0 || r.Dimensions > m.info.Hidden {
		return out, fmt.Errorf("%w: dimensions must be between 0 and %d, got %d", ErrRequest, m.info.Hidden, r.Dimensions)
	}
	shown := r.Pictures
	if shown == nil {
		shown = make([][]byte, len(r.Input))
	}
	if len(shown) != len(r.Input) {
		return out, fmt.Errorf("%w: %d pictures for %d inputs", ErrRequest, len(shown), len(r.Input))
	}
	if r.NumCtx <= 0 || r.NumCtx > m.info.Context {
		r.NumCtx = m.info.Context
	}
	batch := make([][]int32, len(r.Input))
	for i, text := range r.Input {
		say := chat.Message{Role: "user", Content: text}
		if shown[i] != nil {
			say.Images = shown[i : i+1]
		}
		ids, had, err := turnOf(ctx, m, &r, system(i), say)
		if err != nil {
			return Embeddings{}, err
		}
		if had > len(ids) {
			out.Cuts = append(out.Cuts, Cut{Limit: r.NumCtx, Prompt: had, Kept: len(ids)})
		}
		batch[i] = ids
		out.Prompt += len(ids)
	}
	vectors, err := embedTurned(ctx, m.b, batch, shown, m.o.key(r.Key))
	if err != nil {
		return Embeddings{}, err
	}
	for i, v := range vectors {
		vectors[i] = finished(v, r)
	}
	out.Vectors, out.Total = vectors, time.Since(start)
	return out, nil
}

// turnOf returns the ids of a turn, and how many there were before its text was cut to fit.
func turnOf(ctx context.Context, m *Model, r *EmbedRequest, system string, say chat.Message) (ids []int32, had int, err error) {
	render := func() error {
		q := Request{Messages: []chat.Message{{Role: "system", Content: system}, say}, Think: chat.ThinkOff, Key: r.Key}
		return inTurn(ctx, &q, prompting(), func() error {
			ids, _, err = m.encode(ctx, &q, m.pieces(ctx, &q, true))
			ids = append(ids, m.b.Ends()...)
			return err
		})
	}
	if err := render(); err != nil {
		return nil, 0, err
	}
	had = len(ids)
	if had <= r.NumCtx {
		return ids, had, nil
	}
	if !r.Truncate {
		return nil, 0, &ContextError{Have: had, Max: r.NumCtx}
	}
	words, err := m.b.Encode(ctx, []chat.Piece{{Text: say.Content}}, false)
	if err != nil {
		return nil, 0, err
	}
	for len(ids) > r.NumCtx {
		keep := len(words) - (len(ids) - r.NumCtx)
		if keep < 0 { // what stands around the text does not fit
			return nil, 0, &ContextError{Have: had, Max: r.NumCtx}
		}
		words = words[:keep]
		say.Content = strings.TrimRight(m.b.Text(words), "\uFFFD") // a character that was cut in half
		if err := render(); err != nil {
			return nil, 0, err
		}
	}
	return ids, had, nil
}

// turnsAhead is how many inputs with pictures are prepared for the encoder at a time, at most.
const turnsAhead = 4

// EmbedTurns implements [turner]. Each group of pictures takes its room at once, as those of a chat
// do, and has given it back before the next group asks. So a long request waits for no room that it
// has itself.
func (b *cardBackend) EmbedTurns(ctx context.Context, inputs [][]int32, pictures [][]byte, key string) ([][]float32, error) {
	var texts, shown []int
	for i := range inputs {
		if pictures[i] == nil {
			texts = append(texts, i)
		} else {
			shown = append(shown, i)
		}
	}
	out := make([][]float32, len(inputs))
	if len(shown) > 0 {
		if err := b.m.pictures.sees(b.info.Name); err != nil {
			return nil, err
		}
		ahead := min(turnsAhead, b.m.shape.Cells/b.m.pictures.encoder.longest)
		for group := range slices.Chunk(shown, max(ahead, 1)) {
			if err := b.embedShown(ctx, out, group, inputs, pictures, key); err != nil {
				return nil, err
			}
		}
	}
	if len(texts) == 0 {
		return out, nil
	}
	var rest [][]int32
	for _, i := range texts {
		rest = append(rest, inputs[i])
	}
	vectors, err := b.Embed(ctx, rest, key)
	if err != nil {
		return nil, err
	}
	for k, i := range texts {
		out[i] = vectors[k]
	}
	return out, nil
}

// embedShown makes the vectors of a group of inputs with pictures.
func (b *cardBackend) embedShown(ctx context.Context, out [][]float32, group []int, inputs [][]int32, pictures [][]byte, key string) error {
	job := Job{Key: key}
	for _, i := range group {
		job.Images = append(job.Images, pictures[i])
	}
	held, release, err := b.hold(ctx, &job)
	if pe := (*PictureError)(nil); errors.As(err, &pe) {
		pe.Index = group[pe.Index]
	}
	if err != nil {
		return err
	}
	defer release()
	vectors := make([][]float32, len(group))
	_, err = b.collectAll(ctx, vectors, func(k int) ([]int32, []*picture, error) { return inputs[group[k]], held[k : k+1], nil }, key,
		b.vector)
	for k, i := range group {
		out[i] = vectors[k]
	}
	return err
}
