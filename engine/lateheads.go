package engine

import (
	"time"

	"github.com/axle-llm/axle/sampler"
)

// This file lets the host compute the head of one sequence's row while the card runs the layers of
// another's. It is for passes of single rows: several clients of a model with states, and two or
// three of any model, whose rows go alone in turn. The card then never waits for a head. A sequence
// whose head is late takes no part in passes until its token is there.

// lateRow is a row whose head is late.
type lateRow struct {
	s      *seq
	hidden []uint16
	result
}

// lateRun is the rows that the host computes together.
type lateRun struct {
	rows  []*lateRow
	done  chan struct{} // closed when took and err are set
	begun time.Duration
	until time.Duration // when that is, by a virtual clock
	took  time.Duration
	err   error
}

// late reports whether the head of the pass is to be late: it carries one row of an answer, and
// another sequence's row can run meanwhile.
func (h *heads) late(b *batch, others int) bool {
	if h.host == nil || others <= 0 || len(b.shares) != 1 || b.pass.Rows() != 1 || len(b.pass.Want) != 1 || b.checks() {
		return false
	}
	s := b.shares[0].s
	g := b.shape.GroupFor(1, b.pass.Reach(b.shape))
	if g < 0 || s.repeatable || s.embed != nil {
		return false
	}
	if h.costs.onlyHost {
		return true // it would wait for the host all the same
	}
	layers := h.costs.group[g]
	return h.costs.inTurn(others+1, layers) < float64(others+1)*(layers+h.costs.head)
}

// inTurn returns the time of a row of each of n sequences, if each takes layers seconds alone and
// the heads are late.
func (c *costs) inTurn(n int, layers float64) float64 {
	return max(float64(n)*layers, layers+c.host.of(1))
}

// later takes a row of a pass that ran, for the host to compute its head.
func (h *heads) later(b *batch) {
	s := b.shares[0].s
	r := &lateRow{s: s, hidden: append([]uint16(nil), b.pass.HiddenOut[:h.shape.Hidden]...)}
	if b.sample {
		r.logits = make([]uint16, h.shape.Out)
	}
	s.late = r
	h.waiting = append(h.waiting, r)
	h.startLate()
}

// waiters returns how many running sequences wait for their heads.
func (m *core) waiters() (n int) {
	for _, s := range m.running {
		if s.late != nil {
			n++
		}
	}
	return n
}

// startLate begins to compute the rows that wait, unless others are being computed.
func (h *heads) startLate() {
	if h.run != nil || len(h.waiting) == 0 {
		return
	}
	run := &lateRun{rows: h.waiting, done: make(chan struct{})}
	h.run, h.waiting = run, nil
	compute := func() {
		n := len(run.rows)
		rows, argmax := make([][]uint16, n), make([]int32, n)
		var logits []uint16
		for i, r := range run.rows {
			if rows[i] = r.hidden; r.logits != nil && logits == nil {
				logits = make([]uint16, n*h.shape.Out)
			}
		}
		run.err = h.host.Run(rows, logits, argmax)
		for i, r := range run.rows {
			r.argmax = argmax[i]
			if r.logits != nil {
				copy(r.logits, logits[i*h.shape.Out:])
			}
		}
	}
	now := h.card.Now()
	run.begun = now
	if c := h.card.o.Host; c != nil {
		compute()
		run.took = c.Takes(h.host.Work(len(run.rows)))
		run.until = now + run.took
		close(run.done)
		return
	}
	go func() {
		compute()
		run.took = h.card.Now() - now
		close(run.done)
	}()
}

// awaitLate waits until the host computes nothing.
func (h *heads) awaitLate() {
	if h.run == nil {
		return
	}
	if c := h.card.o.Host; c != nil {
		c.WaitUntil(h.run.until)
	}
	<-h.run.done
}

// lateDone returns the rows that the host has computed, and starts those that wait. With wait it
// waits for them.
func (h *heads) lateDone(wait bool) (rows []*lateRow, err error) {
	run := h.run
	if run == nil {
		return nil, nil
	}
	if c := h.card.o.Host; !wait && c != nil && h.card.Now() < run.until {
		return nil, nil
	}
	select {
	case <-run.done:
	default:
		if !wait {
			return nil, nil
		}
	}
	h.awaitLate()
	h.run = nil
	n := len(run.rows)
	var onCard []*lateRow // the host has failed
	if run.err != nil {
		onCard = run.rows
		h.fail(run.err)
	} else {
		rows = run.rows
		h.costs.host.observe(n, run.took)
		h.lateRows += n
		h.stats.Rows += uint64(n)
		h.stats.Busy += run.took
		h.publish()
		if tracing && h.card.o.Trace != nil {
			h.card.o.Trace(&PassTrace{Kind: "head", Rows: n, Want: n, Start: run.begun, HostHead: run.took, End: run.begun + run.took})
		}
	}
	if h.host != nil {
		h.startLate()
	} else { // a pass that it computed at once may have failed
		onCard, h.waiting = append(onCard, h.waiting...), nil
	}
	rows = append(rows, onCard...)
	for _, r := range onCard {
		logits, err := h.onCard([][]uint16{r.hidden})
		if err != nil {
			return rows, err
		}
		r.argmax = sampler.Argmax(logits)
		copy(r.logits, logits)
	}
	return rows, nil
}

// settleLate draws the tokens of rows whose heads are there, and reports whether there were any.
// With wait it waits for those that are being computed.
func (m *lm) settleLate(wait bool) (did bool, err error) {
	rows, err := m.heads.lateDone(wait)
	if err != nil {
		for _, r := range rows {
			if r.s.late == r {
				m.end(r.s, err)
			}
		}
		return true, m.card.Strike(err)
	}
	m.canary.looked = looked{}
	for _, r := range rows {
		if r.s.late != r {
			continue // it has left its cells meanwhile
		}
		r.s.late = nil
		id, lp, err := m.draw(r.s, r.result)
		switch {
		case err == errAgain:
			m.again(r.s)
		case err != nil:
			m.fault(r.s, err)
		default:
			r.s.spec.learn(id)
			m.emit(r.s, id, lp)
		}
	}
	if len(rows) == 0 {
		return false, nil
	}
	return true, m.spoiled()
}
