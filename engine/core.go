package engine

import (
	"iter"
	"slices"
	"time"

	"github.com/axle-llm/axle/axcl"
	"github.com/axle-llm/axle/engine/cache"
	"github.com/axle-llm/axle/models"
	"github.com/axle-llm/axle/tokenizer"
)

// core has what the parts of a language model on a card share: the card, the cache, the costs, and
// the waiting and running sequences. Each part (layout, ramTier, diskTier, canary, prover, batch,
// planner, pictureInputs) knows the core and the parts that it needs. No part knows lm, which has
// them all.
type core struct {
	card        *Card
	model       axcl.Model
	embed       rowSource
	layerInputs *layerInputRows      // nil: layers have no further inputs
	tokenizer   *tokenizer.Tokenizer // nil: texts are ids
	pause       func() error         // set during the load: see breathe
	trace       *tracer              // nil: passes are not traced
	prices

	cells   *cache.Tree
	cache   cache.Cache
	limits  cache.Limits // of cache
	mover   cache.Mover
	ram     *cache.RAM // nil: rows are on the card or nowhere
	drafter *drafter   // nil: no draft model

	queue   queue
	running []*seq
	ledger  ledger
	counted time.Duration // when cells were last counted
}

func newCore(card *Card, model axcl.Model, embed rowSource, tok *tokenizer.Tokenizer, o OpenOptions) *core {
	m := &core{card: card, model: model, prices: prices{shape: model.Shape()}, embed: embed, tokenizer: tok,
		queue: queue{open: map[*seq]struct{}{}, most: o.MaxQueue}}
	m.shape.Pos = max(m.shape.Pos, 1)
	if m.queue.most <= 0 {
		m.queue.most = 512
	}
	m.cells = cache.New(m.shape.Cells, reaches(m.shape.Groups)...)
	m.cache = m.cells.Cache(m.shape.Slots)
	m.limits = m.cache.Limits()
	m.mover = cache.Mover{Watched: func(call func() error) error { return card.Watched(0, call) },
		Strike: card.Strike, Clear: m.clear, Now: card.Now}
	m.costs.group = make([]float64, len(m.shape.Groups))
	m.groups()
	m.queue.stats = Stats{State: "ready", Passes: map[string]uint64{}}
	m.queue.stats.Slots, _, _ = m.cache.Slots()
	return m
}

// vocab returns how many ids may be used: those with an embedding, if that is known.
func (m *core) vocab() int {
	n := m.shape.Out
	if m.tokenizer != nil {
		n = max(m.tokenizer.Vocab(), n)
	}
	if e, ok := m.embed.(*models.Embeddings); ok {
		n = min(n, e.Rows)
	}
	return n
}

func (m *core) token(id int32) string { return string(m.bytes(id)) }

func (m *core) bytes(id int32) []byte {
	if m.tokenizer == nil {
		return nil
	}
	return m.tokenizer.Bytes(id)
}

// turns returns where the last two turns of a prompt begin: at the last control token that occurs
// more than once, and where it occurred before that. Without one, both are 0.
func (m *core) turns(ids []int32) (turn, answer int) {
	if m.tokenizer == nil {
		return 0, 0
	}
	seen := map[int32]int{}
	for i, id := range ids {
		if id >= 0 && m.tokenizer.Control(id) {
			if before, ok := seen[id]; ok {
				turn, answer = before, i
			}
			seen[id] = i
		}
	}
	return turn, answer
}

// stops returns the lengths of s's prompt at which its state is to be kept, in ascending order:
// where the last turn of the user begins, and where the answer's turn begins.
func (m *core) stops(s *seq) (at []int) {
	end := s.prompt
	turn, answer := m.turns(s.ids[:end])
	if answer == 0 || answer < end-4*beforeEnd || answer >= end {
		answer = end - beforeEnd
	}
	// A snapshot that saves only a few rows is not worth a pass.
	if turn > 0 && turn+beforeEnd < answer {
		at = append(at, turn)
	}
	if answer > 0 {
		at = append(at, answer)
	}
	return at
}

// leave takes a sequence off its cells, which stay as a cache.
func (m *core) leave(s *seq) {
	if m.drafter != nil {
		m.drafter.leave(s)
	}
	m.cache.Leave(&s.Seq)
}

// exit is the reason for which a running sequence gives up its cells: see quit.
type exit uint8

const (
	exitEnded     exit = iota // it has its answer, or its caller left
	exitFailed                // it met an error
	exitRetried               // it met an error and has no output yet: it begins anew
	exitPreempted             // its cells are needed: it begins anew from the front of the queue
	exitAside                 // its reader is slow: it later continues from what is left of its cells
	exitRecalled              // anything on the card may be wrong: it begins anew
)

// exits says what happens to a sequence for each exit. Its rows stay as a cache, and with snapshot
// its state too. With prune, the rows that only it used are removed from the card and from memory,
// because they may be wrong and nothing may build on them.
var exits = [...]struct{ snapshot, prune, out, anew, queue bool }{
	exitEnded:     {snapshot: true, out: true},
	exitFailed:    {prune: true, out: true},
	exitRetried:   {prune: true, anew: true},
	exitPreempted: {snapshot: true, out: true, anew: true, queue: true},
	exitAside:     {snapshot: true},
	exitRecalled:  {anew: true},
}

// quit takes a running sequence off its cells.
func (m *core) quit(s *seq, e exit) {
	do := &exits[e]
	s.late = nil
	if do.snapshot {
		m.mark(s, false)
	}
	tip := m.cells.Tip(&s.Seq)
	if do.prune {
		m.ram.Cut(s.Key, s.ids)
	}
	m.leave(s)
	if do.prune && tip >= 0 {
		m.cells.Prune(tip, m.cells.Size())
	}
	if do.out {
		m.remove(s)
	}
	if do.anew && s.embed != nil {
		s.embed.reset() // all its rows go through the card again
	}
	if do.queue {
		m.queue.putBack(s)
	}
}

// again takes back the last row of the sequence, which goes through the card once more, with
// logits.
func (m *core) again(s *seq) {
	n := m.cells.Tip(&s.Seq)
	if !m.limits.Back { // its state cannot be taken back
		m.leave(s)
		m.cells.Prune(n, 1)
		s.doubt = true
		return
	}
	m.cells.Stand(&s.Seq, s.Path[:len(s.Path)-1])
	m.cells.Prune(n, 1)
	s.doubt = true
}

// restartLow sends a sequence back to the queue whose cells lie beyond what wide passes see
// although a picture is still to come. It begins anew, on the lowest cells, when the running
// sequences have ended.
func (m *core) restartLow(s *seq) {
	s.low = true
	m.quit(s, exitPreempted)
}

func (m *core) remove(s *seq) {
	m.running = slices.DeleteFunc(m.running, func(r *seq) bool { return r == s })
}

// requeue puts a sequence back at the front of the queue, to begin anew.
func (m *core) requeue(s *seq) {
	if s.embed != nil {
		s.embed.reset()
	}
	m.queue.putBack(s)
}

// live returns how many running sequences have readers that keep up.
func (m *core) live() (n int) {
	for _, r := range m.running {
		if !r.box.full() {
			n++
		}
	}
	return n
}

// aside takes the sequences with slow readers off their cells, and reports whether there were any.
func (m *core) aside() (any bool) {
	for _, r := range m.running {
		if r.box.full() && len(r.Path) > 0 {
			m.quit(r, exitAside)
			any = true
		}
	}
	return any
}

// repeating reports whether a running sequence must be alone: a repeatable one, or one that needs
// the lowest cells for its pictures. None is admitted beside it.
func (m *core) repeating() bool {
	return slices.ContainsFunc(m.running, func(s *seq) bool { return (s.repeatable || s.low && s.shown() > len(s.Path)) && !s.box.full() })
}

// mark keeps a snapshot of a sequence's state at its current node, for others to continue from.
// interim says that a better one will follow.
func (m *core) mark(s *seq, interim bool) {
	//rule:G17 TestStatesLeft || s.RestoreTo > 0 =>
	if s.repeatable || s.RestoreTo > 0 {
		return
	}
	m.cache.Snapshot(&s.Seq, interim, m.places())
}

// places yields the places of the running sequences.
func (m *core) places() iter.Seq[*cache.Seq] {
	return func(yield func(*cache.Seq) bool) {
		for _, s := range m.running {
			if !yield(&s.Seq) {
				return
			}
		}
	}
}

// unsigned converts cells to the card's type.
func unsigned(cells []int32) []uint32 {
	out := make([]uint32, len(cells))
	for i, c := range cells {
		out[i] = uint32(c)
	}
	return out
}

// scratch returns a slot for a pass that belongs to no sequence, and a function that gives it back.
func (m *core) scratch() (slot uint32, back func(), ok bool) {
	slot, ok = m.cache.Scratch()
	return slot, func() { m.cache.Give(slot) }, ok
}

// sequent makes the rows of a pass those of one sequence, for a model with states: each row sees
// those before it, and the state is read from slot from and written to slot to.
func (m *core) sequent(p *axcl.Pass, from, to uint32) {
	if !m.limits.Stops {
		return
	}
	p.From, p.To, p.Single = from, to, m.proven.Stepped
	rw := axcl.Words(p.Rows())
	for r := range p.Rows() {
		for e := range r {
			p.SeeRows[r*rw+e/64] |= 1 << (e % 64)
		}
	}
}

// restores reports whether a sequence can continue from rows that were elsewhere.
func (m *core) restores() bool {
	return m.proven.Scatter && (!m.limits.Stops || m.proven.Kept)
}

// moves reports whether rows can be moved.
func (m *core) moves() bool { return m.costs.move.Run > 0 }

// distrust forgets the rows on the card that are not in use, and all rows in memory.
func (m *core) distrust() {
	m.cells.Forget()
	m.ram.Forget()
}

// clear clears cells. A call that fails is a strike, and is repeated: no pass may run until it has
// succeeded.
func (m *core) clear(cells []uint32) error {
	for {
		err := m.card.Watched(0, func() error { return m.model.Clear(cells) })
		if err == nil || axcl.Fatal(err) {
			return err
		}
		if err := m.card.Strike(err); err != nil {
			return err
		}
	}
}

// wipe clears every cell of the model, and of its draft model.
func (m *core) wipe() error {
	const piece = 256 // cells in one call: the watchdog times each call
	cells := make([]uint32, m.shape.Cells)
	for c := range cells {
		cells[c] = uint32(c)
	}
	for part := range slices.Chunk(cells, piece) {
		if err := m.clear(part); err != nil {
			return err
		}
	}
	if d := m.drafter; d != nil {
		d.cells.Forget()
		return d.wipe()
	}
	return nil
}

// breathe gives other models their turns while this one is loaded. It is called between pieces of
// the load, never while something is timed. An error means that the card is lost.
func (m *core) breathe() error {
	if m.pause == nil {
		return nil
	}
	return m.pause()
}

// count changes the published numbers.
func (m *core) count(f func(*Stats)) {
	m.queue.update(func(st *Stats) {
		f(st)
		st.Running = len(m.running)
		if len(m.running) == 0 {
			m.survey(st)
		}
	})
}

// survey counts the cells.
func (m *core) survey(st *Stats) {
	m.counted = m.card.Now()
	st.Piece = m.longest()
	st.CellsUsed, st.CellsCached, st.CellsShared = m.cells.Counts()
	st.Slots, st.SlotsUsed, st.SlotsKept = m.cache.Slots()
}

// tally adds an ended sequence to the totals.
func (m *core) tally(s *seq, f func(*Stats)) {
	m.count(func(st *Stats) {
		f(st)
		st.PromptTokens += uint64(s.usage.Prompt)
		st.CachedTokens += uint64(s.usage.Cached)
		st.OutputTokens += uint64(s.usage.Output)
		st.Drafted += uint64(s.usage.Drafted)
		st.Accepted += uint64(s.usage.Accepted)
		st.KeyDrafted += uint64(s.spec.sources[fromKey].drafted)
		st.KeyAccepted += uint64(s.spec.sources[fromKey].accepted)
	})
}
