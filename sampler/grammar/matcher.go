package grammar

import (
	"fmt"
	"slices"
)

// kernel is a place the text so far may have led to: a state, and the returns to make when its
// frame ends.
type kernel struct {
	f  *frame
	s  int32
	up int32 // index into rets, −1: none
}

// ret is where a frame goes on after a call. Equal returns are one ret, so equal stacks are one
// number. Where the same place was reached with several stacks, they are a list: see merge.
type ret struct {
	kernel
	other int32 // the next of the list; −1: none
	depth int32 // the least of the list
	chain int32 // the next ret in the same bucket
	ends  bool  // with others only: the text may end with one of the list
}

// Matcher follows one text through a grammar and says which tokens may come next. It belongs to one
// request and one goroutine, holds memory only, and after its first tokens allocates only to fill
// caches that outlive it.
type Matcher struct {
	g     *Grammar
	t     *Trie
	own   *maskCache
	cur   []kernel
	next  []kernel
	ended bool

	think int32 // most tokens of thinking; 0: as many as come
	left  int32 // of them
	due   int8  // bytes that thinking's last character lacks

	rets  []ret
	heads [64]int32 // buckets of rets, 1 + index
	limit int32     // on the stack, now

	looks int    // places that may be looked at
	lost  *Error // why the text cannot be followed any more

	seen  places   // calls entered and returns made for the byte being read
	full  places   // places that the mask being filled has been given
	sets  []kernel // a walk's sets of places, one behind the other
	marks []walkMark
	path  []int32 // a plain walk's states, by depth
	deep  int32   // deepest stack of the walk
	remap []int32
}

// walkMark is where the set of one depth of a walk ends, and the rets it needs.
type walkMark struct{ sets, rets int }

// Matcher returns a matcher at the start of the text. The grammar's caches are kept for each trie.
func (g *Grammar) Matcher(t *Trie) *Matcher {
	return &Matcher{g: g, t: t, own: g.cacheFor(t), cur: []kernel{{g.root, 0, -1}}, limit: g.depth, looks: maxLooks}
}

// Clone returns an independent matcher at the same place.
func (m *Matcher) Clone() *Matcher {
	return &Matcher{g: m.g, t: m.t, own: m.own, limit: m.limit, cur: slices.Clone(m.cur), rets: slices.Clone(m.rets), heads: m.heads,
		ended: m.ended, looks: m.looks, lost: m.lost, think: m.think, left: m.left, due: m.due}
}

// Done reports whether the text so far is complete. It may still go on.
func (m *Matcher) Done() bool {
	return slices.ContainsFunc(m.cur, m.canEnd)
}

// Accept moves past token id. When the grammar does not allow it, the error says so and m stays
// where it was. A text that an ambiguous grammar can read in too many ways ends with an [*Error]:
// every token gets it from then on, and those that do not end the text are all allowed, so that one
// of them is asked for.
func (m *Matcher) Accept(id int32) error {
	if m.lost != nil {
		return m.lost
	}
	if slices.Contains(m.t.eos, id) {
		if !m.Done() {
			return fmt.Errorf("grammar: token %d ends the text before it is complete", id)
		}
		m.ended = true
		return nil
	}
	if m.ended || id < 0 || int(id) >= m.t.vocab || m.t.words[id] == nil {
		return fmt.Errorf("grammar: token %d is not allowed here", id)
	}
	m.looks = min(m.looks+moreLooks, maxLooks)
	fits := m.advance(m.t.words[id], true)
	if m.lost != nil {
		return m.lost
	}
	if !fits {
		return fmt.Errorf("grammar: token %d is not allowed here", id)
	}
	if m.g.ends != nil {
		m.thought(m.t.words[id])
	}
	return nil
}

// Allowed reports whether token id may come next: cheaper than a mask.
func (m *Matcher) Allowed(id int32) bool {
	if id < 0 || int(id) >= m.t.vocab {
		return false
	}
	if slices.Contains(m.t.eos, id) {
		return m.lost == nil && (m.ended || m.Done())
	}
	return !m.ended && m.t.words[id] != nil && (m.lost != nil || m.advance(m.t.words[id], false) || m.lost != nil)
}

// Fill overwrites bits with the mask of the tokens that may come next. End-of-text tokens are among
// them only when the text is complete.
func (m *Matcher) Fill(bits []uint64) {
	clear(bits)
	if m.lost == nil {
		m.fillAll(bits)
	}
	if m.lost != nil && !m.ended {
		clear(bits)
		for id, w := range m.t.words {
			if w != nil {
				set(bits, int32(id))
			}
		}
	}
}

// fillAll adds to bits what may follow.
func (m *Matcher) fillAll(bits []uint64) {
	defer catch(new(error)) // m.lost has it
	if m.ended || m.Done() {
		for _, id := range m.t.eos {
			set(bits, id)
		}
	}
	if m.ended {
		return
	}
	m.full.clear()
	for _, k := range m.cur {
		m.fill(bits, k)
	}
}

func set(bits []uint64, id int32) {
	if w := int(id >> 6); w < len(bits) {
		bits[w] |= 1 << (id & 63)
	}
}

func (m *Matcher) canEnd(k kernel) bool {
	for k.f.accepts(k.s) {
		if k.up < 0 {
			return true
		}
		r := &m.rets[k.up]
		if r.other != -1 {
			return r.ends
		}
		k = r.kernel
	}
	return false
}

func (m *Matcher) depthOf(up int32) int32 {
	if up < 0 {
		return 0
	}
	return m.rets[up].depth
}

// advance reads b and reports whether the grammar allows it; m moves only if it does and keep is
// set. m.lost says whether it could be told.
func (m *Matcher) advance(b []byte, keep bool) (fits bool) {
	defer catch(new(error)) // m.lost has it
	before := len(m.rets)
	from := m.cur
	for _, c := range b {
		out := m.next[:0]
		m.seen.clear()
		for _, k := range from {
			out = m.step(out, 0, k, c, false)
		}
		if m.looks -= 1 + len(m.seen.list); m.looks < 0 || len(out) > several {
			out = m.settle(out, 0, m.g.root)
		}
		m.next, m.sets = m.sets, out // from is not written over
		if from = out; len(out) == 0 {
			m.truncate(before)
			return false
		}
	}
	if !keep {
		m.truncate(before)
		return true
	}
	m.cur = append(m.cur[:0], from...)
	if len(m.rets) > 256 {
		m.compact()
	}
	return true
}

// step follows b from k: within the frame, into its calls, and, when the frame may end here, in its
// caller. entering: k is a called frame's start; that the frame may be empty is the caller's
// business then.
func (m *Matcher) step(out []kernel, base int, k kernel, b byte, entering bool) []kernel {
	f := k.f
	if to := f.step(k.s, b); to != dead {
		if need := m.depthOf(k.up) + f.needs(to); need <= m.limit {
			m.deep = max(m.deep, need)
			k := kernel{f, to, k.up}
			if !slices.Contains(out[base:], k) {
				if len(out)-base == maxKernels {
					m.tooMany(f)
				}
				out = append(out, k)
			}
		}
	}
	for _, c := range f.callsAt(k.s) {
		if !c.f.starts(b) {
			continue
		}
		up, depth := k.up, m.depthOf(k.up)
		if !c.tail {
			if need := max(depth+f.needs(c.to), depth+1+c.f.needs(0)); need > m.limit {
				continue
			} else {
				m.deep = max(m.deep, need)
			}
			up = m.intern(kernel{f, c.to, k.up}, -1)
		}
		into := kernel{c.f, 0, up}
		mark := kernel{c.f, -1, up} // no state: a call, not a return
		if m.visit(mark) {
			out = m.step(out, base, into, b, true)
		}
	}
	if !entering && f.accepts(k.s) {
		for up := k.up; up >= 0; up = m.rets[up].other {
			if back := m.rets[up].kernel; m.visit(back) {
				out = m.step(out, base, back, b, false)
			}
		}
	}
	return out
}

func bucket(k kernel) int { return int(uint32(k.s*31+k.up*7919)>>3^uint32(k.s)) & 63 }

// intern returns the ret for k with the others of its list (−1: none), an old one if there is one.
func (m *Matcher) intern(k kernel, other int32) int32 {
	h := bucket(k)
	for i := m.heads[h]; i != 0; i = m.rets[i-1].chain {
		if r := &m.rets[i-1]; r.kernel == k && r.other == other {
			return i - 1
		}
	}
	if len(m.rets) == maxPlaces {
		m.tooMany(k.f)
	}
	depth, ends := m.depthOf(k.up)+1, false
	if other != -1 {
		depth, ends = min(depth, m.depthOf(other)), m.canEnd(k) || other == bottom
	}
	if other >= 0 {
		last := m.rets[other]
		ends = ends || last.ends || last.other == -1 && m.canEnd(last.kernel)
	}
	m.rets = append(m.rets, ret{k, other, depth, m.heads[h], ends})
	m.heads[h] = int32(len(m.rets))
	return int32(len(m.rets) - 1)
}

// truncate forgets the rets from n on.
func (m *Matcher) truncate(n int) {
	for i := len(m.rets) - 1; i >= n; i-- {
		m.heads[bucket(m.rets[i].kernel)] = m.rets[i].chain
	}
	m.rets = m.rets[:n]
}

// compact drops the rets that no place needs. A ret's caller, and the others of its list, have
// lower numbers than itself.
func (m *Matcher) compact() {
	m.remap = slices.Grow(m.remap[:0], len(m.rets))[:len(m.rets)]
	clear(m.remap)
	for _, k := range m.cur {
		if k.up >= 0 {
			m.remap[k.up] = 1
		}
	}
	for i := len(m.rets) - 1; i >= 0; i-- {
		for _, n := range []int32{m.rets[i].up, m.rets[i].other} {
			if m.remap[i] == 1 && n >= 0 {
				m.remap[n] = 1
			}
		}
	}
	old := m.rets
	m.heads = [64]int32{}
	m.rets = m.rets[:0]
	for i, r := range old {
		if m.remap[i] == 1 {
			if r.up >= 0 {
				r.up = m.remap[r.up]
			}
			if r.other >= 0 {
				r.other = m.remap[r.other]
			}
			m.remap[i] = m.intern(r.kernel, r.other)
		}
	}
	for i := range m.cur {
		if k := &m.cur[i]; k.up >= 0 {
			k.up = m.remap[k.up]
		}
	}
}

// fill adds to bits what may follow from k.
func (m *Matcher) fill(bits []uint64, k kernel) {
	if !m.full.add(k) {
		return
	}
	local := m.local(k)
	if m.depthOf(k.up)+local.depth > m.limit {
		// So near the depth limit the mask depends on the stack: walk with the real one.
		m.walk(k, 0, int32(len(m.t.char)), bits, nil)
		return
	}
	for i, w := range local.dense {
		if i < len(bits) {
			bits[i] |= w
		}
	}
	for _, id := range local.sparse {
		set(bits, id)
	}
	if k.up < 0 {
		return
	}
	most := len(local.exits) > len(m.t.char)/16 // then all below an exit is often set already
	for up := k.up; up >= 0; up = m.rets[up].other {
		back := m.rets[up].kernel
		for _, n := range local.exits {
			if n < 0 {
				m.fill(bits, back)
			} else if !most || !m.t.allSet(bits, n) {
				m.walk(back, n+1, m.t.end[n], bits, nil)
			}
		}
	}
}

// local returns the cached mask of k's state, made on first use as if there were no stack below.
func (m *Matcher) local(k kernel) *mask {
	cache, key := m.own, maskKey{f: k.f, a: k.s}
	if k.f.count != nil {
		cache, key = &m.t.masks, k.f.count.key(k.s, m.t.most)
	} else if k.f.shared {
		cache = &m.t.masks
	}
	if have := cache.get(key); have != nil {
		return have
	}
	if k.f.count != nil && k.s >= countBase && key.a == 0 {
		out := m.t.bounded(k.f.count.chars, key.b>>13, key.b&(1<<13-1))
		cache.put(key, out)
		return out
	}
	out := &mask{dense: make([]uint64, (m.t.vocab+63)/64)}
	k.up = -1
	if m.canEnd(k) {
		out.exits = append(out.exits, -1)
	}
	limit := m.limit
	m.limit, m.deep = never, 0
	m.walk(k, 0, int32(len(m.t.char)), out.dense, &out.exits)
	m.limit, out.depth = limit, m.deep
	n := 0
	for _, w := range out.dense {
		if w != 0 {
			n++
		}
	}
	if n < len(out.dense)/8 {
		for i, w := range out.dense {
			for b := range int32(64) {
				if w>>b&1 == 1 {
					out.sparse = append(out.sparse, int32(i)<<6+b)
				}
			}
		}
		out.dense = nil
	}
	cache.put(key, out)
	return out
}

// walk sets the bits of the tokens in nodes [from, to), siblings of one depth and what is below
// them, that can be read from k. exits, if not nil, gets the nodes where k's frame may be left with
// bytes to spare.
func (m *Matcher) walk(k kernel, from, to int32, bits []uint64, exits *[]int32) {
	if from >= to {
		return
	}
	if k.f.count != nil || !k.f.plain(k.s) {
		m.walkAll(k, from, to, bits, exits)
		return
	}
	// Inside a string or a word the place is one state of one frame, and a node costs one look-up.
	// Where a frame may end or be called, the subtree is walked with everything.
	t, f := m.t, k.f
	top := int(t.depth[from])
	room := m.limit - m.depthOf(k.up)
	m.path = append(m.path[:0], k.s)
	deep := m.deep - m.depthOf(k.up)
	for n := from; n < to; {
		d := int(t.depth[n]) - top
		s := f.next[m.path[d]*f.width+int32(f.class[t.char[n]])]
		if s == dead || f.need[s] > room {
			n = t.end[n]
			continue
		}
		deep = max(deep, f.need[s])
		for _, id := range t.ids[t.from[n]:t.from[n+1]] {
			set(bits, id)
		}
		if t.end[n] == n+1 {
			n++
			continue
		}
		if f.plain(s) {
			m.path = append(m.path[:d+1], s)
			n++
			continue
		}
		at := kernel{f, s, k.up}
		if exits != nil && m.canEnd(at) {
			*exits = append(*exits, n)
		}
		m.walkAll(at, n+1, t.end[n], bits, exits)
		n = t.end[n]
	}
	m.deep = max(m.deep, deep+m.depthOf(k.up))
}

// plain reports whether nothing but bytes leads on from s.
func (f *frame) plain(s int32) bool { return !f.accept[s] && len(f.calls[s]) == 0 }

// walkAll is walk for places where frames end or are called: it carries sets of them.
func (m *Matcher) walkAll(k kernel, from, to int32, bits []uint64, exits *[]int32) {
	if from >= to {
		return
	}
	t, before := m.t, len(m.rets)
	top := t.depth[from]
	m.sets = append(m.sets[:0], k)
	m.marks = append(m.marks[:0], walkMark{1, before})
	for n := from; n < to; {
		// The set before this node's byte is the one of its parent's depth.
		d := int(t.depth[n] - top)
		mark := m.marks[d]
		if len(m.marks) > d+1 {
			m.marks = m.marks[:d+1]
			m.truncate(mark.rets)
		}
		start := 0
		if d > 0 {
			start = m.marks[d-1].sets
		}
		m.sets = m.sets[:mark.sets]
		b := t.char[n]
		if k := m.sets[start]; mark.sets-start == 1 && len(k.f.callsAt(k.s)) == 0 && !k.f.accepts(k.s) {
			// The common case, inside a string or a word: no call, no return, one look-up.
			to := k.f.step(k.s, b)
			if to == dead || m.depthOf(k.up)+k.f.needs(to) > m.limit {
				n = t.end[n]
				continue
			}
			m.deep = max(m.deep, m.depthOf(k.up)+k.f.needs(to))
			k.s = to
			m.sets = append(m.sets, k)
		} else {
			m.seen.clear()
			for i := start; i < mark.sets; i++ {
				m.sets = m.step(m.sets, mark.sets, m.sets[i], b, false)
			}
			if m.looks -= 1 + len(m.seen.list); m.looks < 0 || len(m.sets)-mark.sets > several {
				m.sets = m.settle(m.sets, mark.sets, k.f)
			}
			if len(m.sets) == mark.sets {
				m.truncate(mark.rets)
				n = t.end[n]
				continue
			}
		}
		for _, id := range t.ids[t.from[n]:t.from[n+1]] {
			set(bits, id)
		}
		if t.end[n] > n+1 {
			if exits != nil && slices.ContainsFunc(m.sets[mark.sets:], m.canEnd) {
				*exits = append(*exits, n)
			}
			m.marks = append(m.marks, walkMark{len(m.sets), len(m.rets)})
		} else {
			m.truncate(mark.rets)
		}
		n++
	}
	m.truncate(before)
}
