package engine

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"iter"
	"math"

	"github.com/axle-llm/axle/ask"
	"github.com/axle-llm/axle/axcl"
	"github.com/axle-llm/axle/engine/speech"
	"github.com/axle-llm/axle/models"
)

// whisper is the nets of a Whisper on a card. What the encoder hears and the decoder's caches stay
// there, in one set of buffers, so one piece of speech is written down at a time. Whose turn it is
// has the fields below p.
type whisper struct {
	*netBackend
	p     *models.Whisper
	hears *speech.Whisper

	self    [][]axcl.Buffer // of each of p.Self: one, or in layout A two that take turns
	side    int             // layout A: which of them holds the rows
	spoiled bool            // the caches may hold what is no number
}

func openWhisper(ctx context.Context, p *models.Whisper, o OpenOptions) (*Model, error) {
	files := []models.NetFile{p.Encoder, p.Decoder}
	if p.First.Path != "" {
		files = append(files, p.First)
	}
	info := Info{Name: p.Name, Vocab: p.Vocab, Capabilities: ask.Capabilities{Audio: true}}
	return openNets(ctx, p, files, info, o, func(n *netBackend) (Backend, error) {
		n.called = "transcribe"
		hears, err := speech.NewWhisper(p)
		if err != nil {
			return nil, err
		}
		b := &whisper{netBackend: n, p: p, hears: hears}
		return b, n.keep(ctx, b.bind)
	})
}

func (b *whisper) encoder() *Net { return b.nets[0] }
func (b *whisper) decoder() *Net { return b.nets[1] }
func (b *whisper) first() *Net   { return b.nets[2] } // layout A's

// stacked says whether the layout is A, whose decoder gives all rows of the caches in each call.
func (b *whisper) stacked() bool { return b.p.First.Path != "" }

// bind makes the buffers and binds to them what stays the same for all calls.
func (b *whisper) bind(dev axcl.Device) error {
	for _, k := range b.p.Cross {
		x, err := b.buffer(dev, k.Size())
		if err == nil {
			err = b.encoder().net.Bind(0, k.From.Name, x)
		}
		for _, n := range b.nets[1:] {
			if err == nil {
				err = n.net.Bind(0, k.To.Name, x)
			}
		}
		if err != nil {
			return err
		}
	}
	for _, k := range b.p.Self {
		x, err := b.buffer(dev, k.Size())
		if err != nil {
			return err
		}
		all := []axcl.Buffer{x}
		if b.stacked() {
			if err = b.first().net.Bind(0, k.From.Name, x); err == nil {
				x, err = b.buffer(dev, k.Size())
				all = append(all, x)
			}
		} else {
			err = b.decoder().net.Bind(0, k.To.Name, x)
		}
		if err != nil {
			return err
		}
		b.self = append(b.self, all)
	}
	return nil
}

// Transcribe writes speech down. Keys take turns, half a minute of speech each, and no turn waits
// for sound.
func (b *whisper) Transcribe(ctx context.Context, r TranscribeRequest) iter.Seq2[Segment, error] {
	return counted(&b.waiting, b.hears.Transcribe(ctx, &whisperTurns{b, r.Key}, r))
}

// whisperTurns are the nets as a request uses them. It implements [speech.WhisperNets].
type whisperTurns struct {
	*whisper
	key string
}

// Turn waits until the nets are the request's. done ends this.
func (b *whisperTurns) Turn(ctx context.Context) (done func(error), err error) {
	over, err := b.turn(ctx, b.key)
	if err != nil {
		return nil, err
	}
	return func(err error) {
		b.spoiled = b.spoiled || err != nil && !errors.Is(err, ctx.Err())
		over()
	}, nil
}

// Hear calls the encoder. Rows that a decoder does not see count as 0 times what they hold, which
// must be a number.
func (b *whisperTurns) Hear(ctx context.Context, mel []byte) error {
	var old []models.Kept
	if b.spoiled && !b.stacked() {
		old = b.p.Self
	}
	_, err := b.encoder().piece(ctx, func(axcl.Device) error {
		for i, k := range old {
			if err := b.self[i][0].Write(0, make([]byte, k.Size())); err != nil {
				return err
			}
		}
		return b.encoder().net.Run(0, map[string][]byte{b.p.Mel.Name: mel}, nil)
	})
	if err == nil {
		b.spoiled = false
	}
	return b.counted(err)
}

// Say calls a decoder with tokens whose first stands at a place: one token, or four at place 0 in
// layout A. logits has room for a row of each.
func (b *whisperTurns) Say(ctx context.Context, at int, tokens []int32, logits []byte) error {
	var ids []byte
	for _, id := range tokens {
		ids = binary.LittleEndian.AppendUint32(ids, uint32(id))
	}
	in, out := map[string][]byte{b.p.Token: ids}, map[string][]byte{"logits": logits}
	var err error
	switch {
	case b.stacked() && at == 0:
		_, err = b.first().piece(ctx, func(axcl.Device) error {
			b.side = 0
			return b.first().net.Run(0, in, out)
		})
	case b.stacked():
		row := 4 * b.p.Width
		in["positional_embedding"] = b.p.Places[row*at:][:row]
		in["mask"] = whisperMask(0, models.WhisperPlaces-at-1, math.Float32bits(float32(math.Inf(-1))))
		_, err = b.decoder().piece(ctx, func(axcl.Device) error { return b.shift(in, out) })
	default:
		in["offset"] = binary.LittleEndian.AppendUint32(nil, uint32(at))
		in["mask"] = whisperMask(at, models.WhisperPlaces, 1)
		_, err = b.decoder().piece(ctx, func(axcl.Device) error { return b.append(at, in, out) })
	}
	return b.counted(err)
}

// whisperMask is a mask with a value at the places that are hidden.
func whisperMask(from, to int, hidden uint32) []byte {
	mask := make([]byte, 4*models.WhisperPlaces)
	for i := from; i < to; i++ {
		binary.LittleEndian.PutUint32(mask[4*i:], hidden)
	}
	return mask
}

func (b *whisper) counted(err error) error {
	if err == nil {
		b.calls.Add(1)
	}
	return err
}

// shift is layout A's call: the caches are read from one set of buffers and written to the other.
func (b *whisper) shift(in, out map[string][]byte) error {
	net := b.decoder().net
	for i, k := range b.p.Self {
		if err := net.Bind(0, k.To.Name, b.self[i][b.side]); err != nil {
			return err
		}
		if err := net.Bind(0, k.From.Name, b.self[i][1-b.side]); err != nil {
			return err
		}
	}
	err := net.Run(0, in, out)
	if err == nil {
		b.side = 1 - b.side
	}
	return err
}

// append is the call of the layouts B and C: the new rows are written to their place in the caches.
func (b *whisper) append(at int, in, out map[string][]byte) error {
	rows := make([][]byte, len(b.p.Self))
	for i, k := range b.p.Self {
		rows[i] = make([]byte, k.Rows()*k.RowSize())
		out[k.From.Name] = rows[i]
	}
	if err := b.decoder().net.Run(0, in, out); err != nil {
		return err
	}
	for i, k := range b.p.Self {
		size := k.RowSize()
		for layer := range k.Rows() {
			if err := b.self[i][0].Write(size*(models.WhisperPlaces*layer+at), rows[i][size*layer:][:size]); err != nil {
				return fmt.Errorf("writing row %d of %s: %w", at, k.To.Name, err)
			}
		}
	}
	return nil
}
