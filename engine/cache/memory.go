package cache

import (
	"sync/atomic"

	"github.com/axle-llm/axle/internal/ranked"
)

// Memory limits the memory of this machine that keeps rows evicted from cards. Models that are
// given the same Memory share the limit, to the byte. The least recently used goes first, of
// whichever model, so an idle model makes room for a busy one. Nothing is kept of an unloaded
// model. A nil Memory keeps nothing.
type Memory struct {
	limit int64
	tick  atomic.Uint64 // the clock of all tiers, so that ages can be compared

	mu    ranked.Mutex[ranked.Memory] // guards tiers, and each one's tree, back and states: any card's worker may evict from any tier
	tiers []*RAM
}

// NewMemory returns a Memory of this many bytes; nil for none.
func NewMemory(limit int64) *Memory {
	if limit <= 0 {
		return nil
	}
	return &Memory{limit: limit}
}

// Used returns how many bytes are used, and the limit.
func (m *Memory) Used() (used, limit int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.used(), m.limit
}

// used returns how many bytes are used. mu is held.
func (m *Memory) used() (n int64) {
	for _, r := range m.tiers {
		n += int64(len(r.buf)) + r.held()
	}
	return n
}

// strideOf returns the distance between rows of this many bytes.
func strideOf(bytes int) int {
	if bytes >= pageSize { // memory is given back in pages
		return (bytes + pageSize - 1) / pageSize * pageSize
	}
	return bytes
}

// mostRAMRows is the most rows that are saved, however much memory there is. Bookkeeping takes
// forty bytes a row, and searches visit every row.
const mostRAMRows = 1 << 17

// RowsIn returns how many rows of this many bytes fit into the limit for a model alone, if piece of
// them are copied at once, and how many then are copied at once.
func RowsIn(limit int64, bytes, piece int) (rows, copied int) {
	stride := strideOf(bytes)
	n := int(min(limit/int64(stride), mostRAMRows))
	piece = min(piece, max(n/8, 1))
	waits := (piece*bytes + stride - 1) / stride // the buffer for a piece counts too
	return max(n-waits, 0), piece
}

// Open makes a tier for the model that the tree card belongs to, with rows of this many bytes, of
// which at most piece are copied at once. It returns nil if there is no room for a row. The caller
// closes the tier.
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
		return nil // no memory: evicted rows are evaluated again
	}
	r.buf = make([]byte, r.piece*bytes)
	r.tree = New(n)
	r.tree.clock = &m.tick
	if card.told != nil {
		card.told.listen(r.tree, InMemory)
	}
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

// room makes room for up to n rows of r, and returns how many fit. Held rows stay. mu is held.
func (m *Memory) room(r *RAM, n int) int {
	for {
		have := int(min(int64(r.tree.nfree), (m.limit-m.used())/int64(r.stride)))
		if have >= n || !m.evict(int64(n-have)*int64(r.stride)) {
			return min(have, n)
		}
	}
}

// evict frees about need bytes, from the end of the least recently used text, and reports whether
// there was one. mu is held.
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
