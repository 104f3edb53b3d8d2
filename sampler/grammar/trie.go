package grammar

import (
	"bytes"
	"cmp"
	"slices"
	"sync"
	"weak"

	"github.com/axle-llm/axle/internal/budget"
)

// Vocabulary is what a grammar must know of a tokenizer.
type Vocabulary interface {
	Vocab() int            // largest id + 1
	Bytes(id int32) []byte // the bytes a token stands for; a control token's literal text; nil for an unknown id
	Control(id int32) bool // never produced from user text
	EOS() []int32          // what may end an answer; without any, a complete text leaves no token allowed
}

// control stands before the literal text of a control token. The byte is in no UTF-8 text, so only
// grammars that ask for a control token can match one; ordinary tokens that hold it are left out.
const control = 0xff

// Trie holds a vocabulary's tokens by their bytes. It is built once for a tokenizer and is safe for
// concurrent use: what it caches, masks of the automata that all grammars share, is behind a lock.
type Trie struct {
	vocab int
	eos   []int32
	// The nodes in depth-first order, children by byte: skipping a subtree is one jump, walking it
	// one loop.
	char    []byte
	depth   []uint16
	end     []int32 // the node behind the subtree
	from    []int32 // ids[from[n]:from[n+1]] are the tokens that end at node n
	ids     []int32
	words   [][]byte // by id; nil for what is not in the trie
	most    int32    // more characters than any token has
	masks   maskCache
	strings contents
}

// maxToken keeps depths in a uint16; no tokenizer comes near.
const maxToken = 4096

// NewTrie builds the trie. Tokens without bytes, beyond 4 KiB, or not text are left out and never
// allowed.
func NewTrie(v Vocabulary) *Trie {
	t := &Trie{vocab: v.Vocab(), eos: slices.Clone(v.EOS())}
	t.words = make([][]byte, t.vocab)
	ids := make([]int32, 0, t.vocab)
	for id := range int32(t.vocab) {
		b := v.Bytes(id)
		if len(b) == 0 || len(b) > maxToken || slices.Contains(t.eos, id) {
			continue
		}
		if v.Control(id) {
			b = append([]byte{control}, b...)
		} else if bytes.IndexByte(b, control) >= 0 {
			continue
		}
		t.words[id] = b
		ids = append(ids, id)
	}
	slices.SortFunc(ids, func(a, b int32) int { return cmp.Or(bytes.Compare(t.words[a], t.words[b]), cmp.Compare(a, b)) })
	var path []int32 // the open nodes, by depth
	var last []byte
	for _, id := range ids {
		w := t.words[id]
		same := 0
		for same < len(w) && same < len(last) && w[same] == last[same] {
			same++
		}
		for _, n := range path[same:] {
			t.end[n] = int32(len(t.char))
		}
		path = path[:same]
		for i := same; i < len(w); i++ {
			path = append(path, int32(len(t.char)))
			t.char = append(t.char, w[i])
			t.depth = append(t.depth, uint16(i+1))
			t.end = append(t.end, 0)
			t.from = append(t.from, int32(len(t.ids)))
		}
		t.ids = append(t.ids, id)
		t.most = max(t.most, int32(len(w))+1)
		last = w
	}
	for _, n := range path {
		t.end[n] = int32(len(t.char))
	}
	t.from = append(t.from, int32(len(t.ids)))
	t.masks.limit = 48 << 20
	return t
}

// allSet reports whether bits has every token below node n.
func (t *Trie) allSet(bits []uint64, n int32) bool {
	for _, id := range t.ids[t.from[n+1]:t.from[t.end[n]]] {
		if w := int(id >> 6); w < len(bits) && bits[w]>>(id&63)&1 == 0 {
			return false
		}
	}
	return true
}

// mask is what a state of one automaton allows, whatever stands below it on the stack.
type mask struct {
	dense  []uint64 // one of these two
	sparse []int32
	exits  []int32 // nodes with children where the automaton may be left; −1 is the root
	depth  int32   // stack and room to finish it needs at most
}

func (m *mask) size() int { return 64 + 8*len(m.dense) + 4*len(m.sparse) + 4*len(m.exits) }

// maskKey names a state up to what masks depend on.
type maskKey struct {
	f    *frame
	a, b int32
}

// maskCache is emptied when it grows over its limit: what is in use comes back within a few tokens.
type maskCache struct {
	mu    sync.RWMutex
	m     map[maskKey]*mask
	size  int
	limit int
	room  *maskRoom // that it takes part of; nil: it belongs to a vocabulary, and is none of a request's
}

func (c *maskCache) get(k maskKey) *mask {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return c.m[k]
}

func (c *maskCache) put(k maskKey, m *mask) {
	c.mu.Lock()
	before := c.size
	if c.m == nil || c.size > c.limit {
		c.m, c.size = map[maskKey]*mask{}, 0
	}
	c.m[k] = m
	c.size += m.size()
	more := int64(c.size - before)
	c.mu.Unlock()
	if c.room != nil {
		c.room.grown(c, more)
	}
}

// drop empties the cache.
func (c *maskCache) drop() {
	c.mu.Lock()
	c.m, c.size = nil, 0
	c.mu.Unlock()
}

// maskRoom is the memory of the masks that grammars keep for themselves. Where there is no more,
// the cache that was added to longest ago is emptied.
type maskRoom struct {
	mu    sync.Mutex
	taken int64
	kept  []maskUse // the cache that was added to last comes last
}

// maskUse is what a cache takes, for as long as it was not collected.
type maskUse struct {
	cache weak.Pointer[maskCache]
	size  int64
}

// masksKept is the room of the process.
var masksKept maskRoom

// grown notes that a cache has grown, or shrunk, and makes room for that.
func (r *maskRoom) grown(c *maskCache, by int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	use := maskUse{cache: weak.Make(c)}
	r.kept = slices.DeleteFunc(r.kept, func(u maskUse) bool {
		switch {
		case u.cache == use.cache:
			use = u
		case u.cache.Value() != nil:
			return false
		default:
			r.taken -= u.size
		}
		return true
	})
	by = max(by, -use.size) // it was emptied meanwhile
	use.size, r.taken = use.size+by, r.taken+by
	r.kept = append(r.kept, use)
	//rule:T7 TestMaskRoom false
	for r.taken > budget.Get().Masks && len(r.kept) > 1 {
		if old := r.kept[0].cache.Value(); old != nil {
			old.drop()
		}
		r.taken -= r.kept[0].size
		r.kept = slices.Delete(r.kept, 0, 1)
	}
}
