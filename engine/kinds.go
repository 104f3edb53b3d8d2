package engine

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"sync/atomic"
	"time"

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
	case *models.EmbeddingGemma:
		return openEmbeddingGemma(ctx, p, o)
	case *models.Jina:
		return openJina(ctx, p, o)
	case *models.SenseVoice:
		return openSenseVoice(ctx, p, o)
	case *models.Whisper:
		return openWhisper(ctx, p, o)
	case *models.Kokoro:
		return openKokoro(ctx, p, o)
	case *models.Zipformer:
		return openZipformer(ctx, p, o)
	case *models.QwenASR:
		return openQwenASR(ctx, p, o)
	case *models.CLIP:
		return openCLIP(ctx, p, o)
	case *models.Detector:
		return openDetector(ctx, p, o)
	case *models.Faces:
		return openFaces(ctx, p, o)
	case *models.Diffusion:
		return openDiffusion(ctx, p, o)
	}
	return nil, fmt.Errorf("%w: %s: no card is told what to do with a %T", ErrUnsupported, p.Info().Name, p)
}

// netBackend is a model of one or several nets on a card. Each kind of such models embeds it, and
// overrides what the kind can do.
type netBackend struct {
	info    Info
	card    *Card
	nets    []*Net        // in the order of their files
	buffers []axcl.Buffer // what stays on the card between calls
	closer  func() error  // called after the nets have left the card
	turns   *fair.Line    // turns of keys
	waiting requests
	calls   atomic.Uint64
	closed  atomic.Bool
	called  string // what a call does, in the statistics
	free    int64  // card memory before the load
	took    int64  // card memory, as counted in card.ours
}

// openNets puts a model's nets on a card. set is called with what the kinds have in common, and
// returns the backend. Whatever it put on the card is taken off again if it fails.
func openNets(ctx context.Context, p models.Opened, files []models.NetFile, info Info, o OpenOptions,
	set func(n *netBackend) (Backend, error)) (*Model, error) {
	return openNetsWith(ctx, p, files, info, o, Options{}, set)
}

// openNetsWith is openNets for a model that adds something to its backend.
func openNetsWith(ctx context.Context, p models.Opened, files []models.NetFile, info Info, o OpenOptions, adds Options,
	set func(n *netBackend) (Backend, error)) (*Model, error) {
	if o.Draft != nil {
		return nil, fmt.Errorf("%w: %s takes no draft model: it writes no text", ErrUnsupported, info.Name)
	}
	i := p.Info()
	info.Name, info.Family, info.Memory, info.CardBytes = cmp.Or(o.Name, info.Name), i.Family, i.Memory, i.Memory.Card
	if o.Context > 0 && info.Context > 0 {
		info.Context = min(info.Context, o.Context)
	}
	one := func(c *Card, closer func() error) (*Model, error) {
		n := &netBackend{info: info, card: c, closer: closer, turns: fair.New(1, 0)}
		n.info.Device, n.waiting.most = c.Info().ID, o.MaxQueue
		var b Backend
		if err := c.makingRoom(o, info.Memory.Load, func() (err error) {
			n.nets, n.buffers = nil, nil
			if err = n.load(ctx, files, o); err == nil {
				b, err = set(n)
			}
			if err == nil {
				err = n.weigh(ctx)
			}
			if err != nil {
				err = errors.Join(err, n.unload())
			}
			return err
		}); err != nil {
			return nil, err
		}
		adds.Name = info.Name
		return New(b, adds), nil
	}
	choose := func(all []*Card) *Card { return cmp.Or(Place(all, info.Memory.Load), all[0]) }
	return openOn(p, o, choose, one, one)
}

// load loads the nets onto the card, one after the other.
func (b *netBackend) load(ctx context.Context, files []models.NetFile, o OpenOptions) error {
	need := b.info.Memory.Load
	at := Progress{Model: b.info.Name, Total: len(files), Of: b.info.Memory.Layers, Needs: need}
	told := func() {
		if o.Progress != nil {
			o.Progress(at)
		}
	}
	for i, f := range files {
		at.File = f.Path
		n, err := loadNet(ctx, b.card, f.Path, func() error {
			if i > 0 {
				return nil
			}
			if err := b.card.Refresh(); err != nil {
				return err
			}
			now := b.card.Info()
			if b.free, at.Free = now.FreeCMM, now.FreeCMM; now.TotalCMM == 0 && now.Host {
				at.Free = now.FreeMem
			}
			told()
			return b.card.room(b.info.Name, need, need)
		})
		if err != nil {
			return err
		}
		if b.nets = append(b.nets, n); i > 0 {
			// The nets have one account, or each would have its own turn before another model's.
			n.line.Close()
			n.line = b.nets[0].line
		}
		if err := b.agree(n, f); err != nil {
			return err
		}
		if at.Done, at.Bytes = i+1, at.Bytes+f.Size; at.Done == at.Total {
			at.Bytes = at.Of
		}
		told()
	}
	return nil
}

// weigh asks the card what the model took of its memory: at least the prediction, since another
// process may have freed some meanwhile.
func (b *netBackend) weigh(ctx context.Context) error {
	return b.card.Do(ctx, func(axcl.Device) error {
		if err := b.card.Refresh(); err != nil {
			return err
		}
		b.took = max(b.free-b.card.Info().FreeCMM, b.info.Memory.Card)
		b.card.ours.Add(b.took)
		return nil
	})
}

// unload takes the nets off the card, and then the buffers that they were bound to.
func (b *netBackend) unload() error {
	var errs []error
	for _, n := range b.nets {
		errs = append(errs, n.Close())
	}
	if len(b.buffers) > 0 {
		errs = append(errs, b.card.Do(context.Background(), func(axcl.Device) (err error) {
			for _, x := range b.buffers {
				err = errors.Join(err, b.card.Unload(x))
			}
			return err
		}))
	}
	return errors.Join(errs...)
}

// agree compares the card's tensors with the file's. The net may give more than is asked for.
func (b *netBackend) agree(n *Net, f models.NetFile) error {
	all := func(got, want []axcl.Tensor) bool {
		return !slices.ContainsFunc(want, func(w axcl.Tensor) bool {
			return !slices.ContainsFunc(got, func(t axcl.Tensor) bool {
				return t.Name == w.Name && t.Type == w.Type && slices.Equal(t.Shape, w.Shape)
			})
		})
	}
	if ins, outs := n.Tensors(0); len(ins) != len(f.In) || !all(ins, f.In) || !all(outs, f.Out) {
		return fmt.Errorf("engine: %w: %s: the card says %v and %v of its tensors, the file %v and %v", axcl.ErrModel, b.info.Name, ins,
			outs, f.In, f.Out)
	}
	return nil
}

// keep has a kind make its buffers, which stay on the card between calls, and bind them. Too little
// memory is no fault of the card.
func (b *netBackend) keep(ctx context.Context, bind func(dev axcl.Device) error) error {
	return b.card.InPieces(ctx, func(dev axcl.Device, _ func() error) error {
		return b.card.Refused(b.card.Watched(0, func() error { return bind(dev) }))
	})
}

// buffer makes a buffer that leaves the card with the nets.
func (b *netBackend) buffer(dev axcl.Device, size int) (axcl.Buffer, error) {
	x, err := dev.NewBuffer(size)
	if err == nil {
		b.buffers = append(b.buffers, x)
	}
	return x, err
}

// turn waits until the nets are a key's. done ends this. A card that is lost may still use what the
// call was given that it never answered: no turn begins then.
func (b *netBackend) turn(ctx context.Context, key string) (done func(), err error) {
	if err := b.turns.Take(ctx, key, 0, 1); err != nil {
		return nil, err
	}
	done = func() { b.turns.Done(key, 1, 1) }
	if err = b.card.Err(); b.closed.Load() {
		err = ErrClosed
	}
	if err != nil {
		done()
		return nil, err
	}
	return done, nil
}

// requests counts those that a model has not answered yet.
type requests struct {
	most int // 0 means 512
	atomic.Int64
}

// enter counts a request, and leave ends this. Error: ErrBusy.
func (r *requests) enter() (leave func(), err error) {
	if r.Add(1) > int64(cmp.Or(max(r.most, 0), 512)) {
		r.Add(-1)
		return nil, ErrBusy
	}
	return func() { r.Add(-1) }, nil
}

// counted yields what a request's sequence does, or ErrBusy alone.
func counted[T any](r *requests, sequence iter.Seq2[T, error]) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		leave, err := r.enter()
		if err != nil {
			yield(*new(T), err)
			return
		}
		defer leave()
		sequence(yield)
	}
}

// step runs f as one piece of work for the card: between its calls no other model has its turn. f
// says of each call how it went. Another error of f is no fault of the card.
func (b *netBackend) step(ctx context.Context, f func(called func(error) error) error) error {
	var failed, ended error
	if _, err := b.nets[0].piece(ctx, func(axcl.Device) error {
		ended = f(func(err error) error {
			if failed = err; err == nil {
				b.calls.Add(1)
			}
			return err
		})
		return failed
	}); err != nil {
		return err // a call that never returned may yet write the others
	}
	return ended
}

// call calls the first net.
func (b *netBackend) call(ctx context.Context, in, out map[string][]byte) error {
	return b.callNet(ctx, 0, in, out)
}

// callNet calls net i.
func (b *netBackend) callNet(ctx context.Context, i int, in, out map[string][]byte) error {
	if _, err := b.nets[i].run(ctx, 0, in, out); err != nil {
		return err
	}
	b.calls.Add(1)
	return nil
}

// encodeTexts has a vector made for each text. Keys take turns, one text each.
func (b *netBackend) encodeTexts(ctx context.Context, inputs [][]int32, most int, key string,
	encode func(ctx context.Context, ids []int32) ([]float32, error)) ([][]float32, error) {
	for i, ids := range inputs {
		if len(ids) == 0 || len(ids) > most {
			return nil, fmt.Errorf("%w: text %d has %d tokens, %s takes 1 to %d", ErrRequest, i, len(ids), b.info.Name, most)
		}
	}
	leave, err := b.waiting.enter()
	if err != nil {
		return nil, err
	}
	defer leave()
	if err := b.turns.Take(ctx, key, 0, 1); err != nil {
		return nil, err
	}
	out := make([][]float32, len(inputs))
	for i, ids := range inputs {
		//rule:T16 TestTextEncoderTurns$ false
		if i > 0 {
			if err := b.turns.Next(ctx, key, 1, 1, 0, 1); err != nil {
				return nil, err
			}
		}
		var err error
		if out[i], err = encode(ctx, ids); err != nil {
			b.turns.Done(key, 1, 1)
			return nil, err
		}
	}
	b.turns.Done(key, 1, 1)
	return out, nil
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
	info := b.card.Info()
	st := Stats{State: "ready", Queued: int(b.waiting.Load()), Passes: map[string]uint64{b.called: b.calls.Load()}, CardFree: info.FreeCMM,
		CardTotal: info.TotalCMM, Temperature: info.Temperature, NPULoad: info.NPULoad}
	for _, n := range b.nets {
		st.Piece = max(st.Piece, time.Duration(n.most.Load()))
	}
	switch {
	case b.closed.Load():
		st.State = "closed"
	case b.card.Err() != nil:
		st.State = "lost"
	}
	return st
}

func (b *netBackend) Close() error {
	if b.closed.Swap(true) {
		return ErrClosed
	}
	b.card.ours.Add(-b.took)
	err := b.unload()
	if b.card.Err() == nil { // what is free now decides which card the next model goes to
		err = errors.Join(err, b.card.Do(context.Background(), func(axcl.Device) error { return b.card.Refresh() }))
	}
	if err = errors.Join(err, b.closer()); err != nil {
		return fmt.Errorf("engine: closing %s: %w", b.info.Name, err)
	}
	return nil
}
