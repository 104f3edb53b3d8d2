package search

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/axle-llm/axle/ask"
	"github.com/axle-llm/axle/axcl"
	"github.com/axle-llm/axle/engine/card"
	"github.com/axle-llm/axle/internal/ranked"
)

// ErrNonsense is a vector with a NaN or an infinity in it: the card computed nonsense.
var ErrNonsense = errors.New("search: the vector holds a NaN or an infinity")

// Spec says what a net is that encodes texts.
type Spec struct {
	Name   string      // what errors call it
	Path   string      // its file
	Input  axcl.Tensor // ids, one text a call
	Output axcl.Tensor // a vector, or a row for each token, of which the first is the text's
	Pad    int32       // the id that fills up what a text leaves
	Queue  int         // most requests that wait; 0: 512
}

// Encoder is a net on a card that encodes texts, one text a call.
type Encoder struct {
	spec Spec
	c    *card.Card
	net  axcl.Net // the worker's, as in, out and took
	in   []byte
	out  []byte
	took time.Duration // by the last call

	mu    ranked.Mutex[ranked.Model]
	lines []*line // of keys that wait, the next one first
	n     int     // requests that wait
	over  error
	calls uint64
}

// line is a key's requests, in the order in which they came.
type line struct {
	key   string
	queue []*request
}

// request is a batch of texts.
type request struct {
	ctx   context.Context
	texts [][]int32
	out   [][]float32
	done  chan error
}

// Open loads the net as a piece of a load, and has the card give it turns. room is asked on the
// worker before the file is loaded. Errors: as [axcl.Device.LoadNet]; ErrModel where the card says
// other tensors than spec does; what room gives.
func Open(ctx context.Context, c *card.Card, spec Spec, room func() error) (*Encoder, error) {
	e := &Encoder{spec: spec, c: c}
	if e.spec.Queue <= 0 {
		e.spec.Queue = 512
	}
	if err := c.InPieces(ctx, func(dev axcl.Device, _ func() error) error {
		if err := room(); err != nil {
			return err
		}
		err := c.Watched(card.FileLimit, func() (err error) {
			e.net, err = dev.LoadNet(spec.Path)
			return err
		})
		if err != nil {
			return c.Refused(err)
		}
		if err := e.agree(); err != nil {
			_ = c.Unload(e.net)
			return err
		}
		c.Attach(e, 1)
		return nil
	}); err != nil {
		return nil, err
	}
	return e, nil
}

// agree holds what the card says of the tensors against what the file did.
func (e *Encoder) agree() error {
	same := func(got []axcl.Tensor, want axcl.Tensor) bool {
		return slices.ContainsFunc(got, func(t axcl.Tensor) bool {
			return t.Name == want.Name && t.Type == want.Type && slices.Equal(t.Shape, want.Shape)
		})
	}
	ins, outs := e.net.Inputs(0), e.net.Outputs(0)
	if len(ins) != 1 || !same(ins, e.spec.Input) || !same(outs, e.spec.Output) {
		return fmt.Errorf("search: %w: %s: the card says %v and %v of its tensors, the file %v and %v", axcl.ErrModel, e.spec.Name, ins,
			outs, e.spec.Input, e.spec.Output)
	}
	e.in, e.out = make([]byte, e.spec.Input.Size), make([]byte, e.spec.Output.Size)
	return nil
}

// Most is how many tokens a text may have.
func (e *Encoder) Most() int { return e.spec.Input.Shape[1] }

// Waiting is how many requests wait.
func (e *Encoder) Waiting() int { e.mu.Lock(); defer e.mu.Unlock(); return e.n }

// Calls is how many texts were encoded.
func (e *Encoder) Calls() uint64 { e.mu.Lock(); defer e.mu.Unlock(); return e.calls }

// Err is why nothing is encoded any more, or nil.
func (e *Encoder) Err() error { e.mu.Lock(); defer e.mu.Unlock(); return e.over }

// Embed gives a vector for each text, as the net has it. Keys take turns, a text each. Errors:
// ErrBusy where too many wait, ctx's, ErrRequest for a text that is empty or too long,
// [ErrNonsense], the card's.
func (e *Encoder) Embed(ctx context.Context, texts [][]int32, key string) ([][]float32, error) {
	for i, ids := range texts {
		if len(ids) == 0 || len(ids) > e.Most() {
			return nil, fmt.Errorf("%w: text %d has %d tokens, %s takes 1 to %d", ask.ErrRequest, i, len(ids), e.spec.Name, e.Most())
		}
	}
	if len(texts) == 0 {
		return nil, ctx.Err()
	}
	r := &request{ctx: ctx, texts: texts, done: make(chan error, 1)}
	if err := e.push(r, key); err != nil {
		return nil, err
	}
	e.c.Wake()
	select {
	case err := <-r.done:
		return r.out, err
	case <-ctx.Done(): // it is dropped when its turn comes
		return nil, context.Cause(ctx)
	}
}

func (e *Encoder) push(r *request, key string) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	switch {
	case e.over != nil:
		return e.over
	case e.n >= e.spec.Queue:
		return ask.ErrBusy
	}
	e.n++
	for _, l := range e.lines {
		if l.key == key {
			l.queue = append(l.queue, r)
			return nil
		}
	}
	e.lines = append(e.lines, &line{key, []*request{r}})
	return nil
}

// next is the request whose turn it is, without those whose callers left; nil: there is none. Its
// key stands at the end of the line then.
func (e *Encoder) next() *request {
	e.mu.Lock()
	defer e.mu.Unlock()
	for len(e.lines) > 0 {
		l := e.lines[0]
		for len(l.queue) > 0 && l.queue[0].ctx.Err() != nil {
			l.queue = l.queue[1:]
			e.n--
		}
		e.lines = e.lines[1:]
		if len(l.queue) > 0 {
			//rule:T16 ./engine TestTextEncoderTurns$ e.lines, l => []*line{l}, e.lines...
			e.lines = append(e.lines, l)
			return l.queue[0]
		}
	}
	return nil
}

// end takes a request off its line and tells its caller.
func (e *Encoder) end(r *request, err error) {
	e.mu.Lock()
	for _, l := range e.lines {
		if i := slices.Index(l.queue, r); i >= 0 {
			l.queue = slices.Delete(l.queue, i, i+1)
			e.n--
		}
	}
	e.lines = slices.DeleteFunc(e.lines, func(l *line) bool { return len(l.queue) == 0 })
	e.mu.Unlock()
	r.done <- err
}

// Offer implements card.Tenant.
func (e *Encoder) Offer(k card.Kind) (time.Duration, bool) {
	if k != card.Turn {
		return 0, false
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.took, e.n > 0
}

// Step implements card.Tenant: it encodes one text.
func (e *Encoder) Step(card.Kind) (bool, error) {
	r := e.next()
	if r == nil {
		return false, nil
	}
	ids := r.texts[len(r.out)]
	for i := range e.Most() {
		id := e.spec.Pad
		if i < len(ids) {
			id = ids[i]
		}
		binary.LittleEndian.PutUint32(e.in[4*i:], uint32(id))
	}
	t0 := e.c.Now()
	err := e.c.Watched(20*e.took, func() error {
		return e.net.Run(0, map[string][]byte{e.spec.Input.Name: e.in}, map[string][]byte{e.spec.Output.Name: e.out})
	})
	if err != nil {
		e.end(r, err)
		if axcl.Fatal(err) {
			return true, err
		}
		return true, e.c.Strike(err)
	}
	e.mu.Lock()
	e.took, e.calls = e.c.Now()-t0, e.calls+1
	e.mu.Unlock()
	v := make([]float32, e.spec.Output.Shape[len(e.spec.Output.Shape)-1])
	for i := range v {
		v[i] = math.Float32frombits(binary.LittleEndian.Uint32(e.out[4*i:]))
		if x := float64(v[i]); math.IsNaN(x) || math.IsInf(x, 0) {
			// One text may do that, and can be sent on purpose: it is no strike against the card.
			e.end(r, fmt.Errorf("%w: %s, text %d of %d", ErrNonsense, e.spec.Name, len(r.out)+1, len(r.texts)))
			return true, nil
		}
	}
	if r.out = append(r.out, v); len(r.out) == len(r.texts) {
		e.end(r, nil)
	}
	return true, nil
}

// Fail implements card.Tenant: who waits is told.
func (e *Encoder) Fail(err error) {
	e.mu.Lock()
	lines := e.lines
	e.lines, e.n = nil, 0
	if e.over == nil {
		e.over = err
	}
	e.mu.Unlock()
	for _, l := range lines {
		for _, r := range l.queue {
			r.done <- err
		}
	}
}

// Close ends who waits with ErrClosed and unloads the net. A second Close gives ErrClosed, one
// after the card's loss the loss.
func (e *Encoder) Close() error {
	e.mu.Lock()
	over := e.over
	e.mu.Unlock()
	if over != nil {
		return over
	}
	return e.c.Do(context.Background(), func(axcl.Device) error {
		e.c.Detach(e)
		e.Fail(ask.ErrClosed)
		return e.c.Unload(e.net)
	})
}
