package grammar

import (
	"cmp"
	"hash/maphash"
	"slices"
)

// An ambiguous grammar reads a text in several ways at once, and their number may double with each
// byte. So the places in one state are merged, with the list of their stacks, and what is left is
// limited. A text that goes beyond ends with an error. Other grammars follow a few places.
const (
	maxKernels = 1024    // places followed at once
	maxPlaces  = 1 << 16 // returns kept, and calls and returns made for one byte
	maxLooks   = 4 << 20 // places looked at for one token and its mask, where the tokens before took little
	several    = 8       // places that are left as they are; more are merged
	moreLooks  = 1 << 18 // places that a token adds to what is left of maxLooks
)

// settle is for many places, out[base:], which a byte led to on the way through f: it merges them.
// Where the looks are spent it ends the call of Matcher that it is in.
func (m *Matcher) settle(out []kernel, base int, f *frame) []kernel {
	m.spend(f, len(m.seen.list)*(len(out)-base)/32) // each was compared with those before
	return out[:base+len(m.mergeEqual(out[base:]))]
}

// spend counts n looks at places of f.
func (m *Matcher) spend(f *frame, n int) {
	m.looks -= n
	//rule:T16 TestAmbiguousGrammars false
	if m.looks < 0 {
		m.tooMany(f)
	}
}

// tooMany ends the call of Matcher that it is in: the ways to read the text are too many.
func (m *Matcher) tooMany(f *frame) {
	m.lost = &Error{Where: "rule " + f.name, Msg: "the grammar is too ambiguous: a text can be read in too many ways. " +
		"Leave one way to read each text: repeat nothing that may be empty, and let a rule that repeats " +
		"itself not be repeated by another rule too"}
	panic(stopped{m.lost})
}

// bottom ends a list of stacks that has the empty stack too.
const bottom = -2

// compareStates orders places by their frames' states.
func compareStates(a, b kernel) int {
	return cmp.Or(cmp.Compare(a.f.num, b.f.num), cmp.Compare(a.s, b.s), cmp.Compare(a.up, b.up))
}

// mergeEqual makes the places in the same state of the same frame one place, with the list of their
// stacks.
func (m *Matcher) mergeEqual(all []kernel) []kernel {
	slices.SortFunc(all, compareStates)
	out := all[:0]
	for _, k := range all {
		if n := len(out) - 1; n >= 0 && out[n].f == k.f && out[n].s == k.s {
			out[n].up = m.merge(k.f, out[n].up, k.up)
		} else {
			out = append(out, k)
		}
	}
	return out
}

// merge returns the list of the stacks in a and b, which places of f have. It has each state of a
// frame once, with a merged list below it: so it is short, and what the stacks have in common is
// followed once.
func (m *Matcher) merge(f *frame, a, b int32) int32 {
	if a == b {
		return a
	}
	var all []kernel
	rest := int32(-1)
	for _, up := range []int32{a, b} {
		if up == -1 {
			rest = bottom
		}
		for ; up >= 0; up = m.rets[up].other {
			all = append(all, m.rets[up].kernel)
			if m.rets[up].other == bottom {
				rest = bottom
			}
		}
	}
	m.spend(f, 4+4*len(all))
	for _, k := range slices.Backward(m.mergeEqual(all)) {
		rest = m.intern(k, rest)
	}
	return rest
}

// visit reports whether k is not yet among the calls and returns made for this byte.
func (m *Matcher) visit(k kernel) bool {
	if p := &m.seen; len(p.list) < short { // as add does
		for i := range p.list {
			if p.list[i] == k {
				return false
			}
		}
		p.list = append(p.list, k)
		return true
	}
	if !m.seen.add(k) {
		return false
	}
	if len(m.seen.list) > maxPlaces {
		m.tooMany(k.f)
	}
	return true
}

// places is a set of places. A short one is looked through, a longer one has a hash table.
type places struct {
	list  []kernel
	table []slot
	round uint32 // slots of other rounds are free
}

type slot struct{ round, at uint32 }

// short is how many places are looked through faster than hashed.
const short = 24

var seed = maphash.MakeSeed()

func (p *places) clear() {
	p.list = p.list[:0]
	if p.round++; p.round == 0 {
		clear(p.table)
		p.round = 1
	}
}

// add reports whether k is new.
func (p *places) add(k kernel) bool {
	n := len(p.list)
	if n < short {
		if slices.Contains(p.list, k) {
			return false
		}
		p.list = append(p.list, k)
		return true
	}
	if 2*n >= len(p.table) {
		p.table = make([]slot, 4*n)
		p.round, n = 1, short
	}
	if n == short {
		for i, o := range p.list {
			*p.slot(o) = slot{p.round, uint32(i)}
		}
	}
	at := p.slot(k)
	if at.round == p.round {
		return false
	}
	*at = slot{p.round, uint32(len(p.list))}
	p.list = append(p.list, k)
	return true
}

// slot is where k is in the table, or would be.
func (p *places) slot(k kernel) *slot {
	for h := maphash.Comparable(seed, k) % uint64(len(p.table)); ; h++ {
		at := &p.table[h%uint64(len(p.table))]
		if at.round != p.round || p.list[at.at] == k {
			return at
		}
	}
}
