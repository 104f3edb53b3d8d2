package engine

import (
	"context"
	"fmt"
	"iter"

	"github.com/axle-llm/axle/ask"
	"github.com/axle-llm/axle/axcl"
	"github.com/axle-llm/axle/engine/speech"
	"github.com/axle-llm/axle/models"
)

// TranscribeRequest is speech to be written down, and Segment a part of it as text.
type (
	TranscribeRequest = ask.TranscribeRequest
	Segment           = ask.Segment
)

// hears is what a backend that writes speech down has in addition.
type hears interface {
	Transcribe(ctx context.Context, r TranscribeRequest) iter.Seq2[Segment, error]
}

// Transcribe yields the text of speech, a segment at a time. It reads the sound as far as it is
// needed. Leaving the loop, or ctx, ends it. Errors: ErrUnsupported, if the model does not hear;
// ErrRequest; ErrBusy; the sound's; the card's.
func (m *Model) Transcribe(ctx context.Context, r TranscribeRequest) iter.Seq2[Segment, error] {
	return transcribe(ctx, m.b, r, m.info.Name)
}

func transcribe(ctx context.Context, b Backend, r TranscribeRequest, name string) iter.Seq2[Segment, error] {
	if b, ok := b.(hears); ok {
		return b.Transcribe(ctx, r)
	}
	return func(yield func(Segment, error) bool) {
		yield(Segment{}, fmt.Errorf("%w: %s does not hear", ErrUnsupported, name))
	}
}

// recogniser is a net on a card that writes speech down, one piece of it in each call.
type recogniser struct {
	*netBackend
	hears *speech.SenseVoice
}

func openSenseVoice(ctx context.Context, p *models.SenseVoice, o OpenOptions) (*Model, error) {
	f := models.NetFile{Path: p.Net, In: []axcl.Tensor{p.Speech, p.Spoken}, Out: []axcl.Tensor{p.Logits}}
	if p.Mask.Name != "" {
		f.In = append(f.In, p.Mask)
	}
	info := Info{Name: p.Name, Vocab: len(p.Tokens), Capabilities: ask.Capabilities{Audio: true}}
	return openNets(ctx, p, []models.NetFile{f}, info, o, func(n *netBackend) (Backend, error) {
		n.called = "transcribe"
		return &recogniser{n, speech.NewSenseVoice(p)}, nil
	})
}

// Transcribe writes speech down. Keys take turns, one piece of speech each, and no turn waits for
// sound.
func (b *recogniser) Transcribe(ctx context.Context, r TranscribeRequest) iter.Seq2[Segment, error] {
	return counted(&b.waiting, b.hears.Transcribe(ctx, &recogniserTurns{b, r.Key}, r))
}

// recogniserTurns is the net as a request uses it. It implements [speech.SenseVoiceNet].
type recogniserTurns struct {
	*recogniser
	key string
}

// Turn waits until the net is the request's. done ends this.
func (b *recogniserTurns) Turn(ctx context.Context) (done func(), err error) {
	return b.turn(ctx, b.key)
}

// Call calls the net.
func (b *recogniserTurns) Call(ctx context.Context, in, out map[string][]byte) error {
	return b.call(ctx, in, out)
}
