package engine

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"sync/atomic"

	"github.com/axle-llm/axle/axcl"
	"github.com/axle-llm/axle/internal/fair"
	"github.com/axle-llm/axle/models"
	"github.com/axle-llm/axle/sampler"
	"github.com/axle-llm/axle/tokenizer/chat"
)

// OpenAny is [OpenPackage] for a package of any kind that axle runs. It lists these kinds; package
// models has the other half of the list.
func OpenAny(ctx context.Context, p models.Opened, o OpenOptions) (*Model, error) {
	switch p := p.(type) {
	case *models.Package:
		return OpenPackage(ctx, p, o)
	case *models.TextEncoder:
		return openTextEncoder(ctx, p, o)
	case *models.SenseVoice:
		return openSenseVoice(ctx, p, o)
	}
	return nil, fmt.Errorf("%w: %s: no card is told what to do with a %T", ErrUnsupported, p.Info().Name, p)
}

// netBackend is a model that is a single net on a card. Each kind of such models embeds it, and
// overrides what the kind can do.
type netBackend struct {
	info    Info
	net     *Net
	closer  func() error // called after the net has left the card
	turns   *fair.Line   // turns of keys, one call of the net at a time
	most    int64        // the most requests that may wait
	waiting atomic.Int64 // requests
	calls   atomic.Uint64
	closed  atomic.Bool
	called  string // what a call does, in the statistics
}

// netFile is the file of a net, and the tensors that it says it has.
type netFile struct {
	path    string
	in, out []axcl.Tensor
}

// openNet puts a model of one net on a card. set is called with what the kinds have in common, and
// returns the backend.
func openNet(ctx context.Context, p models.Opened, f netFile, info Info, o OpenOptions, set func(n *netBackend) Backend) (*Model, error) {
	if o.Draft != nil {
		return nil, fmt.Errorf("%w: %s takes no draft model: it writes no text", ErrUnsupported, info.Name)
	}
	i := p.Info()
	info.Name, info.Family, info.Memory, info.CardBytes = cmp.Or(o.Name, info.Name), i.Family, i.Memory, i.Memory.Card
	if o.Context > 0 && info.Context > 0 {
		info.Context = min(info.Context, o.Context)
	}
	one := func(c *Card, closer func() error) (*Model, error) {
		n := &netBackend{info: info, closer: closer, turns: fair.New(1, 0), most: int64(o.MaxQueue)}
		if n.info.Device = c.Info().ID; n.most <= 0 {
			n.most = 512
		}
		if err := n.load(ctx, c, f, o); err != nil {
			return nil, err
		}
		return New(set(n), Options{Name: info.Name}), nil
	}
	choose := func(all []*Card) *Card { return cmp.Or(Place(all, info.Memory.Load), all[0]) }
	return openOn(p, o, choose, one, one)
}

// load loads the net onto a card. If memory was lacking and Room made some, it tries once more.
func (b *netBackend) load(ctx context.Context, c *Card, f netFile, o OpenOptions) error {
	need := b.info.Memory.Load
	at := Progress{Model: b.info.Name, File: f.path, Total: 1, Of: b.info.Memory.Layers, Needs: need}
	told := func(done int) {
		at.Done, at.Bytes = done, int64(done)*at.Of
		if o.Progress != nil {
			o.Progress(at)
		}
	}
	if err := c.makingRoom(o, need, func() (err error) {
		b.net, err = loadNet(ctx, c, f.path, func() error {
			told(0)
			if err := c.Refresh(); err != nil {
				return err
			}
			return c.room(b.info.Name, need, need)
		})
		return err
	}); err != nil {
		return err
	}
	if err := b.agree(f); err != nil {
		return errors.Join(err, b.net.Close())
	}
	told(1)
	c.ours.Add(b.info.Memory.Card)
	return nil
}

// agree compares the card's tensors with the file's. The net may give more than is asked for.
func (b *netBackend) agree(f netFile) error {
	all := func(got, want []axcl.Tensor) bool {
		return !slices.ContainsFunc(want, func(w axcl.Tensor) bool {
			return !slices.ContainsFunc(got, func(t axcl.Tensor) bool {
				return t.Name == w.Name && t.Type == w.Type && slices.Equal(t.Shape, w.Shape)
			})
		})
	}
	if ins, outs := b.net.Tensors(0); len(ins) != len(f.in) || !all(ins, f.in) || !all(outs, f.out) {
		return fmt.Errorf("engine: %w: %s: the card says %v and %v of its tensors, the file %v and %v", axcl.ErrModel, b.info.Name, ins,
			outs, f.in, f.out)
	}
	return nil
}

// queue counts a request in, and returns what counts it out. Error: ErrBusy.
func (b *netBackend) queue() (done func(), err error) {
	if b.waiting.Add(1) > b.most {
		b.waiting.Add(-1)
		return nil, ErrBusy
	}
	return func() { b.waiting.Add(-1) }, nil
}

// call calls the net.
func (b *netBackend) call(ctx context.Context, in, out map[string][]byte) error {
	if _, err := b.net.run(ctx, 0, in, out); err != nil {
		return err
	}
	b.calls.Add(1)
	return nil
}

func (b *netBackend) Encode(context.Context, []chat.Piece, bool) ([]int32, error) {
	return nil, fmt.Errorf("%w: %s reads no text", ErrUnsupported, b.info.Name)
}

func (b *netBackend) Ends() []int32 { return nil }

func (b *netBackend) Text([]int32) string { return "" }

func (b *netBackend) Complete(context.Context, Job) iter.Seq2[Token, error] {
	return func(yield func(Token, error) bool) {
		yield(Token{}, fmt.Errorf("%w: %s answers no prompts", ErrUnsupported, b.info.Name))
	}
}

func (b *netBackend) Embed(context.Context, [][]int32, string) ([][]float32, error) {
	return nil, fmt.Errorf("%w: %s gives no embeddings", ErrUnsupported, b.info.Name)
}

func (b *netBackend) Info() Info               { return b.info }
func (b *netBackend) Sampling() sampler.Params { return sampler.Defaults() }

func (b *netBackend) Stats() Stats {
	info := b.net.card.Info()
	st := Stats{State: "ready", Queued: int(b.waiting.Load()), Passes: map[string]uint64{b.called: b.calls.Load()}, CardFree: info.FreeCMM,
		CardTotal: info.TotalCMM, Temperature: info.Temperature, NPULoad: info.NPULoad}
	switch {
	case b.closed.Load():
		st.State = "closed"
	case b.net.card.Err() != nil:
		st.State = "lost"
	}
	return st
}

func (b *netBackend) Close() error {
	if b.closed.Swap(true) {
		return ErrClosed
	}
	b.net.card.ours.Add(-b.info.Memory.Card)
	if err := errors.Join(b.net.Close(), b.closer()); err != nil {
		return fmt.Errorf("engine: closing %s: %w", b.info.Name, err)
	}
	return nil
}
