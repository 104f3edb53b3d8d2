package engine

import "slices"

// This file keeps snapshots of states (slots.go) on disk, with the rows that they are after: blocks
// as kept.go has them, and in one file the rows behind the last block and the state. They come back
// together or not at all: a text's rows are grafted first and its state is left at the last of them
// when its last byte is there; what does not come whole is evaluated.
//
// Of a text that has ended those snapshots go that were left for others to go on from, each where
// evaluating it from the one before takes longer than reading it will. The slot that a state comes
// to is kept free of sequences: as many fewer run meanwhile.

// keepsStates says how large a model's states are, and measures what one costs to the card, in an
// unused slot.
func (k *keeper) keepsStates() error {
	if !k.limits.Stops {
		return nil
	}
	slot, _ := k.cache.Scratch()
	defer k.cache.Give(slot)
	piece := make([]byte, k.shape.StatePiece())
	t0 := k.card.Now()
	if err := k.card.Watched(0, func() error { return k.model.RestoreState(slot, 0, piece) }); err != nil {
		return err
	}
	k.owner.State = k.shape.State
	k.state = (k.card.Now() - t0).Seconds() * float64((k.shape.State+len(piece)-1)/len(piece))
	return nil
}

// slots are those that states are coming to.
func (k *keeper) slots() (all []uint32) {
	if k != nil {
		for _, f := range k.fetching {
			if f.slot != 0 {
				all = append(all, f.slot)
			}
		}
	}
	return all
}

// waiting is how many sequences wait for a disk, of which each needs a slot when its state has
// come.
func (k *keeper) waiting() int {
	if k == nil {
		return 0
	}
	return len(k.fetching)
}

// plantState gives the card a piece of the state that a fetch has, which belongs after a path, and
// leaves it there for the sequence to find when all of it has come. It reports whether there is no
// use in going on.
func (k *keeper) plantState(f *fetch, path []int32) (over bool, err error) {
	p := k.cells.Snapshots()
	if f.done = p.After(path) != 0; f.done {
		return false, nil // somebody was quicker
	}
	if f.slot == 0 {
		if f.slot = p.Take(false); f.slot == 0 {
			return true, nil
		}
	}
	state := f.part.state
	piece := state[f.at:min(f.at+k.shape.StatePiece(), len(state))]
	if _, ok, err := k.mover.Carry(nil, func() error { return k.model.RestoreState(f.slot, f.at, piece) }); !ok {
		return true, err
	}
	k.in.Add(int64(len(piece)))
	//rule:G20 TestStatesOnDiskFaults false
	if f.at += len(piece); f.at < len(state) {
		return false, nil
	}
	k.saved.Add(-int64(k.state * 1e9))
	p.Hang(f.slot, path[len(path)-1], false, k.places())
	f.slot, f.done = 0, true
	return false, nil
}

// leaves are the lengths of a text after which snapshots lie that are worth keeping on disk,
// ascending.
func (k *keeper) leaves(t text) (at []int) {
	p := k.cells.Snapshots()
	if p == nil {
		return nil
	}
	for end := len(t.ids); end > 0; {
		path, slot := p.Peek(t.key, t.ids[:end])
		if end = len(path) - 1; slot != 0 && !p.Interim(slot) {
			at = append(at, len(path))
		}
	}
	slices.Reverse(at)
	before, rate := 0, float64(k.rate.Load())
	return slices.DeleteFunc(at, func(n int) bool {
		bytes := float64(k.owner.State) + float64(n-before)*float64(k.owner.Row)
		if k.redo(before, n) <= bytes/rate+k.state {
			return true
		}
		before = n
		return false
	})
}

// keepState is keep for a model with states: a piece of the rows before the next state that is to
// go, or of the state.
func (k *keeper) keepState(v *saving) (bool, error) {
	p := k.cells.Snapshots()
	if len(v.stops) == 0 {
		k.save = nil
		return true, nil
	}
	end, size := v.stops[0], k.disk.Block()
	path, slot := p.Peek(v.key, v.ids[:end])
	if len(path) < end {
		v.stops, v.filled, v.at = v.stops[1:], 0, 0 // gone before it could be kept
		return true, nil
	}
	if v.next < end/size {
		return true, k.keepBlock(v, path)
	}
	full, err := k.gather(v, path[end-end%size:])
	if err != nil || !full {
		return true, err
	}
	if v.state == nil {
		v.state = make([]byte, k.shape.State)
	}
	if use := p.Use(slot); v.at == 0 || v.slot != slot || v.use != use {
		v.at, v.slot, v.use = 0, slot, use
	}
	piece := v.state[v.at:min(v.at+k.shape.StatePiece(), len(v.state))]
	if _, ok, err := k.mover.Carry(nil, func() error { return k.model.SaveState(slot, v.at, piece) }); !ok {
		k.save = nil
		return true, err
	}
	if v.at += len(piece); v.at < len(v.state) {
		return true, nil
	}
	next, tail := v.next, v.block[:end%size*k.shape.RowBytes()]
	v.stops, v.at = v.stops[1:], 0
	k.beside(v, func() int {
		if senselessRows(tail) || v.on.SaveState(end, tail, v.state) != nil {
			return -1
		}
		k.out.Add(int64(len(tail) + len(v.state)))
		return next
	})
	return true, nil
}
