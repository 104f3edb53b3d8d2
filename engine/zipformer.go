package engine

import (
	"context"
	"encoding/binary"
	"iter"
	"sync/atomic"

	"github.com/axle-llm/axle/ask"
	"github.com/axle-llm/axle/axcl"
	"github.com/axle-llm/axle/engine/speech"
	"github.com/axle-llm/axle/models"
)

// zipformer is the nets of a Zipformer on a card. The states of utterances stay there. Whose turn
// it is has the fields below p.
type zipformer struct {
	*netBackend
	p *models.Zipformer

	zero  axcl.Buffer // what every state is when an utterance begins
	sets  []*zipformerSet
	steps uint64
	last  [2]int32 // the symbols whose context the joiner finds on the card
	known bool     // it finds one
}

// zipformerSet are buffers of all states.
type zipformerSet struct {
	states []axcl.Buffer
	of     *utterance // nil: free
	used   uint64     // the step
}

// utterance is where the states of a transcription are: in a set, in memory of the host, or nowhere
// before the first call.
type utterance struct {
	set  *zipformerSet
	host [][]byte
	over atomic.Bool
}

func openZipformer(ctx context.Context, p *models.Zipformer, o OpenOptions) (*Model, error) {
	info := Info{Name: p.Name, Vocab: len(p.Symbols), Capabilities: ask.Capabilities{Audio: true}}
	return openNets(ctx, p, []models.NetFile{p.Encoder, p.Decoder, p.Joiner}, info, o, func(n *netBackend) (Backend, error) {
		n.called = "transcribe"
		b := &zipformer{netBackend: n, p: p}
		return b, n.keep(ctx, b.bind)
	})
}

func (b *zipformer) encoder() axcl.Net { return b.nets[0].net }
func (b *zipformer) decoder() axcl.Net { return b.nets[1].net }
func (b *zipformer) joiner() axcl.Net  { return b.nets[2].net }

// bind makes the buffers. What the decoder gives, the joiner finds on the card.
func (b *zipformer) bind(dev axcl.Device) error {
	context, err := b.buffer(dev, b.p.Context.Size)
	if err != nil {
		return err
	}
	if err := b.decoder().Bind(0, b.p.Context.Name, context); err != nil {
		return err
	}
	if err := b.joiner().Bind(0, b.p.After.Name, context); err != nil {
		return err
	}
	zeros := make([]byte, b.p.Longest().Size)
	if b.zero, err = b.buffer(dev, len(zeros)); err != nil {
		return err
	}
	if err := b.zero.Write(0, zeros); err != nil {
		return err
	}
	for range models.ZipformerSets {
		s := &zipformerSet{}
		for _, k := range b.p.States {
			x, err := b.buffer(dev, k.Size())
			if err != nil {
				return err
			}
			s.states = append(s.states, x)
		}
		b.sets = append(b.sets, s)
	}
	return nil
}

// Transcribe writes speech down while it comes. Keys take turns, one call of the encoder and what
// it takes to say its rows each, and no turn waits for sound.
func (b *zipformer) Transcribe(ctx context.Context, r TranscribeRequest) iter.Seq2[Segment, error] {
	return counted(&b.waiting, func(yield func(Segment, error) bool) {
		t := &zipformerTurns{zipformer: b, key: r.Key}
		defer t.u.over.Store(true)
		speech.NewZipformer(b.p, t).Transcribe(ctx, r)(yield)
	})
}

// zipformerTurns are the nets as a transcription uses them. It implements [speech.ZipformerNets].
type zipformerTurns struct {
	*zipformer
	key string
	u   utterance
}

// Step is one piece of work for the card: between the calls of a step no other model has its turn,
// or a call for each row would wait for one of theirs.
func (b *zipformerTurns) Step(ctx context.Context, f func(speech.ZipformerCalls) error) error {
	done, err := b.turn(ctx, b.key)
	if err != nil {
		return err
	}
	defer done()
	return b.step(ctx, func(called func(error) error) error { return f(&zipformerCalls{b, called}) })
}

// zipformerCalls are the calls of a step. It implements [speech.ZipformerCalls].
type zipformerCalls struct {
	*zipformerTurns
	called func(error) error
}

func (b *zipformerCalls) Hear(first bool, frames, rows []byte) error {
	return b.called(b.hear(first, frames, rows))
}

func (b *zipformerCalls) Say(last [2]int32, row, logits []byte) error {
	if !b.known || b.last != last {
		b.known = false
		y := binary.LittleEndian.AppendUint32(binary.LittleEndian.AppendUint32(nil, uint32(last[0])), uint32(last[1]))
		if err := b.called(b.decoder().Run(0, map[string][]byte{b.p.Last.Name: y}, nil)); err != nil {
			return err
		}
		b.known, b.last = true, last
	}
	return b.called(b.joiner().Run(0, map[string][]byte{b.p.Row.Name: row}, map[string][]byte{b.p.Logits.Name: logits}))
}

// hear calls the encoder, which reads the states where they are and writes the new ones to another
// set. Then that set is the utterance's.
func (b *zipformerTurns) hear(first bool, frames, rows []byte) error {
	u := &b.u
	b.steps++
	to, err := b.free(u.set)
	if err != nil {
		return err
	}
	in := map[string][]byte{b.p.Frames.Name: frames}
	for i, k := range b.p.States {
		from := b.zero
		switch {
		case first:
		case u.set != nil:
			from = u.set.states[i]
		default:
			from, in[k.To.Name] = nil, u.host[i]
		}
		if err := b.encoder().Bind(0, k.To.Name, from); err != nil {
			return err
		}
		if err := b.encoder().Bind(0, k.From.Name, to.states[i]); err != nil {
			return err
		}
	}
	if err := b.encoder().Run(0, in, map[string][]byte{b.p.Rows.Name: rows}); err != nil {
		return err
	}
	if u.set != nil {
		u.set.of = nil
	}
	u.set, u.host = to, nil
	to.of, to.used = u, b.steps
	return nil
}

// free is a set that may be written, but not the one given. If all are in use, the states of the
// transcription that was heard the longest ago go to the host's memory.
func (b *zipformer) free(but *zipformerSet) (*zipformerSet, error) {
	var oldest *zipformerSet
	for _, s := range b.sets {
		switch {
		case s == but:
		case s.of == nil || s.of.over.Load():
			s.of = nil
			return s, nil
		case oldest == nil || s.used < oldest.used:
			oldest = s
		}
	}
	host := make([][]byte, len(oldest.states))
	for i, x := range oldest.states {
		host[i] = make([]byte, x.Size())
		if err := x.Read(0, host[i]); err != nil {
			return nil, err
		}
	}
	oldest.of.set, oldest.of.host, oldest.of = nil, host, nil
	return oldest, nil
}
