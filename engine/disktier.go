package engine

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/axle-llm/axle/engine/cache"
	"github.com/axle-llm/axle/models/rows"
)

// This file saves evaluated rows to disk, and reads them back where that is cheaper than evaluating
// them again. Blocks of rows are copied in pieces, at most one between two passes, so a stream
// never waits for more than one piece. Other goroutines than the worker wait for the disk.
//
// Rows that come back are inserted into the tree of cells as a cached text that no sequence uses.
// The sequence that asked for them then starts as it does on any cached text. Rows are saved while
// the card is idle, and now and then while it is busy.

const (
	diskTexts = 32               // ended texts that wait to be saved; older ones are forgotten
	diskReads = 4                // sequences that wait for the disk at a time: each has a few blocks in memory
	diskEvery = 64               // passes between two pieces that are saved while the card is busy
	diskEnd   = 10 * time.Second // for reads and writes to end
	diskRate  = 40 * 1e6         // bytes a second that a disk is assumed to read, until one was measured
)

// diskTier is one model's use of a disk. Its fields belong to the worker, except those that say
// otherwise.
type diskTier struct {
	*core
	ramTier *ramTier // nil: nothing is kept in memory
	disk    cache.Medium
	told    *cache.Blocks // nil: no listener is told of blocks
	owner   cache.Owner
	up      float64      // seconds to restore a row to the card, measured at load
	state   float64      // seconds to restore a state; 0: the model has none
	near    origin       // the medium itself
	far     *origin      // the place behind it; nil: there is none
	out     atomic.Int64 // bytes that were saved; any goroutine
	tasks   sync.WaitGroup

	closed chan struct{}
	once   sync.Once

	reading []*diskRead
	texts   []text
	saving  *saving
}

// text is the prompt and the answer of an ended sequence.
type text struct {
	key string
	ids []int32
}

// diskRead is a sequence that waits for rows of its prompt from disk.
type diskRead struct {
	s     *seq
	to    int // how many rows of the prompt are read, at the most
	done  bool
	part  *part  // that is being restored
	slot  uint32 // that the state is restored to
	at    int    // bytes of the state that are there
	pace  *pace
	got   chan *part
	ended chan struct{}
}

// part is the contents of a file: rows [from, to) of a text and, in a file with a state, the state
// after them.
type part struct {
	from, to    int
	rows, state []byte
	by          *origin
}

// saving is a text that is being saved. One goroutine at a time works on it. On back it sends the
// number of the next block, or −1 for none.
type saving struct {
	text
	on     cache.Text
	next   int
	block  []byte
	filled int  // rows of block
	away   bool // a goroutine works on it
	back   chan int
	saved  func(i int) // tells of a block that is on disk

	stops []int  // lengths of the text whose states are to be saved, ascending: see diskstates.go
	state []byte // the next of these states
	at    int    // bytes of it that were copied
	slot  uint32 // that it is in
	use   uint64 // of the slot: if it changes, the slot holds something else
}

// openDiskTier measures what it costs to restore a row, on unused cells, and a state. Without a
// disk, or if rows cannot be copied or cannot lie in any cell, it returns nil, which saves nothing.
func openDiskTier(c *core, disk cache.Medium, digest, model string) (*diskTier, error) {
	if disk == nil || c.shape.Piece == 0 || !c.restores() {
		return nil, nil
	}
	info := c.card.Info()
	d := &diskTier{core: c, disk: disk, closed: make(chan struct{}),
		owner: cache.Owner{Package: digest, Model: model, Card: strings.Join([]string{info.Kind, info.Name}, " "), Row: c.shape.RowBytes()}}
	d.near.rate.Store(diskRate)
	cells := make([]uint32, min(c.shape.Piece, disk.Block()))
	for i := range cells {
		cells[i] = uint32(i)
	}
	piece := make([]byte, len(cells)*c.shape.RowBytes())
	t0 := c.card.Now()
	if err := c.card.Watched(0, func() error { return c.model.Restore(cells, piece) }); err != nil {
		return nil, err
	}
	d.up = (c.card.Now() - t0).Seconds() / float64(len(cells))
	if err := d.priceStates(); err != nil {
		return nil, err
	}
	d.openFar()
	return d, nil
}

// on returns a text of this key on the disk.
func (d *diskTier) on(key string, ids []int32) cache.Text {
	o := d.owner
	o.Key = key
	return d.disk.Text(o, ids)
}

// ask finds out how much of a prompt is on disk. It may wait for the disk, so it runs on the
// caller's goroutine.
func (d *diskTier) ask(s *seq) {
	if d == nil || s.repeatable || s.whole() {
		s.onDisk = -1
		return
	}
	s.onDisk = d.on(s.Key, spelled(s.ids[:len(s.ids)-1])).Found()
}

// startRead starts to read what the disk has of a sequence, if that is quicker than evaluating it.
// It reports whether the sequence must wait for it. Meanwhile the sequence holds no cells.
func (d *diskTier) startRead(s *seq) bool {
	if d == nil || s.onDisk < 0 || s.onDisk == 0 && d.far == nil || len(d.reading) >= diskReads {
		return false
	}
	size, end := d.disk.Block(), s.onDisk
	have, least := len(s.Path), size/2
	near := max(have, d.ramTier.restorable(s)) // rows in memory are restored from there: no disk is quicker
	if d.owner.State > 0 {
		if d.live()+d.waiting() >= d.limits.Sequences {
			return false // there may be no slot for its state
		}
		have, least = len(d.cells.Peek(s.Key, s.ids[:end])), 1
	} else if d.far != nil {
		end = max(end, (len(s.ids)-1)/size*size)
	}
	if end-near < least {
		return false
	}
	p := d.weigh(s, have, near)
	if p == nil {
		return false
	}
	if end = s.onDisk; p.far {
		end = (len(p.totals) - 1) * size
	}
	r := &diskRead{s: s, to: end, pace: p, got: make(chan *part, 1), ended: make(chan struct{})}
	s.onDisk = -1 // it is read once
	d.leave(s)
	d.reading = append(d.reading, r)
	ids := slices.Clone(s.ids[:end])
	found := d.told.Saved(s.Key, ids)
	ctx, cancel := context.WithCancel(s.ctx)
	p.stop = cancel
	_, left := d.late(r)
	p.wakeAfter(left, d.card.Wake)
	d.tasks.Go(func() { d.read(ctx, r, d.on(r.s.Key, ids), have/size, d.card, found) })
	return true
}

// read reads the blocks of r, from block from on, and closes got after the last one there is. found
// is told of each, and of those before from that are still there. If they lead to a state, the
// state is read first, because without it the blocks are of no use.
func (d *diskTier) read(ctx context.Context, r *diskRead, text cache.Text, from int, card *Card, found func(i int)) {
	defer card.Wake()
	defer close(r.got)
	p, size := r.pace, d.disk.Block()
	near := p.near / size
	if d.told != nil {
		for i := range min(from, text.Blocks()) {
			found(i)
		}
	}
	give := func(p *part) bool {
		select {
		case r.got <- p:
			card.Wake()
			return true
		case <-r.ended:
		case <-d.closed:
		}
		return false
	}
	blocks, far := near, cache.FarText(nil)
	if p.far {
		if far, _ = text.(cache.FarText); far == nil {
			return
		}
		p.timed(card, d.far, true, 0, func() bool { blocks = far.FoundFar(ctx, near); return ctx.Err() == nil })
		if blocks = p.best(blocks); blocks == 0 {
			return
		}
	}
	var last *part
	if d.owner.State > 0 {
		last = &part{from: blocks * size, to: r.to, state: make([]byte, d.owner.State), by: &d.near}
		last.rows = make([]byte, (last.to-last.from)*d.owner.Row)
		if !p.timed(card, &d.near, false, len(last.rows)+len(last.state), func() bool {
			return text.LoadState(r.to, last.rows, last.state)
		}) {
			return
		}
	}
	var held []*part
	for i := from; i < blocks && ctx.Err() == nil; i++ {
		b := &part{from: i * size, to: (i + 1) * size, rows: make([]byte, size*d.owner.Row), by: &d.near}
		ok := i < near && p.timed(card, &d.near, false, len(b.rows), func() bool { return text.Load(i, b.rows) })
		if !ok && far != nil {
			b.by = d.far
			ok = p.timed(card, d.far, true, len(b.rows), func() bool { return far.LoadFar(ctx, i, b.rows) })
		}
		if !ok {
			return
		}
		if b.by == &d.near {
			found(i)
		}
		if held = append(held, b); b.by == d.far && (i+1)%p.step != 0 && i+1 < blocks {
			continue
		}
		p.have.Store(int64(b.to))
		for _, b := range held {
			if !give(b) {
				return
			}
		}
		held = held[:0]
	}
	if last != nil {
		give(last)
	}
}

// restore restores at most one piece of what came from disk to the card. It reports whether it did
// anything. A returned error loses the card.
func (d *diskTier) restore() (bool, error) {
	if d == nil {
		return false, nil
	}
	for i, r := range d.reading {
		over := r.s.gone.Load() || r.s.ctx.Err() != nil || d.disk.Off()
		if !over && r.part == nil {
			select {
			case p, ok := <-r.got:
				r.part, over = p, !ok
			default:
				left := time.Duration(0)
				if over, left = d.late(r); !over {
					r.pace.wakeAfter(left, d.card.Wake)
					continue
				}
				d.giveUp(r)
			}
		}
		var err error
		if !over {
			if over, err = d.restoreRows(r); err != nil {
				return true, err
			}
		}
		if over || r.done {
			d.cache.Give(r.slot)
			r.pace.end()
			close(r.ended)
			d.reading = slices.Delete(d.reading, i, i+1)
			d.requeue(r.s)
		}
		return true, nil
	}
	return false, nil
}

// restoreRows restores a piece of r's part to the card, behind the rows of its text that are there.
// If over is true, there is no point in going on: the rest is evaluated.
func (d *diskTier) restoreRows(r *diskRead) (over bool, err error) {
	p, key := r.part, r.s.Key
	path := d.cells.Match(key, r.s.ids[:p.to], p.to)
	n := min(p.to-len(path), d.shape.Piece)
	if n == 0 && p.state != nil {
		return d.restoreState(r, path[:p.to])
	}
	if n > 0 {
		if len(path) < p.from {
			return true, nil // the rows before it are gone
		}
		taken, ok := d.takeCells(key, path, n, p.to)
		if !ok {
			return true, nil
		}
		at, size := len(path)-p.from, d.shape.RowBytes()
		cells := unsigned(taken)
		if _, ok, err := d.mover.Carry(cells, func() error {
			return d.model.Restore(cells, p.rows[at*size:(at+n)*size])
		}); !ok {
			d.cells.Give(taken...)
			return true, err
		}
		d.cells.Insert(key, path, taken, r.s.ids[len(path):])
		p.by.rows.Add(int64(n))
		p.by.bytes.Add(int64(n * size))
		p.by.saved.Add(int64((d.redo(len(path), len(path)+n) - float64(n)*d.up) * 1e9))
	}
	if len(path)+n == p.to && p.state == nil {
		r.part, r.done = nil, p.to == r.to && d.owner.State == 0
	}
	return false, nil
}

// takeCells takes n cells behind path for a text that will have end rows. It prefers near cells if
// wide passes must see the text. It leaves enough cells for the running sequences.
func (d *diskTier) takeCells(key string, path []int32, n, end int) ([]int32, bool) {
	need := n
	for _, r := range d.running {
		if !r.box.full() {
			need += r.pending() + 16
		}
	}
	below := 0
	if end <= d.wideReach {
		below = d.wideReach
	}
	return d.cells.TakeBehind(key, path, n, need, below)
}

// note remembers the text of a sequence that ends, to save its rows.
func (d *diskTier) note(s *seq) {
	if d == nil || s.embed != nil {
		return
	}
	ids := slices.Clone(spelled(s.ids[:len(s.Path)]))
	if len(ids) == 0 || len(ids) < d.disk.Block() && d.owner.State == 0 {
		return
	}
	d.texts = slices.DeleteFunc(d.texts, func(t text) bool {
		return t.key == s.Key && len(t.ids) <= len(ids) && slices.Equal(t.ids, ids[:len(t.ids)])
	})
	if len(d.texts) == diskTexts {
		d.texts = slices.Delete(d.texts, 0, 1)
	}
	d.texts = append(d.texts, text{s.Key, ids})
}

// save copies a piece of the rows to be saved off the card, the latest text first. It reports
// whether it did anything. A returned error loses the card.
func (d *diskTier) save() (bool, error) {
	if d == nil || d.disk.Off() {
		return false, nil
	}
	v := d.saving
	if v == nil {
		n := len(d.texts) - 1
		if n < 0 {
			return false, nil
		}
		v = &saving{text: d.texts[n], away: true, back: make(chan int, 1)}
		v.on, d.texts, d.saving = d.on(v.key, v.ids), d.texts[:n], v
		v.block = make([]byte, d.disk.Block()*d.shape.RowBytes())
		v.stops = d.statesToSave(v.text)
		d.inBackground(v, func() int {
			v.stops = slices.DeleteFunc(v.stops, func(n int) bool { return v.on.HasState(n) })
			v.saved = d.told.Saved(v.key, v.ids)
			n := v.on.Blocks()
			for i := range n {
				v.saved(i)
			}
			return n
		})
		return false, nil
	}
	if v.away {
		select {
		case v.next = <-v.back:
			v.away, v.filled = false, 0
		default:
			return false, nil
		}
	}
	if v.next >= 0 && d.owner.State > 0 {
		return d.saveState(v)
	}
	if v.next < 0 || v.next == len(v.ids)/d.disk.Block() {
		d.saving = nil
		return true, nil
	}
	end := (v.next + 1) * d.disk.Block()
	path := d.cells.Peek(v.key, v.ids[:end])
	if len(path) < end {
		d.saving = nil // its rows are gone
		return true, nil
	}
	return true, d.saveBlock(v, path)
}

// saveBlock copies a piece of a text's next block off the card, and starts to write the block when
// it is complete.
func (d *diskTier) saveBlock(v *saving, path []int32) error {
	from := v.next * d.disk.Block()
	full, err := d.gather(v, path[from:from+d.disk.Block()])
	if full {
		block, next := v.next, v.next+1
		d.inBackground(v, func() int {
			if senselessRows(v.block) || v.on.Save(block, v.block) != nil {
				return -1
			}
			d.out.Add(int64(len(v.block)))
			v.saved(block) // it alone: those before it may have had to go for it
			return next
		})
	}
	return err
}

// gather copies a piece of the rows of v's block off the card, and reports whether all are there.
func (d *diskTier) gather(v *saving, rows []int32) (full bool, err error) {
	n, size := min(len(rows)-v.filled, d.shape.Piece), d.shape.RowBytes()
	if n > 0 {
		cells := unsigned(rows[v.filled : v.filled+n])
		if _, ok, err := d.mover.Carry(nil, func() error {
			return d.model.Save(cells, v.block[v.filled*size:(v.filled+n)*size])
		}); !ok {
			d.saving = nil
			return false, err
		}
		v.filled += n
	}
	return v.filled == len(rows), nil
}

// senselessRows reports whether a value is NaN or infinite. Rows of a faulty card are not saved.
func senselessRows(block []byte) bool {
	for i := 1; i < len(block); i += 2 {
		if block[i]&0x7f == 0x7f && block[i-1]&0x80 != 0 {
			return true
		}
	}
	return false
}

// inBackground runs work for v on its own goroutine.
func (d *diskTier) inBackground(v *saving, work func() int) {
	v.away = true
	wake := d.card.Wake
	d.tasks.Go(func() {
		v.back <- work()
		wake()
	})
}

// stats returns what was saved and restored so far.
func (d *diskTier) stats() DiskTier {
	if d == nil {
		return DiskTier{}
	}
	return DiskTier{On: !d.disk.Off(), Rows: int(rows.Fit(d.disk.Size(), d.owner.Row)), Bytes: d.disk.Size(),
		Hits: uint64(d.near.rows.Load()), Out: uint64(d.out.Load()), In: uint64(d.near.bytes.Load()),
		Saved: time.Duration(d.near.saved.Load())}
}

// close waits for reads and writes to end, for a while. What hangs is left behind, which is an
// error: it uses nothing of the model's. The worker must not use the model any more.
func (d *diskTier) close() error {
	if d == nil {
		return nil
	}
	d.once.Do(func() { close(d.closed) })
	ended := make(chan struct{})
	go func() {
		d.tasks.Wait()
		close(ended)
	}()
	t := time.NewTimer(diskEnd)
	defer t.Stop()
	select {
	case <-ended:
		return nil
	case <-t.C:
		return fmt.Errorf("the disk with rows does not answer: what reads and writes there is left behind after %v", diskEnd)
	}
}
