package engine

import (
	"sync/atomic"

	"github.com/axle-llm/axle/internal/ranked"
)

// Memory is how much of this machine's memory may keep rows that had to leave a card: one limit for all models that are given it
// ([OpenOptions].CacheRAM), to the byte. Whatever of theirs was used longest ago goes first, whichever model's it is; so a model that
// nobody asks makes room for one that is asked. Nothing is kept of a model that was unloaded. A nil Memory keeps nothing.
type Memory struct {
	limit int64
	tick  atomic.Uint64 // every tier's clock, so that what is in them can be told by age

	mu    ranked.Mutex[ranked.Memory] // guards tiers, each one's tree and back: any card's worker may take rows from any of them
	tiers []*tier
}

// NewMemory is a Memory of so many bytes; nil for none.
func NewMemory(limit int64) *Memory {
	if limit <= 0 {
		return nil
	}
	return &Memory{limit: limit}
}

// used is how many bytes of it are taken. mu is held.
func (m *Memory) used() (n int64) {
	for _, t := range m.tiers {
		n += int64(len(t.buf)) + t.held()
	}
	return n
}

// held is what the tier's rows take, and its snapshots. Memory's lock is held.
func (t *tier) held() int64 { return int64(t.c.size()-t.c.nfree)*int64(t.stride) + t.shelf.held() }

// strideOf is from one row of so many bytes to the next.
func strideOf(bytes int) int {
	if bytes >= pageSize { // what goes is given back to the machine by the page
		return (bytes + pageSize - 1) / pageSize * pageSize
	}
	return bytes
}

// RowsIn is how many rows of so many bytes fit in so much of this machine's memory, of a model alone there, where piece of them are to
// travel at once; and how many then do.
func RowsIn(limit int64, bytes, piece int) (rows, travel int) {
	stride := strideOf(bytes)
	n := int(min(limit/int64(stride), mostKept))
	piece = min(piece, max(n/8, 1))
	waits := (piece*bytes + stride - 1) / stride // where a piece waits on its way counts too
	return max(n-waits, 0), piece
}

// open makes a tier for rows of so many bytes, of which at most piece travel at once; nil where there is no room for as much as a row.
func (m *Memory) open(bytes, piece, cells int) *tier {
	m.mu.Lock()
	defer m.mu.Unlock()
	t := &tier{memory: m, bytes: bytes, stride: strideOf(bytes)}
	left := m.limit
	for _, o := range m.tiers {
		left -= int64(len(o.buf))
	}
	var n int
	if n, t.piece = RowsIn(left, bytes, piece); n == 0 {
		return nil
	}
	for m.used()+int64(t.piece*bytes) > m.limit {
		if !m.evict(int64(t.piece * bytes)) {
			return nil
		}
	}
	var err error
	if t.rows, t.free, err = hostMemory(n * t.stride); err != nil {
		return nil // no memory to keep anything in: all is evaluated
	}
	t.buf = make([]byte, t.piece*bytes)
	t.c = newCells(n)
	t.c.clock = &m.tick
	t.kept, t.back = make([]int32, cells), make([]int32, n)
	for i := range t.kept {
		t.kept[i] = none
	}
	for i := range t.back {
		t.back[i] = none
	}
	t.c.dropped = func(h int32) {
		t.back[h] = none
		delete(t.shelf.states, h)
		if t.stride%pageSize == 0 {
			giveMemory(t.row(h)[:t.stride])
		}
	}
	m.tiers = append(m.tiers, t)
	return t
}

// row is where row h lies.
func (t *tier) row(h int32) []byte { return t.rows[int(h)*t.stride : (int(h)+1)*t.stride] }

// room makes room for as many of n rows of t as can be, and says how many that is. What t holds (hold) stays. mu is held.
func (m *Memory) room(t *tier, n int) int {
	for {
		have := int(min(int64(t.c.nfree), (m.limit-m.used())/int64(t.stride)))
		if have >= n || !m.evict(int64(n-have)*int64(t.stride)) {
			return min(have, n)
		}
	}
}

// evict gives about need bytes free, from the end of the text that was used longest ago, and reports whether there was one. mu is held.
func (m *Memory) evict(need int64) bool {
	var from *tier
	oldest := none
	for _, t := range m.tiers {
		if n := t.c.oldest(); n != none && (from == nil || t.c.used[n] < from.c.used[oldest]) {
			from, oldest = t, n
		}
	}
	if from == nil {
		return false
	}
	from.c.prune(oldest, max(int(need/int64(from.stride)), 32))
	return true
}

// close gives the tier's memory back.
func (t *tier) close() {
	if t == nil || t.free == nil {
		return
	}
	t.memory.mu.Lock()
	defer t.memory.mu.Unlock()
	for i, o := range t.memory.tiers {
		if o == t {
			t.memory.tiers = append(t.memory.tiers[:i], t.memory.tiers[i+1:]...)
			break
		}
	}
	t.free()
	t.rows, t.free, t.off, t.shelf.states, t.shelf.half = nil, nil, true, nil, nil
}
