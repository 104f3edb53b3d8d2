package engine

import (
	"time"

	"github.com/axle-llm/axle/engine/card"
)

// This file makes a language model a tenant of its card: it implements card.Tenant and
// card.Checker.

// Offer reports whether there may be work: a turn while a request waits for its answer, background
// always.
func (m *lm) Offer(k card.Kind) (expect time.Duration, ok bool) {
	switch k {
	case card.Turn:
		if m.turn.at > 0 || len(m.running) > 0 || m.diskTier.waiting() > 0 {
			return m.turn.took, true
		}
		return m.turn.took, m.queue.len() > 0
	case card.Background:
		return 0, true
	}
	return 0, false
}

// Step does one piece.
func (m *lm) Step(k card.Kind) (bool, error) {
	if k == card.Background {
		return m.spare()
	}
	return m.step()
}

// spare does one piece of background work: evaluated rows are saved to disk and to memory, and
// cells are put in order.
func (m *lm) spare() (bool, error) {
	if m.heads.adopt() {
		return true, nil
	}
	if did, err := m.diskTier.save(); did || err != nil {
		return did, err
	}
	return m.idle()
}

// Fail ends every sequence of the model. It may be called while the worker is stuck in a native
// call, so it uses nothing of the worker's but the mailboxes.
func (m *lm) Fail(err error) { m.queue.fail(err) }

// Checked returns when the card's answers were last known to be those of load.
func (m *lm) Checked() time.Duration { return m.canary.checked }
