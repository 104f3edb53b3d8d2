package engine

import (
	"errors"
	"fmt"

	"github.com/axle-llm/axle/axcl"
	"github.com/axle-llm/axle/sampler"
	"github.com/axle-llm/axle/sampler/grammar"
)

// This file has what follows a pass: its rows are kept, its logits become tokens, and sequences
// end.

// settle keeps the rows of a share and turns its logits into tokens.
func (m *lm) settle(h *share) {
	s := h.s
	rows := m.batch.taken[h.row : h.row+h.rows()]
	for j := range h.n {
		m.cells.Commit(&s.Seq, rows[j], s.ids[h.from+j])
	}
	m.batch.moved(h)
	m.enter(h)
	rest := rows[h.n:]
	defer func() {
		m.cells.Give(rest...)
		if h.cells != nil && len(rest) > 0 && len(s.Path) > 0 {
			m.cells.Places().ReserveAgain(&s.Seq, rest) // wrong guesses leave no hole
		}
	}()
	if s.embed != nil {
		m.collect(h)
		return
	}
	if m.batch.late {
		return
	}
	if h.want < 0 {
		if err := m.canary.unasked(m.batch, h); err != nil {
			m.fault(s, err)
		}
		return
	}
	s.usage.Drafted += len(h.draft)
	from := &s.spec.sources[s.spec.source]
	from.drafted += len(h.draft)
	for i := 0; ; i++ {
		id, lp, err := m.draw(s, m.batch.result(h.want+i))
		if err == errAgain {
			m.again(s)
			return
		}
		if err != nil {
			m.fault(s, err)
			return
		}
		s.spec.learn(id)
		right := i < len(h.draft) && h.draft[i] == id
		if right {
			s.usage.Accepted++
			from.accepted++
		}
		if !m.emit(s, id, lp) || !right {
			return
		}
		// The guess was right, so its row is the row of this token.
		m.cells.Commit(&s.Seq, rest[0], id)
		rest = rest[1:]
		if i+1 < len(h.draft) {
			from.guess = h.draft[i+1]
		}
	}
}

// checkEvery says how often the logits of a greedy sequence are checked, although the sequence
// needs only the index of the largest. A card that silently computes nonsense is found by its
// logits. Those of the first token are checked, and those of every checkEvery-th after it.
const checkEvery = 16

// unchecked reports whether the next token of the sequence may be taken by its index, without a
// check of the logits.
func (s *seq) unchecked() bool {
	return s.greedy && s.usage.Output%checkEvery != 0 && !s.doubt
}

// result is what the head gave for a row. Where only the largest logit's index is needed, logits is
// nil; argmax counts for greedy sequences.
type result struct {
	logits []uint16
	argmax int32
}

// result returns that of wanted row w.
func (m *batch) result(w int) (r result) {
	if m.pass.Logits != nil {
		r.logits = m.pass.Logits[w*m.shape.Out : (w+1)*m.shape.Out]
	}
	if m.pass.Argmax != nil {
		r.argmax = m.pass.Argmax[w]
	}
	return r
}

// draw samples one token from a row's result. A greedy sequence takes the index that the pass
// returned, even if logits came too. Both ways must give the same text, and the head may
// distinguish logits that are equal in bf16.
func (m *lm) draw(s *seq, r result) (int32, *Logprob, error) {
	logits := r.logits
	if s.greedy {
		id := r.argmax
		if logits != nil {
			if _, err := s.sampler.Sample(logits, nil); m.canary.noteRow(logits, err) != nil {
				return 0, nil, fmt.Errorf("engine: sampling: %w", err)
			}
			s.sure, s.doubt = s.usage.Output, false
			//rule:D6 TestZeroIsLookedAt false
		} else if id == 0 {
			return 0, nil, errAgain // nonsense also gives index 0
		}
		if id < 0 || int(id) >= m.shape.Out {
			return 0, nil, m.canary.noteRow(nil, fmt.Errorf("engine: sampling: %w: the largest is said to be number %d of %d",
				sampler.ErrBadLogits, id, m.shape.Out))
		}
		return id, nil, nil
	}
	var mask sampler.Mask
	if s.job.Mask != nil {
		mask = s.job.Mask
	}
	c, err := s.sampler.Sample(logits, mask)
	if m.canary.noteRow(logits, err) != nil {
		return 0, nil, fmt.Errorf("engine: sampling: %w", err)
	}
	s.sure = s.usage.Output
	if !s.job.Sampling.Logprobs && s.job.Sampling.TopLogprobs == 0 {
		return c.ID, nil, nil
	}
	lp := &Logprob{Token: m.token(c.ID), Bytes: m.bytes(c.ID), Logprob: c.Logprob}
	for _, t := range c.Top {
		lp.Top = append(lp.Top, Logprob{Token: m.token(t.ID), Bytes: m.bytes(t.ID), Logprob: t.Logprob})
	}
	return c.ID, lp, nil
}

// emit adds a sampled token to the sequence and passes it to the caller. It reports false if the
// sequence has ended or was cut.
func (m *lm) emit(s *seq, id int32, lp *Logprob) bool {
	now := m.card.Now()
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
			if errors.As(err, new(*grammar.Error)) { // the request's grammar is at fault
				err = fmt.Errorf("%w: %w", ErrRequest, err)
			}
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

// shift drops the older half of the ids that need not be kept, as Ollama does. The rest is
// evaluated again, because the card cannot move positions.
func (m *lm) shift(s *seq) {
	keep := max(0, min(s.job.NumKeep, s.job.NumCtx-2))
	cut := max((s.job.NumCtx-keep)/2, 1)
	if len(s.pictures) > 0 {
		keep, cut = m.pictures.turnsOut(s, keep, cut)
	}
	m.planner.texts.add(s)
	s.ids = append(s.ids[:keep], s.ids[keep+cut:]...)
	s.prompt, s.high = len(s.ids), 0
	_ = m.pictures.assignPositions(s) // cannot fail: the text had positions, and only lost turns
	s.spec.reset()
	s.spec.given = len(s.ids)
	m.leave(s)
	m.layout.start(s)
}

// finish ends a sequence without an error.
func (m *lm) finish(s *seq, reason string) {
	t := Token{Final: reason}
	if s.text != nil {
		t.Text = s.text.Flush()
	}
	s.usage.Total = m.card.Now() - s.asked
	t.Usage = s.usage
	m.planner.texts.add(s)
	m.diskTier.note(s)
	m.quit(s, exitEnded)
	m.tally(s, func(st *Stats) { st.Done++ })
	s.box.put(t)
}

// end ends a sequence with an error. Its rows on the card may be the cause, so nothing may build on
// them.
func (m *lm) end(s *seq, err error) {
	m.quit(s, exitFailed)
	m.tally(s, func(st *Stats) { st.Failed++ })
	s.box.fail(err)
}

// collect adds the rows of a share to the vector of its sequence.
func (m *lm) collect(h *share) {
	s, e := h.s, h.s.embed
	from, first := m.batch.pass.Logits, h.want
	if e.hidden {
		from, first = m.batch.pass.HiddenOut, h.out
	}
	width := len(e.sum)
	if e.picks != nil {
		width = m.shape.Out
	}
	for i := range h.wants {
		row := from[(first+i)*width : (first+i+1)*width]
		if err := m.canary.noteRow(row, senseless(row)); err != nil {
			m.fault(s, err)
			return
		}
		if e.picks == nil {
			for k, v := range row {
				e.sum[k] += float64(axcl.Float32(v))
			}
		}
		for k, id := range e.picks {
			e.sum[k] += float64(axcl.Float32(row[id]))
		}
		e.n++
	}
	if s.pending() == 0 {
		m.finish(s, ReasonStop)
	}
}

// failed handles a pass that failed. Its sequences lose what the pass touched. A sequence that has
// no output yet is tried once more. Three failures within a minute end the card, and so does an
// error that leaves card and host out of step.
func (m *lm) failed(err error) error {
	//rule:D5 TestFatal$ drop
	if axcl.Fatal(err) {
		m.batch.giveBack()
		return err
	}
	if err := m.card.Strike(err); err != nil {
		return err
	}
	if err := m.batch.clearTaken(); err != nil {
		return err
	}
	for i := range m.batch.shares {
		s := m.batch.shares[i].s
		//rule:D4 TestExecuteFails s.usage.Output == 0 && !s.retried => s.retried
		if s.usage.Output == 0 && !s.retried {
			s.retried = true
			continue
		}
		m.end(s, err)
	}
	return nil
}
