package engine

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/axle-llm/axle/axcl"
	"github.com/axle-llm/axle/engine/cache"
	"github.com/axle-llm/axle/models"
	"github.com/axle-llm/axle/sampler"
	"github.com/axle-llm/axle/tokenizer"
)

// This file is a language model on a card, as the card's worker sees it: its queue, its running
// sequences, and its passes.

// rowSource returns the embedding of a token. models.Embeddings implements it.
type rowSource interface {
	Row(dst []uint16, id int32) error
}

// lm is a language model on a card. All of it belongs to the card's worker, except where a comment
// says otherwise.
type lm struct {
	*core
	layout   *layout
	ramTier  *ramTier  // nil: rows are on the card or nowhere
	diskTier *diskTier // nil: nothing is saved on disk
	canary   *canary
	prover   *prover
	batch    *batch
	planner  *planner
	heads    *heads
	pictures *pictureInputs

	stop       map[int32]bool // ids that end an answer
	adapters   []*models.Adapter
	repeatable bool // every sequence is repeatable: see repeatable.go
	parallel   int
	admitted   uint64
	turn       turn
	drawn      drawn // the map of the cells: see map.go
}

// embedding collects the rows of a sequence that asks for a vector: those of the head if it gives
// vectors, otherwise those of the last layer.
type embedding struct {
	pooling string // mean of all rows, first row, or (otherwise) the last
	hidden  bool   // rows of the last layer
	sum     []float64
	n       int
	picks   []int32 // if not nil: collect these logits of the last row
}

// reset clears the vector: all rows go through the card again.
func (e *embedding) reset() {
	clear(e.sum)
	e.n = 0
}

// whole reports whether all rows of the sequence must go through the card, cached or not, because
// their outputs are needed.
func (s *seq) whole() bool {
	return s.embed != nil && (s.embed.pooling == "mean" || s.embed.pooling == "first")
}

// wants reports whether the output of row i of the sequence is needed.
func (s *seq) wants(i int) bool {
	switch {
	case s.embed != nil && s.embed.pooling == "mean":
		return true
	case s.embed != nil && s.embed.pooling == "first":
		return i == 0
	}
	return i >= len(s.ids)-1
}

func newLM(card *Card, model axcl.Model, embed rowSource, tok *tokenizer.Tokenizer, stop []int32, o OpenOptions) *lm {
	c := newCore(card, model, embed, tok, o)
	m := &lm{core: c, layout: &layout{core: c}, canary: newCanary(c), stop: map[int32]bool{}, repeatable: o.Repeatable,
		parallel: o.Parallel}
	m.prover = &prover{core: c, canary: m.canary}
	m.batch = &batch{core: c, layout: m.layout, checks: func() bool { due, _ := m.canary.overdue(); return due }}
	m.heads = &heads{core: c, place: cmp.Or(o.Head, HeadAuto), tell: o.HeadKnown}
	m.heads.stats.Place = m.heads.place
	m.batch.later = func() bool { return m.heads.late(m.batch, len(m.planner.ready)-1+m.waiters()) }
	m.heads.meanwhile = func() { m.heads.compute(m.batch) }
	m.planner = &planner{core: c, layout: m.layout, batch: m.batch}
	m.pictures = &pictureInputs{core: c}
	for _, id := range stop {
		m.stop[id] = true
	}
	if m.parallel <= 0 {
		m.parallel = 32
	}
	m.drawn.turn = make(chan struct{}, 1)
	return m
}

// openDisk opens the model's disk tier, and openRAM, which comes after it, the RAM tier. Both
// measure costs, so they must run before any sequence.
func (m *lm) openDisk(d cache.Medium, digest, model string) (err error) {
	m.diskTier, err = openDiskTier(m.core, d, digest, model)
	return err
}

func (m *lm) openRAM(memory *Memory) (err error) {
	if m.ramTier, err = openRAMTier(m.core, m.layout, memory); m.diskTier != nil {
		m.diskTier.ramTier = m.ramTier
	}
	return err
}

// submit queues a sequence.
func (m *lm) submit(ctx context.Context, job Job, e *embedding, ps ...*picture) (*seq, error) {
	vocab := m.vocab()
	for _, id := range job.IDs {
		if id < 0 || int(id) >= vocab {
			return nil, fmt.Errorf("%w: token id %d, the vocabulary has %d", ErrRequest, id, vocab)
		}
	}
	if job.NumCtx <= 0 || job.NumCtx > m.shape.Cells {
		job.NumCtx = m.shape.Cells
	}
	if len(job.IDs) == 0 {
		return nil, fmt.Errorf("%w: no tokens", ErrRequest)
	}
	if len(job.IDs) > job.NumCtx {
		return nil, &ContextError{Have: len(job.IDs), Max: job.NumCtx}
	}
	sm, err := sampler.New(job.Sampling, max(m.shape.Out, 2))
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrRequest, err)
	}
	key, client, adapter, err := m.adapted(job.Key)
	if err != nil {
		return nil, err
	}
	job.Key = client
	s := &seq{job: job, embed: e, sampler: sm}
	s.adapter = adapter
	s.ctx, s.asked = ctx, m.card.Now()
	s.box.wake = make(chan struct{}, 1)
	s.ids = append(make([]int32, 0, len(job.IDs)+256), job.IDs...)
	s.Seq = cache.NewSeq(key, m.shape.Cells, m.shape.Local)
	s.greedy = e == nil && sm.Greedy() && job.Mask == nil && !job.Sampling.Logprobs
	s.repeatable, s.prompt = job.Repeatable || m.repeatable, len(job.IDs)
	if err := m.pictures.show(s, ps); err != nil {
		return nil, err
	}
	s.spec.start(s.repeatable || !m.limits.Back || job.Speculate != nil && !*job.Speculate || m.card.o.NoSpeculate)
	if e == nil {
		sm.Accept(job.IDs...)
		if m.tokenizer != nil {
			s.text = m.tokenizer.Stream(true)
		}
	}
	m.diskTier.ask(s)
	if err := m.queue.push(s); err != nil {
		return nil, err
	}
	m.card.Wake()
	return s, nil
}

// reaches returns how many cells each of the groups sees.
func reaches(groups []axcl.Group) (cells []int) {
	for _, g := range groups {
		cells = append(cells, g.Cells)
	}
	return cells
}

// reap ends the sequences whose caller has left.
func (m *lm) reap() {
	left := func(s *seq) bool {
		if !s.gone.Load() && s.ctx.Err() == nil {
			return false
		}
		s.box.fail(context.Cause(s.ctx))
		return true
	}
	running := len(m.running)
	for i := 0; i < len(m.running); {
		s := m.running[i]
		if !left(s) {
			i++
			continue
		}
		m.planner.texts.add(s)
		m.diskTier.note(s)
		m.quit(s, exitEnded)
		m.tally(s, func(st *Stats) {
			if s.pleased.Load() {
				st.Done++ // the reader had all that it needed: a stop string, or its one tool call
			} else {
				st.Cancelled++
			}
		})
	}
	m.queue.reap(left)
	if len(m.running) != running {
		m.queue.update(func(st *Stats) {
			st.Running = len(m.running)
			m.survey(st)
		})
	}
}

// fit builds the planned pass, and makes it smaller while cells are lacking. It returns false if
// nothing is left of the pass.
func (m *lm) fit() bool {
	for {
		err := m.batch.build()
		switch {
		case err == nil:
			return true
		case errors.Is(err, errNoCells):
			if !m.shrink() {
				return false
			}
		default:
			for i := range m.batch.shares {
				if r := (*rowError)(nil); !errors.As(err, &r) || r.share == i {
					m.end(m.batch.shares[i].s, err)
				}
			}
			return false
		}
	}
}

// turn is the progress of one turn of the model. It pauses after each piece so that other tenants
// get their turns, and then continues.
type turn struct {
	at       turnStage
	restored bool // rows came from disk
	worked   bool // the card did something before the pass
	passed   bool // a pass has run
	saved    bool // rows went to memory
	trace    *tracer
	took     time.Duration // of the last pass
}

// turnStage is one stage of a turn.
type turnStage uint8

const (
	begun         turnStage = iota
	restoringDisk           // sequences without a caller end, and rows come from disk
	restoringRAM            // waiting sequences are admitted; rows are moved and restored for the pass
	encoding                // a picture
	passing
	checking  // the canary row, if it is overdue
	savingRAM // rows that are on the card only are saved to memory, if their cells may soon be needed
	toDisk    // a save to disk, now and then, because the model may never be idle
)

// step does the next piece of the model's turn, and reports whether there was one. A fatal error is
// returned, and ends the card.
func (m *lm) step() (did bool, err error) {
	for t := &m.turn; ; {
		switch t.at++; t.at {
		case restoringDisk:
			t.trace = m.begin()
			m.heads.adopt()
			m.reap()
			if _, err := m.settleLate(false); err != nil {
				return true, err
			}
			m.forgetPictures()
			did, err = m.diskTier.restore()
			t.restored = did
		case restoringRAM:
			m.layout.shift()
			m.admit()
			if did, err = m.layout.relocate(); err == nil && !did {
				did, err = m.ramTier.restore()
			}
		case encoding:
			did, err = m.encode()
		case passing:
			if t.passed, did, err = m.onePass(); !t.passed || err != nil { // nothing follows
				again := t.worked && !did && err == nil
				if *t = (turn{took: t.took}); again {
					continue // with the rows that came
				}
				return did, err
			}
		case checking:
			if _, did = m.canary.overdue(); did {
				//rule:D6 TestCanaryRow$ drop
				err = m.lookCanary()
			}
		case savingRAM:
			did, err = m.ramTier.save(true)
			t.saved = did
		case toDisk:
			if !t.restored && !t.saved && m.batch.passes%diskEvery == 0 {
				did, err = m.diskTier.save()
			}
			m.verify()
			if *t = (turn{took: t.took}); !did && err == nil {
				continue
			}
			return did, err
		}
		t.worked = t.worked || did
		if did || err != nil {
			return did, err
		}
	}
}

// forgetPictures takes all sequences off their cells if the numbers for pictures have run out.
func (m *lm) forgetPictures() {
	if m.pictures.encoder.ranOut() {
		for _, s := range m.running {
			m.quit(s, exitRecalled)
		}
		m.distrust()
	}
}

// onePass runs one pass, if there is one to run. passed says that the pass ran and the stages after
// it are due. did says that anything was done.
func (m *lm) onePass() (passed, did bool, err error) {
	b, tr := m.batch, m.turn.trace
	if m.turn.worked {
		tr = m.begin() // earlier pieces of the turn are not part of this trace
	}
	if m.planner.plan() == nil {
		if did, err = m.settleLate(true); !did || err != nil || m.planner.plan() == nil {
			return false, did, err
		}
	}
	if h := &b.shares[0]; !m.proven.Scatter && len(h.s.Path) == 0 {
		m.layout.start(h.s) // it had given up its cells to another
		m.planner.plan()    // its new place decides which pass is best
	}
	tr.lap(planTime)
	if !m.fit() {
		return false, true, nil
	}
	m.canary.add(b)
	g := m.shape.GroupFor(b.pass.Rows(), b.pass.Reach(m.shape))
	tr.lap(buildTime)
	tr.describe(b, g)
	t0 := m.card.Now()
	copies := time.Duration((m.costs.copies(b.pass.Cell) + m.costs.host.of(len(b.leftToHost))) * float64(time.Second))
	m.heads.begin(b)
	err = m.card.Run(m.model, &b.pass, m.costs.predict(g, len(b.pass.Want))+copies)
	if err != nil {
		b.lostState(errors.Is(err, axcl.ErrPass))
	}
	took := m.card.Now() - t0
	tr.lap(runTime)
	tr.split(m.heads.took)
	b.passes++
	if err != nil {
		m.canary.row.cell = none
		return false, true, m.failed(err)
	}
	m.turn.took = took
	//rule:G19 TestPictureCosts len(b.pass.Add) == 0 => true
	if len(b.pass.Add) == 0 { // a pass that stops between layers says nothing about others
		m.costs.observe(g, len(b.pass.Want), b.pass.Cell, took-m.heads.took)
	}
	m.ledger.lost += m.costs.copies(b.pass.Cell)
	if err := m.heads.end(b); err != nil {
		return false, true, m.failed(err)
	}
	m.canary.row.worked += took.Seconds()
	m.canary.looked = looked{}
	if err := m.canary.remove(b); err != nil {
		return false, true, m.wrong(err)
	}
	drafts := 0
	for i := range b.shares {
		drafts += len(b.shares[i].draft)
		if !b.shares[i].rest {
			b.shares[i].s.served = b.passes
		}
		m.settle(&b.shares[i])
	}
	if b.late {
		m.heads.later(b)
	}
	kind := b.account(took, drafts)
	tr.lap(sampleTime)
	tr.report(m.core, kind)
	return true, true, m.spoiled()
}

// shrink makes a pass smaller that found no cells. First it drops the guesses, then it frees the
// cells of sequences with slow readers, then it sends the youngest sequence back to the queue. It
// returns false if nothing is left of the pass.
func (m *lm) shrink() bool {
	for i := range m.batch.shares {
		if len(m.batch.shares[i].draft) > 0 {
			for j := range m.batch.shares {
				m.batch.shares[j].draft = nil
			}
			return true
		}
	}
	if m.aside() {
		return true
	}
	var youngest *seq
	live := 0
	for _, s := range m.running {
		if s.box.full() {
			continue
		}
		if live++; youngest == nil || s.admit > youngest.admit {
			youngest = s
		}
	}
	if live == 1 {
		m.end(youngest, &ContextError{Have: len(youngest.ids), Max: m.shape.Cells})
		return false
	}
	m.quit(youngest, exitPreempted)
	m.batch.shares = slices.DeleteFunc(m.batch.shares, func(h share) bool { return h.s == youngest })
	return len(m.batch.shares) > 0
}
