package engine

import (
	"context"
	"time"

	"github.com/axle-llm/axle/axcl"
)

// PassTrace says where one turn of the worker spent its time, for [CardOptions].Trace. Times are by
// the card's clock. Timing is the library's own account of Run, by the host's clock. The engine
// reuses the value and its Parts after the function returns.
type PassTrace struct {
	// Kind is as in Stats.Passes. "draft" is a pass of the draft model, within the Draft of the
	// pass that it guesses for. "head" is no pass: the host took rows through the LM head, from
	// Start to End, while the card ran other passes.
	Kind  string
	Rows  int
	Reach int // one more than the highest cell that the pass sees
	Want  int // rows whose logits are needed
	Parts []PassPart

	Start      time.Duration // when the turn began
	Plan       time.Duration // choosing the sequences, admitting and ending them
	Draft      time.Duration // guessing with the draft model, its passes included
	Build      time.Duration // rows, positions, cells and masks, Embed included
	Embed      time.Duration // reading embeddings
	Run        time.Duration // inside the device
	HostHead   time.Duration // the LM head, where the host computes it
	Sample     time.Duration // sampling, storing and delivering tokens, Detokenize included
	Detokenize time.Duration
	End        time.Duration // when the turn ended

	Layers, Head time.Duration // predicted by the scheduler: the shape group's layers, and the card's LM head for all wanted rows
	Timing       axcl.Timing
}

// PassPart is one sequence's share of a pass.
type PassPart struct {
	Seq    uint64 // the sequence's number, in order of admission
	From   int    // index of its first row in the sequence
	Rows   int
	Drafts int // of these, guesses
	Want   int
}

// tracer measures a turn. Without CardOptions.Trace it costs one comparison a step: every method
// does nothing on a nil receiver.
type tracer struct {
	now  func() time.Duration
	last time.Duration
	PassTrace
}

// begin starts to measure a turn. It returns nil if passes are not traced.
func (m *core) begin() *tracer {
	if !tracing || m.card.o.Trace == nil {
		return nil
	}
	if m.trace == nil {
		m.trace = &tracer{now: m.card.Now}
	}
	t := m.trace
	at := t.now()
	t.PassTrace = PassTrace{Start: at, Parts: t.Parts[:0]}
	t.last = at
	return t
}

// lap adds the time since the last lap to a field.
func (t *tracer) lap(to func(*PassTrace) *time.Duration) {
	if !tracing || t == nil {
		return
	}
	at := t.now()
	*to(&t.PassTrace) += at - t.last
	t.last = at
}

// clock and since measure a part of a lap.
func (t *tracer) clock() time.Duration {
	if !tracing || t == nil {
		return 0
	}
	return t.now()
}

func (t *tracer) since(to func(*PassTrace) *time.Duration, at time.Duration) {
	if tracing && t != nil {
		*to(&t.PassTrace) += t.now() - at
	}
}

func planTime(p *PassTrace) *time.Duration   { return &p.Plan }
func draftTime(p *PassTrace) *time.Duration  { return &p.Draft }
func buildTime(p *PassTrace) *time.Duration  { return &p.Build }
func embedTime(p *PassTrace) *time.Duration  { return &p.Embed }
func runTime(p *PassTrace) *time.Duration    { return &p.Run }
func sampleTime(p *PassTrace) *time.Duration { return &p.Sample }
func wordsTime(p *PassTrace) *time.Duration  { return &p.Detokenize }

// split takes the host's head out of the time inside the device.
func (t *tracer) split(head time.Duration) {
	if tracing && t != nil {
		t.HostHead = head
		t.Run -= head
	}
}

// describe records what the built pass is.
func (t *tracer) describe(b *batch, group int) {
	b.pass.Timing = nil
	if !tracing || t == nil {
		return
	}
	t.Timing = axcl.Timing{}
	b.pass.Timing = &t.Timing
	onCard, onHost := len(b.pass.Want), len(b.leftToHost)
	t.Rows, t.Want, t.Reach = b.pass.Rows(), onCard+onHost, b.pass.Reach(b.shape)
	layers := b.costs.predict(group, 0)
	t.Layers = layers + time.Duration(b.costs.copies(b.pass.Cell)*float64(time.Second))
	t.Head = b.costs.predict(group, onCard) - layers
	for i := range b.shares {
		h := &b.shares[i]
		t.Parts = append(t.Parts, PassPart{Seq: h.s.admit, From: h.from, Rows: h.rows(), Drafts: len(h.draft), Want: h.wants})
	}
}

// report passes the measurements to CardOptions.Trace.
func (t *tracer) report(m *core, kind string) {
	if !tracing || t == nil {
		return
	}
	t.Kind, t.End = kind, t.last
	m.card.o.Trace(&t.PassTrace)
}

// Backend returns what the model runs on, for measuring without templates and parsing.
func (m *Model) Backend() Backend { return m.b }

// Hold keeps a card's backend from running passes until the returned function is called, so that
// requests can gather. It does nothing on a backend without its own card, or on a lost card.
func Hold(b Backend) (resume func()) {
	c, ok := b.(*cardBackend)
	if !ok {
		return func() {}
	}
	held, free, done := make(chan struct{}), make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		_ = c.card.Do(context.Background(), func(axcl.Device) error { close(held); <-free; return nil })
	}()
	select {
	case <-held:
	case <-done: // the card is gone
	}
	return func() { close(free); <-done }
}

// Forget drops the cached texts of a card's backend, and those that guesses come from, so that the
// next request is a cold one.
// Errors: as Card.Do.
func Forget(ctx context.Context, b Backend) error {
	c, ok := b.(*cardBackend)
	if !ok {
		return nil
	}
	return c.card.Do(ctx, func(axcl.Device) error {
		c.m.cells.Forget()
		c.m.planner.texts = nil
		return nil
	})
}

// Settle waits until a card's backend has saved its cached texts to the RAM tier and the disk tier,
// as it does while idle. It is for measuring restores. On a backend without its own card it does
// nothing. Errors: as Card.Do, ctx's, and the card's.
func Settle(ctx context.Context, b Backend) error {
	c, ok := b.(*cardBackend)
	if !ok {
		return nil
	}
	for {
		left := false
		if err := c.card.Do(ctx, func(axcl.Device) error {
			for c.m.turn.at >= passing { // the last pass is finished first
				if _, err := c.m.step(); err != nil {
					return err
				}
			}
			for did := true; did; {
				var err error
				if did, err = c.m.idle(); err != nil {
					return err
				}
			}
			if d := c.m.diskTier; d != nil && !d.disk.Off() {
				left = d.saving != nil || len(d.texts) > 0
			}
			return nil
		}); err != nil || !left {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(time.Millisecond): // the disk is written by other goroutines
		}
	}
}

// SettleHead waits until a card's backend has compared the LM head on the host with the card's, if
// it does. Errors: as Card.Do, ctx's.
func SettleHead(ctx context.Context, b Backend) error {
	c, ok := b.(*cardBackend)
	for ok {
		var making *makingHead
		if err := c.card.Do(ctx, func(axcl.Device) error {
			c.m.heads.adopt()
			making = c.m.heads.making
			return nil
		}); err != nil || making == nil {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-making.done:
		}
	}
	return nil
}

// ShapeOf returns the shape of a card's backend, or the zero Shape for others.
func ShapeOf(b Backend) axcl.Shape {
	if c, ok := b.(*cardBackend); ok {
		return c.m.shape
	}
	return axcl.Shape{}
}
