package engine

import "github.com/axle-llm/axle/engine/cache"

// This file keeps snapshots of states (slots.go) in this machine's memory (cache.RAM). Rows go first, then the state; they come back in the
// same order, and the sequence that asked goes on from them when the last byte is there, and not before. What does not come whole is
// evaluated. Both ways a piece at most travels between two passes.

// openShelf measures what a state costs on its way, in an unused slot.
func (m *lm) openShelf() error {
	if !m.limits.Stops {
		return nil
	}
	slot, ok := m.cache.Scratch()
	if !ok {
		return nil
	}
	defer m.cache.Give(slot)
	piece := make([]byte, m.shape.StatePiece())
	pieces := float64((m.shape.State + len(piece) - 1) / len(piece))
	var took [2]float64
	for i, call := range []func(uint32, int, []byte) error{m.model.SaveState, m.model.RestoreState} {
		t0 := m.card.now()
		if err := m.mover.Watched(func() error { return call(slot, 0, piece) }); err != nil {
			return err
		}
		took[i] = (m.card.now() - t0).Seconds() * pieces
	}
	m.tier.OpenStates(m.shape.State, took[1], took[0])
	return nil
}

// stateInMemory is inMemory for a model with states: how far a snapshot reaches that is worth its way, beyond what s goes on from.
func (m *lm) stateInMemory(s *seq) int {
	t := m.tier
	length, rows := t.StateBeyond(&s.Seq, s.ids[:len(s.ids)-1])
	if length == 0 || t.StateIn+t.In.Cost(rows, t.Piece())+m.redo(length, len(s.ids)) >= m.redo(len(s.Path), len(s.ids)) {
		return 0
	}
	return length
}

// statePiece brings the next piece of what s waits for, rows and then the state, and reports whether it still waits. The error is one that
// the card does not survive.
func (m *lm) statePiece(s *seq) (err error) {
	t, p, to := m.tier, m.cells.Snapshots(), s.Bring
	if !s.Own {
		// On what the card has of the rows, whether a state is kept after them or not.
		path := m.cells.Match(s.Key, s.ids, to)
		m.cells.Stand(&s.Seq, path)
		if s.State = p.After(path); s.State != 0 && len(path) == to {
			s.Bring = 0 // somebody was quicker
			return nil
		}
	}
	if len(s.Path) < to {
		before := len(s.Path)
		if err = m.piece(s); err == nil && s.Bring == to && len(s.Path) > before {
			s.State = p.After(s.Path)
			return nil
		}
		m.stay(s)
		return err
	}
	state := t.State(s.Key, s.ids[:to])
	if !s.Own && state != nil {
		if slot := p.Take(false); slot != 0 {
			s.State, s.Own = slot, true
		}
	}
	if !s.Own || state == nil {
		m.stay(s)
		return nil
	}
	n := min(m.shape.StatePiece(), len(state)-s.Coming)
	took, ok, err := m.mover.Carry(cache.FromMemory, nil, func() error {
		return m.model.RestoreState(s.State, s.Coming, state[s.Coming:s.Coming+n])
	})
	if !ok {
		t.Off = true
		m.stay(s)
		return err
	}
	t.hits.bytes += uint64(n)
	//rule:G17 TestStatesInMemory$ false
	if s.Coming += n; s.Coming < len(state) {
		m.tierStats(took)
		return nil
	}
	s.Bring, s.Coming = 0, 0
	m.mark(s, false)
	if s.usage.Output == 0 {
		s.usage.Cached = to
	}
	m.tierStats(took)
	return nil
}

// stay ends a sequence's wait: it goes on from what the card has.
func (m *lm) stay(s *seq) {
	m.leave(s)
	m.rest(s)
	if s.usage.Output == 0 {
		s.usage.Cached = len(s.Path)
	}
}

// stashState is stash for a model with states: a piece of the snapshot that was used longest ago of those that memory has not.
func (m *lm) stashState() (bool, error) {
	t := m.tier
	rows, h, again := t.ChooseState(func(length, had, missing int) bool {
		const chance = 0.5 // of being asked for
		saves := m.redo(0, length) - m.redo(0, had) - t.StateIn - t.In.Cost(length-had, t.Piece())
		return chance*saves > t.StateOut+t.Out.Cost(missing, t.Piece())
	})
	switch {
	case len(rows.Cells) > 0:
		return m.stashRows(rows)
	case h == nil:
		return again, nil
	}
	n := min(m.shape.StatePiece(), len(h.State)-h.At)
	took, ok, err := m.mover.Carry(cache.ToMemory, nil, func() error { return m.model.SaveState(h.Slot, h.At, h.State[h.At:h.At+n]) })
	if t.StoreState(h, n, !ok); !ok {
		t.Off = true
		return true, err
	}
	t.outBytes += uint64(n)
	m.tierStats(took)
	return true, nil
}
