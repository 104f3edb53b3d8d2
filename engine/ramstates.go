package engine

// This file saves snapshots of states (slots.go) in this machine's memory (cache.RAM). The rows go
// first, then the state, and they are restored in the same order. The sequence continues from them
// only when the last byte is there. What is not restored completely is evaluated. In both
// directions, at most one piece is copied between two passes.

// priceStates measures the cost of saving and restoring a state, in an unused slot.
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

// restorableState is restorable for a model with states. It returns the length of the text before a
// snapshot that is worth restoring, or 0 for none.
func (t *ramTier) restorableState(s *seq) int {
	length, rows := t.StateBeyond(&s.Seq, s.ids[:len(s.ids)-1])
	if length == 0 || t.StateIn+t.In.Cost(rows, t.Piece())+t.redo(length, len(s.ids)) >= t.redo(len(s.Path), len(s.ids)) {
		return 0
	}
	return length
}

// restoreState restores the next piece that s waits for: its rows first, then the state. An error
// means that the card is lost.
func (t *ramTier) restoreState(s *seq) (err error) {
	p, to := t.cells.Snapshots(), s.RestoreTo
	if !s.Own {
		// s starts on the rows that the card has, even if no state is kept after them.
		path := t.cells.Match(s.Key, s.ids, to)
		t.cells.Stand(&s.Seq, path)
		if s.State = p.After(path); s.State != 0 && len(path) == to {
			s.RestoreTo = 0 // another sequence has restored it already
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

// giveUp ends the wait of a sequence, which continues from what the card has.
func (t *ramTier) giveUp(s *seq) {
	t.leave(s)
	t.layout.rest(s)
	if s.usage.Output == 0 {
		s.usage.Cached = len(s.Path)
	}
}

// saveState is save for a model with states. It saves a piece of the snapshot that was used longest
// ago among those that are not in memory.
func (t *ramTier) saveState() (bool, error) {
	rows, h, again := t.ChooseState(func(length, had, missing int) bool {
		const chance = 0.5 // that it is requested
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
