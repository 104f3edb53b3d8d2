package engine

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/axle-llm/axle/axcl"
	"github.com/axle-llm/axle/sampler"
	"github.com/axle-llm/axle/tokenizer"
)

// rowSource gives the embedding of a token (models.Embeddings is one).
type rowSource interface {
	Row(dst []uint16, id int32) error
}

// Proven says what a model on this card was shown to do, beyond what every card does. What was not shown is not used.
type Proven struct {
	Chunk   bool // a prefill call that is not full gives what its rows give alone
	Mixed   bool // rows of one call may have unrelated positions, cells and masks
	Scatter bool // a sequence's cells may be any, in any order
}

// lm is a language model on a card. Everything in it belongs to the card's worker, except what is said to be otherwise.
type lm struct {
	card   *Card
	model  axcl.Model
	shape  axcl.Shape
	embed  rowSource
	words  *tokenizer.Tokenizer
	stop   map[int32]bool // ids that end an answer
	cells  *cells
	costs  costs
	proven Proven

	decode    int // the decode group used for one row
	wide      int // most rows of a wide pass; 0: there is none
	wideReach int // farthest cell a wide pass sees
	minWide   int // rows of the narrowest wide group
	window    int // local layers see rows whose position is within so many of a row's own; 0: there are none

	parallel int
	running  []*seq
	passes   uint64
	admitted uint64
	fails    []time.Duration // when executes failed, the last minute's

	pass   axcl.Pass
	shares []share
	ready  []*seq
	limits []int
	taken  []int32
	logits []uint16
	argmax []int32

	trace   *tracer          // nil: nobody looks
	drafter *drafter         // nil: no draft model
	sample  []int32          // what the card said to a fixed text at load; nil: not asked
	checked time.Duration    // when it was last asked
	checker *sampler.Sampler // finds logits that are nonsense
	asking  []*seq
	askFor  []int

	mu       sync.Mutex // guards queue, maxQueue, closing, stats: callers use them too
	queue    []*seq
	open     map[*seq]struct{} // every sequence whose caller still waits
	maxQueue int
	closing  error
	stats    Stats
	counted  time.Duration // when cells were last counted
}

// embedding collects the head's rows of a sequence that asks for a vector.
type embedding struct {
	pooling string // mean over all rows, the first row, or (else) the last
	sum     []float64
	n       int
}

// whole reports whether the sequence's rows must all go through the card, cached or not: their outputs are needed.
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

func newLM(card *Card, model axcl.Model, embed rowSource, words *tokenizer.Tokenizer, stop []int32, o OpenOptions) *lm {
	m := &lm{card: card, model: model, shape: model.Shape(), embed: embed, words: words, stop: map[int32]bool{}, open: map[*seq]struct{}{}, parallel: o.Parallel, maxQueue: o.MaxQueue}
	m.shape.Pos = max(m.shape.Pos, 1)
	for _, id := range stop {
		m.stop[id] = true
	}
	if m.parallel <= 0 {
		m.parallel = 32
	}
	if m.maxQueue <= 0 {
		m.maxQueue = 512
	}
	m.cells = newCells(m.shape.Cells)
	m.checked = time.Since(card.start)
	greedy := sampler.Defaults()
	greedy.Temperature = 0
	m.checker, _ = sampler.New(greedy, max(m.shape.Out, 2))
	m.costs.group = make([]float64, len(m.shape.Groups))
	m.decode = m.shape.GroupFor(1, 0)
	for _, g := range m.shape.Groups {
		if g.Rows > 1 {
			m.wide = max(m.wide, g.Rows)
			m.wideReach = max(m.wideReach, g.Cells)
			if m.minWide == 0 || g.Rows < m.minWide {
				m.minWide = g.Rows
			}
		}
	}
	for _, g := range m.shape.Groups {
		if g.Rows > 1 && g.Cells > 0 {
			m.cells.rungs = append(m.cells.rungs, g.Cells)
		}
	}
	slices.Sort(m.cells.rungs)
	m.stats.Passes = map[string]uint64{}
	m.stats.State = "ready"
	return m
}

// submit queues a sequence.
func (m *lm) submit(ctx context.Context, job Job, e *embedding) (*seq, error) {
	for _, id := range job.IDs {
		if id < 0 || int(id) >= m.vocab() {
			return nil, fmt.Errorf("%w: token id %d, the vocabulary has %d", ErrRequest, id, m.vocab())
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
	s := &seq{ctx: ctx, job: job, embed: e, sampler: sm, asked: m.card.now()}
	s.box.wake = make(chan struct{}, 1)
	s.ids = append(make([]int32, 0, len(job.IDs)+256), job.IDs...)
	m.eyes(s)
	s.greedy = e == nil && sm.Greedy() && job.Mask == nil && !job.Sampling.Logprobs
	s.spec = speculator{guess: none, rate: [2]float64{fromModel: 0.6}, off: job.Speculate != nil && !*job.Speculate || m.card.o.NoSpeculate}
	if e == nil {
		sm.Accept(job.IDs...)
		if m.words != nil {
			s.text = m.words.Stream(true)
		}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	switch {
	case m.closing != nil:
		return nil, m.closing
	case len(m.queue) >= m.maxQueue:
		m.stats.Rejected++
		return nil, ErrBusy
	}
	m.queue = append(m.queue, s)
	m.open[s] = struct{}{}
	m.card.wakeUp()
	return s, nil
}

// eyes gives a sequence the bits of what it sees.
func (m *lm) eyes(s *seq) {
	s.see = make([]uint64, axcl.Words(m.shape.Cells))
	if m.shape.Local {
		s.near = make([]uint64, len(s.see))
	}
}

func (m *lm) vocab() int {
	if m.words != nil {
		return max(m.words.Vocab(), m.shape.Out)
	}
	return m.shape.Out
}

// reap lets go of sequences whose caller left.
func (m *lm) reap() {
	left := func(s *seq) bool {
		if !s.gone.Load() && s.ctx.Err() == nil {
			return false
		}
		s.box.fail(context.Cause(s.ctx))
		return true
	}
	running := len(m.running)
	m.running = slices.DeleteFunc(m.running, func(s *seq) bool {
		if !left(s) {
			return false
		}
		m.leave(s)
		m.tally(s, func(st *Stats) { st.Cancelled++ })
		return true
	})
	m.mu.Lock()
	defer m.mu.Unlock()
	m.queue = slices.DeleteFunc(m.queue, func(s *seq) bool {
		if !left(s) {
			return false
		}
		m.stats.Cancelled++
		return true
	})
	if len(m.running) != running {
		m.stats.Running = len(m.running)
		m.survey()
	}
}

// leave takes a sequence off its cells; they stay as a cache.
func (m *lm) leave(s *seq) {
	if m.drafter != nil {
		m.drafter.leave(s)
	}
	m.cells.release(s.tip(m.cells))
	s.path = nil
	clear(s.see)
	clear(s.near)
	s.far = 0
}

// dequeue takes the first sequence off the queue, or gives nil; requeue puts one back in front.
func (m *lm) dequeue() *seq {
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.queue) == 0 {
		return nil
	}
	s := m.queue[0]
	m.queue = slices.Delete(m.queue, 0, 1)
	return s
}

func (m *lm) requeue(s *seq) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closing == nil {
		m.queue = slices.Insert(m.queue, 0, s)
	}
}

// admit starts queued sequences, in order, while their prompts fit beside what is running. A sequence whose reader does not read keeps
// nobody out: it gives up its place, and its cells where they are needed, and finds what is left of them when it goes on.
func (m *lm) admit() {
	for !m.card.hot {
		live := 0
		for _, r := range m.running {
			if !r.box.full() {
				live++
			}
		}
		if live >= m.parallel || !m.proven.Scatter && live > 0 {
			return
		}
		s := m.dequeue()
		if s == nil {
			return
		}
		m.start(s)
		if live > 0 && !m.fits(s) {
			for _, r := range m.running {
				if r.box.full() {
					m.leave(r)
				}
			}
			if !m.fits(s) {
				m.leave(s)
				m.requeue(s)
				return
			}
		}
		m.admitted++
		s.admit, s.served = m.admitted, m.passes
		if !s.begun {
			s.begun = true
			s.started = m.card.now()
			s.usage.Queue = s.started - s.asked
			s.usage.Cached = len(s.path)
			s.usage.Prompt = len(s.ids)
		}
		m.running = append(m.running, s)
		m.count(func(*Stats) {})
	}
}

// fits reports whether there are cells for what s has still to evaluate, beside what the others need soon.
func (m *lm) fits(s *seq) bool {
	committed := s.pending() + 16
	for _, r := range m.running {
		if !r.box.full() {
			committed += r.pending() + min(16, max(r.room(), 0))
		}
	}
	return m.cells.available() >= committed
}

// start puts a sequence on the longest cached prefix of its ids, at least one id left to evaluate.
func (m *lm) start(s *seq) {
	root := m.cells.root(s.job.Key)
	switch {
	case s.whole():
		s.path = nil // every row's output is needed
	case !m.proven.Scatter:
		// Cells must be used in order: only one sequence lives on the card, and it keeps what begins alike.
		for _, r := range m.running {
			m.leave(r)
		}
		m.inOrder(s, root)
	default:
		s.stand(m.cells, m.cells.match(nil, root, s.ids, len(s.ids)-1))
	}
}

// inOrder frees every cell that does not hold, at its own place, the token that s has there.
func (m *lm) inOrder(s *seq, root int32) {
	path := m.cells.match(nil, root, s.ids, len(s.ids)-1)
	for i, n := range path {
		if int(n) != i {
			path = path[:i]
			break
		}
	}
	s.stand(m.cells, path)
	m.cells.forget()
}

// step runs one pass, and reports whether there was one to run. A fatal error is returned for the card to end on.
func (m *lm) step() (bool, error) {
	tr := m.begin()
	m.reap()
	m.admit()
	if m.plan() == nil {
		return false, nil
	}
	if h := &m.shares[0]; !m.proven.Scatter && len(h.s.path) == 0 {
		m.start(h.s) // it had stood aside for another
		h.from, h.n = len(h.s.path), min(h.n, h.s.pending())
	}
	tr.lap(planTime)
	for {
		err := m.build()
		if err == nil {
			break
		}
		if !errors.Is(err, errNoCells) {
			for i := range m.shares {
				m.end(m.shares[i].s, err)
			}
			return true, nil
		}
		if !m.shrink() {
			return true, nil
		}
	}
	g := m.shape.GroupFor(m.pass.Rows(), m.pass.Reach(m.shape))
	tr.lap(buildTime)
	tr.describe(m, g)
	t0 := m.card.now()
	err := m.card.run(m.model, &m.pass, m.costs.predict(g, len(m.pass.Want)))
	took := m.card.now() - t0
	tr.lap(runTime)
	m.passes++
	if err != nil {
		return true, m.failed(err)
	}
	m.costs.observe(g, len(m.pass.Want), took)
	drafts := 0
	for i := range m.shares {
		drafts += len(m.shares[i].draft)
		m.shares[i].s.served = m.passes
		m.settle(&m.shares[i])
	}
	kind := m.account(took, drafts)
	tr.lap(sampleTime)
	tr.report(m, kind)
	return true, nil
}

// shrink makes a pass smaller that found no cells: guesses go first, then the youngest other sequence goes back to the queue. It reports
// false when the pass is over.
func (m *lm) shrink() bool {
	for i := range m.shares {
		if len(m.shares[i].draft) > 0 {
			for j := range m.shares {
				m.shares[j].draft = nil
			}
			return true
		}
	}
	youngest := m.running[0]
	for _, s := range m.running {
		if s.admit > youngest.admit {
			youngest = s
		}
	}
	if len(m.running) == 1 {
		m.end(youngest, &ContextError{Have: len(youngest.ids), Max: m.shape.Cells})
		return false
	}
	m.leave(youngest)
	m.remove(youngest)
	m.requeue(youngest)
	keep := m.shares[:0]
	for _, h := range m.shares {
		if h.s != youngest {
			keep = append(keep, h)
		}
	}
	m.shares = keep
	return len(keep) > 0
}

func (m *lm) remove(s *seq) {
	for i, r := range m.running {
		if r == s {
			m.running = append(m.running[:i], m.running[i+1:]...)
			return
		}
	}
}

// settle keeps the rows that a share brought, and turns its logits into tokens.
func (m *lm) settle(h *share) {
	s := h.s
	rows := m.taken[h.row : h.row+h.rows()]
	for j := range h.n {
		m.cells.attach(rows[j], s.tip(m.cells), s.ids[h.from+j])
		s.step(m.cells, rows[j])
	}
	rest := rows[h.n:]
	defer func() {
		for _, n := range rest {
			m.cells.give(n)
		}
	}()
	if s.embed != nil {
		m.collect(h)
		return
	}
	if h.want < 0 {
		return
	}
	for i := 0; ; i++ {
		id, lp, err := m.draw(s, h.want+i)
		if err != nil {
			m.end(s, err)
			return
		}
		s.spec.learn(id)
		if i < len(h.draft) {
			s.usage.Drafted++
		}
		if !m.emit(s, id, lp) || i >= len(h.draft) || h.draft[i] != id {
			return
		}
		// The guess was right: its row is this token's.
		s.usage.Accepted++
		m.cells.attach(rest[0], s.tip(m.cells), id)
		s.step(m.cells, rest[0])
		rest = rest[1:]
		if i+1 < len(h.draft) {
			s.spec.guess = h.draft[i+1]
		}
	}
}

// checkEvery is how often a greedy sequence's logits are looked at, though the largest one's index is all it needs: a card that computes
// nonsense without saying so is found by its logits (the first token's, and each so many-th's).
const checkEvery = 16

// unchecked reports whether the sequence's next token may be taken by its index alone.
func (s *seq) unchecked() bool {
	return s.greedy && s.usage.Output%checkEvery != 0 && s.ids[len(s.ids)-1] != 0
}

// draw samples one token from wanted row w of the pass. A greedy sequence takes the index that came with the pass even where logits came
// too: both ways must give the same text, and the head may tell logits apart that are equal in bf16.
func (m *lm) draw(s *seq, w int) (int32, *Logprob, error) {
	var logits []uint16
	if m.pass.Logits != nil {
		logits = m.pass.Logits[w*m.shape.Out : (w+1)*m.shape.Out]
	}
	if s.greedy {
		id := m.pass.Argmax[w]
		if logits != nil {
			if _, err := s.sampler.Sample(logits, nil); err != nil {
				return 0, nil, fmt.Errorf("engine: sampling: %w", err)
			}
		}
		if id < 0 || int(id) >= m.shape.Out {
			return 0, nil, fmt.Errorf("engine: sampling: %w: the largest is said to be number %d of %d", sampler.ErrBadLogits, id, m.shape.Out)
		}
		return id, nil, nil
	}
	var mask sampler.Mask
	if s.job.Mask != nil {
		mask = s.job.Mask
	}
	c, err := s.sampler.Sample(logits, mask)
	if err != nil {
		return 0, nil, fmt.Errorf("engine: sampling: %w", err)
	}
	if !s.job.Sampling.Logprobs {
		return c.ID, nil, nil
	}
	lp := &Logprob{Token: m.token(c.ID), Bytes: m.bytes(c.ID), Logprob: c.Logprob}
	for _, t := range c.Top {
		lp.Top = append(lp.Top, Logprob{Token: m.token(t.ID), Bytes: m.bytes(t.ID), Logprob: t.Logprob})
	}
	return c.ID, lp, nil
}

func (m *lm) bytes(id int32) []byte {
	if m.words == nil {
		return nil
	}
	return m.words.Bytes(id)
}

func (m *lm) token(id int32) string { return string(m.bytes(id)) }

// emit takes a sampled token into the sequence and hands it to the caller. It reports false when the sequence is over or was cut.
func (m *lm) emit(s *seq, id int32, lp *Logprob) bool {
	now := m.card.now()
	if s.usage.Output == 0 {
		s.first = now
		s.usage.FirstToken = now - s.asked
		s.usage.Prefill = now - s.started
	}
	s.usage.Decode = now - s.first
	switch {
	case s.job.Limit == 0:
		m.finish(s, ReasonLength)
		return false
	case m.stop[id] && !s.job.IgnoreStop:
		m.finish(s, ReasonStop)
		return false
	}
	if s.job.Mask != nil {
		if err := s.job.Mask.Accept(id); err != nil {
			m.end(s, err)
			return false
		}
	}
	s.ids = append(s.ids, id)
	s.sampler.Accept(id)
	s.usage.Output++
	t := Token{ID: id, Logprob: lp}
	if s.text != nil {
		at := m.trace.clock()
		t.Text = s.text.Next(id)
		m.trace.since(wordsTime, at)
	}
	s.usage.Total = now - s.asked
	t.Usage = s.usage
	s.box.put(t)
	if s.usage.Output >= s.job.Limit && s.job.Limit >= 0 {
		m.finish(s, ReasonLength)
		return false
	}
	if len(s.ids) >= s.job.NumCtx {
		if !s.job.Shift {
			m.finish(s, ReasonLength)
			return false
		}
		m.shift(s)
		return false
	}
	return true
}

// shift drops the older half of what is not to be kept, as Ollama does, and evaluates the rest anew: the card cannot move positions.
func (m *lm) shift(s *seq) {
	keep := max(0, min(s.job.NumKeep, s.job.NumCtx-2))
	cut := max((s.job.NumCtx-keep)/2, 1)
	s.ids = append(s.ids[:keep], s.ids[keep+cut:]...)
	s.spec.reset()
	m.leave(s)
	m.start(s)
}

// finish ends a sequence well.
func (m *lm) finish(s *seq, reason string) {
	t := Token{Final: reason}
	if s.text != nil {
		t.Text = s.text.Flush()
	}
	s.usage.Total = m.card.now() - s.asked
	t.Usage = s.usage
	m.leave(s)
	m.remove(s)
	m.tally(s, func(st *Stats) { st.Done++ })
	s.box.put(t)
}

// end ends a sequence with an error. What it has on the card may be what went wrong: nobody is to build on it.
func (m *lm) end(s *seq, err error) {
	tip := s.tip(m.cells)
	m.leave(s)
	if tip >= 0 {
		m.cells.prune(tip, m.cells.size())
	}
	m.remove(s)
	m.tally(s, func(st *Stats) { st.Failed++ })
	s.box.fail(err)
}

// tally adds an ended sequence to the totals.
func (m *lm) tally(s *seq, f func(*Stats)) {
	m.count(func(st *Stats) {
		f(st)
		st.PromptTokens += uint64(s.usage.Prompt)
		st.CachedTokens += uint64(s.usage.Cached)
		st.OutputTokens += uint64(s.usage.Output)
		st.Drafted += uint64(s.usage.Drafted)
		st.Accepted += uint64(s.usage.Accepted)
	})
}

// collect adds a share's rows to its vector.
func (m *lm) collect(h *share) {
	s, e := h.s, h.s.embed
	for i := 0; h.want >= 0 && i < h.wants; i++ {
		row := m.pass.Logits[(h.want+i)*m.shape.Out : (h.want+i+1)*m.shape.Out]
		for k, v := range row {
			x := axcl.Float32(v)
			if x != x || x-x != 0 {
				m.end(s, fmt.Errorf("engine: embedding: %w", sampler.ErrBadLogits))
				return
			}
			e.sum[k] += float64(x)
		}
		e.n++
	}
	if s.pending() == 0 {
		m.finish(s, ReasonStop)
	}
}

// failed handles a pass that went wrong. The sequences in it lose what it touched; a sequence that has said nothing yet is tried once
// more. Three failures in a minute, or an error that leaves card and host out of step, end the card.
func (m *lm) failed(err error) error {
	m.giveBack()
	if axcl.Fatal(err) {
		return err
	}
	now := m.card.now()
	recent := m.fails[:0]
	for _, t := range m.fails {
		if now-t < time.Minute {
			recent = append(recent, t)
		}
	}
	m.fails = append(recent, now)
	if len(m.fails) >= 3 {
		return fmt.Errorf("engine: three passes failed within a minute: %w: %w", axcl.ErrLost, err)
	}
	for i := range m.shares {
		s := m.shares[i].s
		if s.usage.Output == 0 && !s.retried {
			s.retried = true
			continue
		}
		m.end(s, err)
	}
	return nil
}

// count changes the published numbers.
func (m *lm) count(f func(*Stats)) {
	m.mu.Lock()
	f(&m.stats)
	m.stats.Running = len(m.running)
	if len(m.running) == 0 {
		m.survey()
	}
	m.mu.Unlock()
}

// survey counts the cells; m.mu is held.
func (m *lm) survey() {
	m.counted = m.card.now()
	m.stats.CellsUsed, m.stats.CellsCached, m.stats.CellsShared = m.cells.counts()
}

// account publishes the pass.
func (m *lm) account(took time.Duration, drafts int) string {
	kind := "prefill"
	decodes := 0
	for i := range m.shares {
		if m.shares[i].n == 1 {
			decodes++
		}
	}
	switch {
	case drafts > 0:
		kind = "verify"
	case m.pass.Rows() == 1:
		kind = "decode"
	case decodes == len(m.shares):
		kind = "batch"
	case decodes > 0:
		kind = "mixed"
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	st := &m.stats
	st.Passes[kind]++
	st.Rows += uint64(m.pass.Rows())
	st.Busy += took
	// Counting walks all cells: ten times a second is enough for people.
	if m.card.now()-m.counted > 100*time.Millisecond {
		m.survey()
	}
	return kind
}
