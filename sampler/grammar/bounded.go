package grammar

import (
	"cmp"
	"slices"
	"sync"
)

// contents says how many characters of a JSON string each token is, so that the masks of strings
// with a bounded length are cut from one another and not found by a walk each: such a string is in
// a new state after every token.
type contents struct {
	once   sync.Once
	inside []sized // tokens that stay within the string, longest first
	close  []sized // tokens that end with its closing quote
	exits  []sized // nodes where it is closed with bytes to spare
}

// sized is a token or node, and the number of characters up to the quote.
type sized struct{ id, chars int32 }

func (t *Trie) contents(chars *frame) *contents {
	c := &t.strings
	c.once.Do(func() {
		type place struct{ state, chars int32 }
		path := make([]place, 1, maxToken+1) // by depth
		for n := int32(0); n < int32(len(t.char)); {
			d := int(t.depth[n])
			at, b := path[d-1], t.char[n]
			tokens := t.ids[t.from[n]:t.from[n+1]]
			if at.state == 0 && b == '"' {
				for _, id := range tokens {
					c.close = append(c.close, sized{id, at.chars})
				}
				if t.end[n] > n+1 {
					c.exits = append(c.exits, sized{n, at.chars})
				}
				n = t.end[n]
				continue
			}
			if at.state == 0 {
				at.chars++
			}
			if at.state = chars.step(at.state, b); at.state == dead {
				n = t.end[n]
				continue
			}
			for _, id := range tokens {
				c.inside = append(c.inside, sized{id, at.chars})
			}
			path = append(path[:d], at)
			n++
		}
		slices.SortFunc(c.inside, func(a, b sized) int { return cmp.Compare(b.chars, a.chars) })
	})
	return c
}

// bounded is the mask between two characters of a string that has room for left more and wants at
// least wants more.
func (t *Trie) bounded(chars *frame, wants, left int32) *mask {
	c := t.contents(chars)
	out := &mask{dense: make([]uint64, (t.vocab+63)/64)}
	from, _ := slices.BinarySearchFunc(c.inside, left, func(s sized, left int32) int { return cmp.Compare(left, s.chars) })
	for _, s := range c.inside[from:] {
		set(out.dense, s.id)
	}
	for _, s := range c.close {
		if s.chars >= wants && s.chars <= left {
			set(out.dense, s.id)
		}
	}
	for _, s := range c.exits {
		if s.chars >= wants && s.chars <= left {
			out.exits = append(out.exits, s.id)
		}
	}
	return out
}
