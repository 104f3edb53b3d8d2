package engine

// This file keeps snapshots of states (slots.go) in this machine's memory (cache.RAM). Rows go
// first, then the state; they come back in the same order, and the sequence that asked goes on from
// them when the last byte is there, and not before. What does not come whole is evaluated. Both
// ways a piece at most is copied between two passes.

// priceStates measures what a state costs on its way, in an unused slot.
func (t *ramTier) priceStates() error {
	if !t.limits.Stops {
		return nil
	}
	slot, ok := t.cache.Scratch()
	if !ok {
		return nil
	}
	defer t.cache.Give(slot)
	piece := make([]byte, t.shape.StatePiece())
	pieces := float64((t.shape.State + len(piece) - 1) / len(piece))
	var took [2]float64
	for i, call := range []func(uint32, int, []byte) error{t.model.SaveState, t.model.RestoreState} {
		t0 := t.card.Now()
		if err := t.mover.Watched(func() error { return call(slot, 0, piece) }); err != nil {
			return err
		}
		took[i] = (t.card.Now() - t0).Seconds() * pieces
	}
	t.OpenStates(t.shape.State, took[1], took[0])
	return nil
}

// restorableState is inMemory for a model with states: how far a snapshot reaches that is worth its
// way, beyond what s goes on from.
func (t *ramTier) restorableState(s *seq) int {
	length, rows := t.StateBeyond(&s.Seq, s.ids[:len(s.ids)-1])
	if length == 0 || t.StateIn+t.In.Cost(rows, t.Piece())+t.redo(length, len(s.ids)) >= t.redo(len(s.Path), len(s.ids)) {
		return 0
	}
	return length
}

// restoreState brings the next piece of what s waits for, rows and then the state, and reports
// whether it still waits. The error is one that the card does not survive.
func (t *ramTier) restoreState(s *seq) (err error) {
	p, to := t.cells.Snapshots(), s.RestoreTo
	if !s.Own {
		// On what the card has of the rows, whether a state is kept after them or not.
		path := t.cells.Match(s.Key, s.ids, to)
		t.cells.Stand(&s.Seq, path)
		if s.State = p.After(path); s.State != 0 && len(path) == to {
			s.RestoreTo = 0 // somebody was quicker
			return nil
		}
	}
	if len(s.Path) < to {
		before := len(s.Path)
		if err = t.restorePiece(s); err == nil && s.RestoreTo == to && len(s.Path) > before {
			s.State = p.After(s.Path)
			return nil
		}
		t.giveUp(s)
		return err
	}
	state := t.State(s.Key, s.ids[:to])
	if !s.Own && state != nil {
		if slot := p.Take(false); slot != 0 {
			s.State, s.Own = slot, true
		}
	}
	if !s.Own || state == nil {
		t.giveUp(s)
		return nil
	}
	n := min(t.shape.StatePiece(), len(state)-s.Restored)
	took, ok, err := t.mover.Carry(nil, func() error {
		return t.model.RestoreState(s.State, s.Restored, state[s.Restored:s.Restored+n])
	})
	if !ok {
		t.Off = true
		t.giveUp(s)
		return err
	}
	t.hits.bytes += uint64(n)
	//rule:G17 TestStatesInMemory$ false
	if s.Restored += n; s.Restored < len(state) {
		t.publish(took)
		return nil
	}
	s.RestoreTo, s.Restored = 0, 0
	t.mark(s, false)
	if s.usage.Output == 0 {
		s.usage.Cached = to
	}
	t.publish(took)
	return nil
}

// giveUp ends a sequence's wait: it goes on from what the card has.
func (t *ramTier) giveUp(s *seq) {
	t.leave(s)
	t.layout.rest(s)
	if s.usage.Output == 0 {
		s.usage.Cached = len(s.Path)
	}
}

// saveState is save for a model with states: a piece of the snapshot that was used longest ago of
// those that memory has not.
func (t *ramTier) saveState() (bool, error) {
	rows, h, again := t.ChooseState(func(length, had, missing int) bool {
		const chance = 0.5 // of being asked for
		saves := t.redo(0, length) - t.redo(0, had) - t.StateIn - t.In.Cost(length-had, t.Piece())
		return chance*saves > t.StateOut+t.Out.Cost(missing, t.Piece())
	})
	switch {
	case len(rows.Cells) > 0:
		return t.saveRows(rows)
	case h == nil:
		return again, nil
	}
	n := min(t.shape.StatePiece(), len(h.State)-h.At)
	took, ok, err := t.mover.Carry(nil, func() error { return t.model.SaveState(h.Slot, h.At, h.State[h.At:h.At+n]) })
	if t.StoreState(h, n, !ok); !ok {
		t.Off = true
		return true, err
	}
	t.outBytes += uint64(n)
	t.publish(took)
	return true, nil
}
