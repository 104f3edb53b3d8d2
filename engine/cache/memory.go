package cache

import (
	"sync/atomic"

	"github.com/axle-llm/axle/internal/ranked"
)

// Memory is how much of this machine's memory may keep rows that had to leave a card: one limit for
// all models that are given it, to the byte. Whatever of theirs was used longest ago goes first,
// whichever model's it is; so a model that is not asked makes room for one that is. Nothing is kept
// of a model that was unloaded. A nil Memory keeps nothing.
type Memory struct {
	limit int64
	tick  atomic.Uint64 // every tier's clock, so that what is in them can be told by age

	mu    ranked.Mutex[ranked.Memory] // guards tiers, each one's tree, back and states: any card's worker may take rows from any of them
	tiers []*RAM
}

// NewMemory is a Memory of this many bytes; nil for none.
func NewMemory(limit int64) *Memory {
	if limit <= 0 {
		return nil
	}
	return &Memory{limit: limit}
}

// Used is how many bytes are taken, of how many.
func (m *Memory) Used() (used, limit int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.used(), m.limit
}

// used is how many bytes of it are taken. mu is held.
func (m *Memory) used() (n int64) {
	for _, r := range m.tiers {
		n += int64(len(r.buf)) + r.held()
	}
	return n
}

// strideOf is from one row of this many bytes to the next.
func strideOf(bytes int) int {
	if bytes >= pageSize { // what goes is given back to the machine by the page
		return (bytes + pageSize - 1) / pageSize * pageSize
	}
	return bytes
}

// mostRAMRows is the most rows that are saved, however much memory there is. Bookkeeping takes
// forty bytes a row, and searches look at each.
const mostRAMRows = 1 << 17

// RowsIn is how many rows of this many bytes fit in so much of this machine's memory, of a model
// alone there, where piece of them are to be copied at once; and how many then are.
func RowsIn(limit int64, bytes, piece int) (rows, copied int) {
	stride := strideOf(bytes)
	n := int(min(limit/int64(stride), mostRAMRows))
	piece = min(piece, max(n/8, 1))
	waits := (piece*bytes + stride - 1) / stride // where a piece waits on its way counts too
	return max(n-waits, 0), piece
}

// Open makes a tier for rows of this many bytes of the model whose tree it is, of which at most
// piece are copied at once; nil where there is no room for as much as a row. It must be closed.
func (m *Memory) Open(bytes, piece int, card *Tree) *RAM {
	m.mu.Lock()
	defer m.mu.Unlock()
	r := &RAM{memory: m, card: card, bytes: bytes, stride: strideOf(bytes)}
	left := m.limit
	for _, o := range m.tiers {
		left -= int64(len(o.buf))
	}
	var n int
	if n, r.piece = RowsIn(left, bytes, piece); n == 0 {
		return nil
	}
	for m.used()+int64(r.piece*bytes) > m.limit {
		if !m.evict(int64(r.piece * bytes)) {
			return nil
		}
	}
	var err error
	if r.rows, r.free, err = hostMemory(n * r.stride); err != nil {
		return nil // no memory to keep anything in: all is evaluated
	}
	r.buf = make([]byte, r.piece*bytes)
	r.tree = New(n)
	r.tree.clock = &m.tick
	r.copyOf, r.back = make([]int32, card.Size()), make([]int32, n)
	for i := range r.copyOf {
		r.copyOf[i] = none
	}
	for i := range r.back {
		r.back[i] = none
	}
	r.tree.dropped = func(h int32) {
		r.back[h] = none
		delete(r.states, h)
		if r.stride%pageSize == 0 {
			giveMemory(r.row(h)[:r.stride])
		}
	}
	m.tiers = append(m.tiers, r)
	dropped := card.dropped
	card.dropped = func(n int32) {
		if r.copyOf[n] = none; dropped != nil {
			dropped(n)
		}
	}
	return r
}

// room makes room for as many of n rows of r as can be, and says how many that is. What r holds
// (hold) stays. mu is held.
func (m *Memory) room(r *RAM, n int) int {
	for {
		have := int(min(int64(r.tree.nfree), (m.limit-m.used())/int64(r.stride)))
		if have >= n || !m.evict(int64(n-have)*int64(r.stride)) {
			return min(have, n)
		}
	}
}

// evict gives about need bytes free, from the end of the text that was used longest ago, and
// reports whether there was one. mu is held.
func (m *Memory) evict(need int64) bool {
	var from *RAM
	oldest := none
	for _, r := range m.tiers {
		if n := r.tree.oldest(); n != none && (from == nil || r.tree.used[n] < from.tree.used[oldest]) {
			from, oldest = r, n
		}
	}
	if from == nil {
		return false
	}
	from.tree.Prune(oldest, max(int(need/int64(from.stride)), 32))
	return true
}
