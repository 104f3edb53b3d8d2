package engine

import (
	"context"
	"iter"

	"github.com/axle-llm/axle/ask"
	"github.com/axle-llm/axle/axcl"
	"github.com/axle-llm/axle/engine/speech"
	"github.com/axle-llm/axle/models"
)

// kokoro is the nets of a Kokoro on a card. What its second net gives and only the third one takes
// stays there, in one set of buffers, so one piece of text is spoken at a time.
type kokoro struct {
	*netBackend
	speaker *speech.Kokoro
}

func openKokoro(ctx context.Context, p *models.Kokoro, o OpenOptions) (*Model, error) {
	info := Info{Name: p.Name, Vocab: len(p.Symbols), Capabilities: ask.Capabilities{Speech: true}, Voices: p.Voices,
		SampleRate: models.KokoroRate}
	return openNets(ctx, p, p.Parts[:], info, o, func(n *netBackend) (Backend, error) {
		n.called = "speak"
		b := &kokoro{n, speech.NewKokoro(p)}
		return b, n.keep(ctx, b.bind)
	})
}

// bind makes the buffers between the second net and the third.
func (b *kokoro) bind(dev axcl.Device) error {
	_, given := b.nets[1].Tensors(0)
	for _, t := range given {
		if t.Name != "asr" && t.Name != "N_pred" {
			continue
		}
		x, err := b.buffer(dev, t.Size)
		if err != nil {
			return err
		}
		for _, n := range b.nets[1:] {
			if err := n.net.Bind(0, t.Name, x); err != nil {
				return err
			}
		}
	}
	return nil
}

// Speak yields the sound of a text. Keys take turns, a piece of the text each. While a piece is
// used, the next one is computed.
func (b *kokoro) Speak(ctx context.Context, r SpeakRequest) iter.Seq2[Speech, error] {
	return counted(&b.waiting, func(yield func(Speech, error) bool) {
		for s, err := range oneAhead(ctx, func(ctx context.Context) iter.Seq2[Speech, error] {
			return b.speaker.Speak(ctx, &kokoroTurns{b, r.Key}, r)
		}) {
			if err != nil && b.closed.Load() { // the voices' files are closed too
				err = ErrClosed
			}
			if !yield(s, err) {
				return
			}
		}
	})
}

// oneAhead yields what a sequence does, and has the sequence make the next value meanwhile. Leaving
// the loop ends the sequence's ctx and waits until the sequence has ended.
func oneAhead[T any](ctx context.Context, sequence func(ctx context.Context) iter.Seq2[T, error]) iter.Seq2[T, error] {
	type result struct {
		value T
		err   error
	}
	return func(yield func(T, error) bool) {
		ctx, cancel := context.WithCancel(ctx)
		results, left := make(chan result), make(chan struct{})
		go func() {
			defer close(results)
			for v, err := range sequence(ctx) {
				select {
				case results <- result{v, err}:
				case <-left:
					return
				}
			}
		}()
		defer func() {
			cancel()
			close(left)
			for range results { // until it is closed
			}
		}()
		for r := range results {
			if !yield(r.value, r.err) || r.err != nil {
				return
			}
		}
	}
}

// kokoroTurns are the nets as a request uses them. It implements [speech.KokoroNets].
type kokoroTurns struct {
	*kokoro
	key string
}

// Turn waits until the nets are the request's. done ends this.
func (b *kokoroTurns) Turn(ctx context.Context) (done func(), err error) { return b.turn(ctx, b.key) }

// Step is one piece of work for the card.
func (b *kokoroTurns) Step(ctx context.Context, f func(speech.KokoroCall) error) error {
	return b.step(ctx, func(called func(error) error) error {
		return f(func(part int, in, out map[string][]byte) error { return called(b.nets[part-1].net.Run(0, in, out)) })
	})
}
