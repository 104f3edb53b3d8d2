package engine

import "slices"

// This file saves snapshots of states (slots.go) on disk, with the rows before them. Full blocks
// are saved as in disktier.go. One more file holds the rows behind the last block and the state.
// They are restored together or not at all: first the rows of a text, then the state, which is
// attached to the last row when its last byte is there. A text that is not restored completely is
// evaluated.
//
// When a text has ended, the snapshots that others may continue from are saved. A snapshot is saved
// only if evaluating it from the one before takes longer than reading it. While a state is being
// restored, no sequence gets its slot, so one sequence fewer can run.

// priceStates notes how large a model's states are, and measures what it costs to restore one, in
// an unused slot.
func (d *diskTier) priceStates() error {
	if !d.limits.Stops {
		return nil
	}
	slot, _ := d.cache.Scratch()
	defer d.cache.Give(slot)
	piece := make([]byte, d.shape.StatePiece())
	t0 := d.card.Now()
	if err := d.card.Watched(0, func() error { return d.model.RestoreState(slot, 0, piece) }); err != nil {
		return err
	}
	d.owner.State = d.shape.State
	d.state = (d.card.Now() - t0).Seconds() * float64((d.shape.State+len(piece)-1)/len(piece))
	return nil
}

// waiting returns how many sequences wait for the disk. Each needs a slot when its state arrives.
func (d *diskTier) waiting() int {
	if d == nil {
		return 0
	}
	return len(d.reading)
}

// restoreState restores a piece of r's state to the card. When the state is complete, it is
// attached to the end of path, where the sequence finds it. If over is true, there is no point in
// going on.
func (d *diskTier) restoreState(r *diskRead, path []int32) (over bool, err error) {
	p := d.cells.Snapshots()
	if r.done = p.After(path) != 0; r.done {
		return false, nil // another sequence has left a state there
	}
	if r.slot == 0 {
		if r.slot = p.Take(false); r.slot == 0 {
			return true, nil
		}
	}
	state := r.part.state
	piece := state[r.at:min(r.at+d.shape.StatePiece(), len(state))]
	if _, ok, err := d.mover.Carry(nil, func() error { return d.model.RestoreState(r.slot, r.at, piece) }); !ok {
		return true, err
	}
	d.near.bytes.Add(int64(len(piece)))
	//rule:G20 TestStatesOnDiskFaults false
	if r.at += len(piece); r.at < len(state) {
		return false, nil
	}
	d.near.saved.Add(-int64(d.state * 1e9))
	p.Hang(r.slot, path[len(path)-1], false, d.places())
	r.slot, r.done = 0, true
	return false, nil
}

// statesToSave returns the lengths of a text whose snapshots are worth saving, ascending.
func (d *diskTier) statesToSave(t text) (at []int) {
	p := d.cells.Snapshots()
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
	before, rate := 0, float64(d.near.rate.Load())
	return slices.DeleteFunc(at, func(n int) bool {
		bytes := float64(d.owner.State) + float64(n-before)*float64(d.owner.Row)
		if d.redo(before, n) <= bytes/rate+d.state {
			return true
		}
		before = n
		return false
	})
}

// saveState is save for a model with states: it copies a piece of the rows before the next state
// that is to be saved, or a piece of the state.
func (d *diskTier) saveState(v *saving) (bool, error) {
	p := d.cells.Snapshots()
	if len(v.stops) == 0 {
		d.saving = nil
		return true, nil
	}
	end, size := v.stops[0], d.disk.Block()
	path, slot := p.Peek(v.key, v.ids[:end])
	if len(path) < end {
		v.stops, v.filled, v.at = v.stops[1:], 0, 0 // its rows are gone
		return true, nil
	}
	if v.next < end/size {
		return true, d.saveBlock(v, path)
	}
	full, err := d.gather(v, path[end-end%size:])
	if err != nil || !full {
		return true, err
	}
	if v.state == nil {
		v.state = make([]byte, d.shape.State)
	}
	if use := p.Use(slot); v.at == 0 || v.slot != slot || v.use != use {
		v.at, v.slot, v.use = 0, slot, use
	}
	piece := v.state[v.at:min(v.at+d.shape.StatePiece(), len(v.state))]
	if _, ok, err := d.mover.Carry(nil, func() error { return d.model.SaveState(slot, v.at, piece) }); !ok {
		d.saving = nil
		return true, err
	}
	if v.at += len(piece); v.at < len(v.state) {
		return true, nil
	}
	next, tail := v.next, v.block[:end%size*d.shape.RowBytes()]
	v.stops, v.at = v.stops[1:], 0
	d.inBackground(v, func() int {
		if senselessRows(tail) || v.on.SaveState(end, tail, v.state) != nil {
			return -1
		}
		d.out.Add(int64(len(tail) + len(v.state)))
		return next
	})
	return true, nil
}
