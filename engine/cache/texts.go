package cache

import (
	"cmp"
	"slices"
)

// Spelled is a text of a key's.
type Spelled struct {
	Key string
	IDs []int32
}

// Begins reports whether t is the beginning of o, or all of it.
func (t Spelled) Begins(o Spelled) bool {
	return t.Key == o.Key && len(t.IDs) <= len(o.IDs) && slices.Equal(t.IDs, o.IDs[:len(t.IDs)])
}

// Texts returns all texts of a tree, the last used first. One that another continues is not told
// apart.
func Texts(t *Tree) (out []Spelled) {
	var ends []int32
	for i, st := range t.state {
		if st == cellNode && t.child[i] == none {
			ends = append(ends, int32(i))
		}
	}
	slices.SortStableFunc(ends, func(a, b int32) int { return cmp.Compare(t.used[b], t.used[a]) })
	for _, end := range ends {
		path, root := t.pathTo(end)
		s := Spelled{Key: t.names[^root], IDs: make([]int32, len(path))}
		for i, n := range path {
			s.IDs[i] = t.token[n]
		}
		out = append(out, s)
	}
	return out
}

// Texts returns all texts in memory.
func (r *RAM) Texts() []Spelled {
	if r == nil {
		return nil
	}
	r.memory.mu.Lock()
	defer r.memory.mu.Unlock()
	return Texts(r.tree)
}

// Copy copies the rows of a key's ids from row from on, if all of them are in memory.
func (r *RAM) Copy(key string, ids []int32, from int, to []byte) bool {
	if r == nil {
		return false
	}
	r.memory.mu.Lock()
	defer r.memory.mu.Unlock()
	if r.free == nil {
		return false
	}
	path := r.tree.Peek(key, ids)
	if len(path) < len(ids) || (len(ids)-from)*r.bytes != len(to) {
		return false
	}
	for i, h := range path[from:] {
		copy(to[i*r.bytes:], r.row(h)[:r.bytes])
	}
	return true
}
