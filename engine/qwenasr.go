package engine

import (
	"context"
	"fmt"
	"iter"

	"github.com/axle-llm/axle/ask"
	"github.com/axle-llm/axle/engine/speech"
	"github.com/axle-llm/axle/models"
	"github.com/axle-llm/axle/sampler"
	"github.com/axle-llm/axle/tokenizer/chat"
)

// qwenASR is a recogniser of speech that is a language model on a card, with an encoder whose rows
// stand in its prompts. Nothing but speech is answered.
type qwenASR struct {
	*cardBackend
	hears   *speech.QwenASR
	running requests
}

func openQwenASR(ctx context.Context, p *models.QwenASR, o OpenOptions) (*Model, error) {
	if o.Draft != nil {
		return nil, fmt.Errorf("%w: %s takes no draft model: it writes no text", ErrUnsupported, p.Name)
	}
	if _, err := p.Text.Hearing(); err != nil {
		return nil, err // before a card is opened
	}
	one := func(b *cardBackend) *Model {
		b.info.Capabilities, b.info.Family = ask.Capabilities{Audio: true}, p.Info().Family
		q := &qwenASR{cardBackend: b}
		q.running.most = o.MaxQueue
		q.hears, _ = speech.NewQwenASR(p, b.info.Name, b.info.Context, q.say) // its only errors are those of Hearing
		return New(q, Options{Name: b.info.Name})
	}
	again := func(c *Card, _ func() error) (*Model, error) {
		o.Card = c
		again, err := models.OpenAs(p.Text.FS(), p.Name)
		if err != nil {
			return nil, err
		}
		m, err := OpenAny(ctx, again, o)
		if err != nil {
			_ = again.Close()
		}
		return m, err
	}
	if o.Name == "" {
		o.Name = p.Name
	}
	return openLayers(ctx, p.Text, p, o, one, again)
}

// Transcribe writes speech down. Keys take turns as in every language model, and nothing waits for
// sound.
func (b *qwenASR) Transcribe(ctx context.Context, r TranscribeRequest) iter.Seq2[Segment, error] {
	return counted(&b.running, b.hears.Transcribe(ctx, r))
}

// say answers a prompt about a piece of sound.
func (b *qwenASR) say(ctx context.Context, p speech.SoundPrompt) (a speech.SoundAnswer, err error) {
	job := Job{IDs: p.IDs, Images: [][]byte{p.Sound}, Sampling: sampler.Defaults(), Limit: p.Limit, NumCtx: b.info.Context, Key: p.Key}
	job.Sampling.Temperature, job.Sampling.RepeatPenalty, job.Sampling.Logprobs = float32(p.Temperature), 1, true
	for t, err := range b.cardBackend.Complete(ctx, job) {
		if err != nil {
			return a, err
		}
		if t.Final == "" {
			a.IDs, a.Logprob = append(a.IDs, t.ID), a.Logprob+float64(t.Logprob.Logprob)
		}
	}
	return a, nil
}

func (b *qwenASR) Encode(context.Context, []chat.Piece, bool) ([]int32, error) {
	return nil, fmt.Errorf("%w: %s reads no text", ErrUnsupported, b.info.Name)
}

func (b *qwenASR) Complete(context.Context, Job) iter.Seq2[Token, error] {
	return func(yield func(Token, error) bool) {
		yield(Token{}, fmt.Errorf("%w: %s answers no prompts", ErrUnsupported, b.info.Name))
	}
}

func (b *qwenASR) Embed(context.Context, [][]int32, string) ([][]float32, error) {
	return nil, fmt.Errorf("%w: %s gives no embeddings", ErrUnsupported, b.info.Name)
}

// Scores overrides a language model's.
func (b *qwenASR) Scores(context.Context, int, func(int) ([]int32, error), []int32, string) ([][]float32, Usage, error) {
	return nil, Usage{}, fmt.Errorf("%w: %s scores no texts", ErrUnsupported, b.info.Name)
}
