package engine

import (
	"math"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/axle-llm/axle/engine/cache"
	"github.com/axle-llm/axle/models/rows"
)

// This file keeps what was evaluated on disk, and takes it from there where that is cheaper than
// evaluating it again. Blocks of rows come and go as pieces, one between two passes at most, and
// goroutines beside the worker do what waits for the disk: no stream's gap grows by more.
//
// What comes is grafted onto the tree of cells, as a cached text that no sequence stands on: the
// sequence that asked for it then starts as it would on any other. What goes is copied while the
// card is idle, or now and then while it is not.

const (
	keptTexts   = 32          // ended sequences whose blocks are still to go; older ones are forgotten
	keptFetches = 4           // sequences that wait for the disk at a time: each has a few blocks in memory
	keptEvery   = 64          // passes between two pieces that go while the card is busy
	keptRate    = 40 * 1e6    // bytes a second that a disk is taken to read, until it has
	keptWait    = time.Minute // a disk that gives nothing for so long is not waited for
)

// keeper is one model's use of a disk. Its fields are the worker's, but for those that are said to
// be otherwise.
type keeper struct {
	*core
	ramTier *ramTier // nil: nothing is kept in memory
	disk    cache.Medium
	owner   cache.Owner
	up      float64      // seconds a row takes to the card, measured at load
	state   float64      // seconds a state takes there; 0: the model has none
	rate    atomic.Int64 // bytes a second that the disk reads; any goroutine's
	back    atomic.Int64 // rows that came back; any goroutine's
	in      atomic.Int64 // bytes that did, states too; any goroutine's
	out     atomic.Int64 // bytes that went there; any goroutine's
	saved   atomic.Int64 // nanoseconds that evaluating them would have taken longer; any goroutine's
	tasks   sync.WaitGroup

	closed chan struct{}
	once   sync.Once

	fetching []*fetch
	texts    []text
	save     *saving
}

// text is what an ended sequence has said and heard.
type text struct {
	key string
	ids []int32
}

// fetch is a sequence that waits for the beginning of its prompt.
type fetch struct {
	s     *seq
	to    int // this many rows of it come
	done  bool
	part  *part  // that is being grafted
	slot  uint32 // that the state comes to, and how many bytes of it are there
	at    int
	last  time.Duration
	got   chan *part
	ended chan struct{}
}

// part is what a file has: rows [from, to) of a text and, where it is a state's, the state after
// them.
type part struct {
	from, to    int
	rows, state []byte
}

// saving is a text on its way to the disk. One goroutine at a time works for it; what it sends is
// the block that is next, or −1 for none.
type saving struct {
	text
	on     cache.Text
	next   int
	block  []byte
	filled int // rows of it
	away   bool
	back   chan int

	stops []int  // lengths of the text after which states are to go, ascending: see keptstate.go
	state []byte // the next of them, as far as it is here: at bytes
	at    int
	slot  uint32 // that it is in
	use   uint64 // of the slot: another means that it holds something else by now
}

// newKeeper measures what a row costs to the card, on unused cells, and a state. Without a disk, or
// where rows cannot be copied or lie anywhere, it gives nil, which keeps nothing.
func newKeeper(c *core, d cache.Medium, digest, model string) (*keeper, error) {
	if d == nil || c.shape.Piece == 0 || !c.restores() {
		return nil, nil
	}
	info := c.card.Info()
	k := &keeper{core: c, disk: d, closed: make(chan struct{}),
		owner: cache.Owner{Package: digest, Model: model, Card: strings.Join([]string{info.Kind, info.Name}, " "), Row: c.shape.RowBytes()}}
	k.rate.Store(keptRate)
	cells := make([]uint32, min(c.shape.Piece, d.Block()))
	for i := range cells {
		cells[i] = uint32(i)
	}
	piece := make([]byte, len(cells)*c.shape.RowBytes())
	t0 := c.card.Now()
	if err := c.card.Watched(0, func() error { return c.model.Restore(cells, piece) }); err != nil {
		return nil, err
	}
	k.up = (c.card.Now() - t0).Seconds() / float64(len(cells))
	if err := k.keepsStates(); err != nil {
		return nil, err
	}
	return k, nil
}

// on is a text of key's on the disk.
func (k *keeper) on(key string, ids []int32) cache.Text {
	o := k.owner
	o.Key = key
	return k.disk.Text(o, ids)
}

// ask looks how much of a prompt is on disk. It may wait for the disk, so it runs on the caller's
// goroutine.
func (k *keeper) ask(s *seq) {
	if k == nil || s.repeatable || s.whole() {
		return
	}
	s.kept = k.on(s.Key, spelled(s.ids[:len(s.ids)-1])).Found()
}

// fetch has what the disk keeps of a sequence brought, where that is quicker than evaluating it,
// and reports whether the sequence is to wait for it. It stands on nothing meanwhile.
func (k *keeper) fetch(s *seq) bool {
	if k == nil || s.kept == 0 || len(k.fetching) >= keptFetches {
		return false
	}
	size, end := k.disk.Block(), s.kept
	have, least := len(s.Path), size/2
	near := max(have, k.ramTier.restorable(s)) // what memory has comes from there: no disk is quicker
	if k.owner.State > 0 {
		if k.live()+k.waiting() >= k.limits.Sequences {
			return false // no slot is sure for its state
		}
		have, least = len(k.cells.Peek(s.Key, s.ids[:end])), 1
	}
	if end-near < least {
		return false
	}
	from := have / size
	bytes := float64(end-from*size)*float64(k.shape.RowBytes()) + float64(k.owner.State)
	if bytes/float64(k.rate.Load())+float64(end-have)*k.up+k.state >= k.redo(near, end) {
		return false
	}
	f := &fetch{s: s, to: end, last: k.card.Now(), got: make(chan *part, 1), ended: make(chan struct{})}
	s.kept = 0 // it is asked for once
	k.leave(s)
	k.fetching = append(k.fetching, f)
	ids := slices.Clone(s.ids[:end])
	k.tasks.Go(func() { k.read(f, k.on(f.s.Key, ids), from, k.card) })
	return true
}

// read brings a fetch's blocks, from one on, and closes got after the last that is there. Where
// they lead to a state, that is read first: without it they are of no use.
func (k *keeper) read(f *fetch, text cache.Text, from int, card *Card) {
	defer card.Wake()
	defer close(f.got)
	size := k.disk.Block()
	blocks := f.to / size
	give := func(p *part) bool {
		select {
		case f.got <- p:
			card.Wake()
			return true
		case <-f.ended:
		case <-k.closed:
		}
		return false
	}
	timed := func(p *part, load func() bool) bool {
		begun := card.Now()
		if !load() {
			return false
		}
		if took := (card.Now() - begun).Seconds(); took > 0 {
			rate := math.Min(float64(len(p.rows)+len(p.state))/took, 1e10)
			k.rate.Store(int64(0.5*float64(k.rate.Load()) + 0.5*rate))
		}
		return true
	}
	var last *part
	if k.owner.State > 0 {
		last = &part{from: blocks * size, to: f.to, state: make([]byte, k.owner.State)}
		last.rows = make([]byte, (last.to-last.from)*k.owner.Row)
		if !timed(last, func() bool { return text.LoadState(f.to, last.rows, last.state) }) {
			return
		}
	}
	for i := from; i < blocks; i++ {
		p := &part{from: i * size, to: (i + 1) * size, rows: make([]byte, size*k.owner.Row)}
		if !timed(p, func() bool { return text.Load(i, p.rows) }) || !give(p) {
			return
		}
	}
	if last != nil {
		give(last)
	}
}

// graft puts at most one piece of what came from disk on the card. It reports whether it did
// anything; a fatal error is the card's end.
func (k *keeper) graft() (bool, error) {
	if k == nil {
		return false, nil
	}
	for i, f := range k.fetching {
		over := f.s.gone.Load() || f.s.ctx.Err() != nil || k.disk.Off()
		if !over && f.part == nil {
			select {
			case p, ok := <-f.got:
				f.part, over, f.last = p, !ok, k.card.Now()
			default:
				over = k.card.Now()-f.last > keptWait
				if !over {
					continue
				}
			}
		}
		var err error
		if !over {
			if over, err = k.plant(f); err != nil {
				return true, err
			}
		}
		if over || f.done {
			k.cache.Give(f.slot)
			close(f.ended)
			k.fetching = slices.Delete(k.fetching, i, i+1)
			k.requeue(f.s)
		}
		return true, nil
	}
	return false, nil
}

// plant gives the card a piece of the part that a fetch has, behind what is there of its text
// already. It reports whether there is no use in going on: then the rest is evaluated.
func (k *keeper) plant(f *fetch) (over bool, err error) {
	p, key := f.part, f.s.Key
	path := k.cells.Match(key, f.s.ids[:p.to], p.to)
	n := min(p.to-len(path), k.shape.Piece)
	if n == 0 && p.state != nil {
		return k.plantState(f, path[:p.to])
	}
	if n > 0 {
		if len(path) < p.from {
			return true, nil // what it would hang on has gone
		}
		taken, ok := k.ground(key, path, n, p.to)
		if !ok {
			return true, nil
		}
		at, size := len(path)-p.from, k.shape.RowBytes()
		cells := unsigned(taken)
		if _, ok, err := k.mover.Carry(cells, func() error {
			return k.model.Restore(cells, p.rows[at*size:(at+n)*size])
		}); !ok {
			k.cells.Give(taken...)
			return true, err
		}
		k.cells.Graft(key, path, taken, f.s.ids[len(path):])
		k.back.Add(int64(n))
		k.in.Add(int64(n * size))
		k.saved.Add(int64((k.redo(len(path), len(path)+n) - float64(n)*k.up) * 1e9))
	}
	if len(path)+n == p.to && p.state == nil {
		f.part, f.done = nil, p.to == f.to && k.owner.State == 0
	}
	return false, nil
}

// ground takes n cells behind path for a text that will be end rows long, low ones where wide
// passes must see them, and none that those who run will need.
func (k *keeper) ground(key string, path []int32, n, end int) ([]int32, bool) {
	need := n
	for _, r := range k.running {
		if !r.box.full() {
			need += r.pending() + 16
		}
	}
	below := 0
	if end <= k.wideReach {
		below = k.wideReach
	}
	return k.cells.TakeBehind(key, path, n, need, below)
}

// note remembers that a sequence which ends has rows that are worth keeping.
func (k *keeper) note(s *seq) {
	if k == nil || s.embed != nil {
		return
	}
	ids := slices.Clone(spelled(s.ids[:len(s.Path)]))
	if len(ids) == 0 || len(ids) < k.disk.Block() && k.owner.State == 0 {
		return
	}
	k.texts = slices.DeleteFunc(k.texts, func(t text) bool {
		return t.key == s.job.Key && len(t.ids) <= len(ids) && slices.Equal(t.ids, ids[:len(t.ids)])
	})
	if len(k.texts) == keptTexts {
		k.texts = slices.Delete(k.texts, 0, 1)
	}
	k.texts = append(k.texts, text{s.job.Key, ids})
}

// keep takes a piece of what is to be kept off the card, the latest text first. It reports whether
// it did anything; a fatal error is the card's end.
func (k *keeper) keep() (bool, error) {
	if k == nil || k.disk.Off() {
		return false, nil
	}
	v := k.save
	if v == nil {
		n := len(k.texts) - 1
		if n < 0 {
			return false, nil
		}
		v = &saving{text: k.texts[n], away: true, back: make(chan int, 1)}
		v.on, k.texts, k.save = k.on(v.key, v.ids), k.texts[:n], v
		v.block = make([]byte, k.disk.Block()*k.shape.RowBytes())
		v.stops = k.leaves(v.text)
		k.beside(v, func() int {
			v.stops = slices.DeleteFunc(v.stops, func(n int) bool { return v.on.HasState(n) })
			return v.on.Blocks()
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
	if v.next >= 0 && k.owner.State > 0 {
		return k.keepState(v)
	}
	if v.next < 0 || v.next == len(v.ids)/k.disk.Block() {
		k.save = nil
		return true, nil
	}
	end := (v.next + 1) * k.disk.Block()
	path := k.cells.Peek(v.key, v.ids[:end])
	if len(path) < end {
		k.save = nil // gone before it could be kept
		return true, nil
	}
	return true, k.keepBlock(v, path)
}

// keepBlock takes a piece of a text's next block off the card, and has the block written when it is
// whole.
func (k *keeper) keepBlock(v *saving, path []int32) error {
	from := v.next * k.disk.Block()
	full, err := k.gather(v, path[from:from+k.disk.Block()])
	if full {
		block, next := v.next, v.next+1
		k.beside(v, func() int {
			if senselessRows(v.block) || v.on.Save(block, v.block) != nil {
				return -1
			}
			k.out.Add(int64(len(v.block)))
			return next
		})
	}
	return err
}

// gather takes a piece of the rows off the card that v's block is to hold, and reports whether all
// are there.
func (k *keeper) gather(v *saving, rows []int32) (full bool, err error) {
	n, size := min(len(rows)-v.filled, k.shape.Piece), k.shape.RowBytes()
	if n > 0 {
		cells := unsigned(rows[v.filled : v.filled+n])
		if _, ok, err := k.mover.Carry(nil, func() error {
			return k.model.Save(cells, v.block[v.filled*size:(v.filled+n)*size])
		}); !ok {
			k.save = nil
			return false, err
		}
		v.filled += n
	}
	return v.filled == len(rows), nil
}

// senselessRows reports a value that is no number: a card's trouble is not kept for later.
func senselessRows(block []byte) bool {
	for i := 1; i < len(block); i += 2 {
		if block[i]&0x7f == 0x7f && block[i-1]&0x80 != 0 {
			return true
		}
	}
	return false
}

// beside works for v on a goroutine of its own.
func (k *keeper) beside(v *saving, work func() int) {
	v.away = true
	wake := k.card.Wake
	k.tasks.Go(func() {
		v.back <- work()
		wake()
	})
}

// stats is what went and came back so far.
func (k *keeper) stats() DiskTier {
	if k == nil {
		return DiskTier{}
	}
	return DiskTier{On: !k.disk.Off(), Rows: int(rows.Fit(k.disk.Size(), k.owner.Row)), Bytes: k.disk.Size(),
		Hits: uint64(k.back.Load()), Out: uint64(k.out.Load()), In: uint64(k.in.Load()), Saved: time.Duration(k.saved.Load())}
}

// close waits for what reads and writes. The worker must have let go of the model.
func (k *keeper) close() {
	if k == nil {
		return
	}
	k.once.Do(func() { close(k.closed) })
	k.tasks.Wait()
}
