//go:build invariants

package engine

import (
	"fmt"
	"sync"
)

// Checks that cost too much for every day: they are built in under the tag invariants, which the race lane sets. A violation is a panic
// with what was found, since whatever comes after it would only hide it.

// owners are the OS threads that opened a card, by card.
var owners sync.Map

// own notes that the calling thread owns the card; disown forgets it.
func (c *Card) own() { owners.Store(c, threadID()) }

// disown: see own.
func (c *Card) disown() { owners.Delete(c) }

// owned panics unless the calling thread is the card's owner (D16): the vendor's library binds its context to the thread that opened it.
func (c *Card) owned() {
	if id, ok := owners.Load(c); ok && id != threadID() {
		panic(fmt.Sprintf("engine: invariant: the card of thread %v is used on thread %d", id, threadID()))
	}
}

// verify panics unless cells and sequences agree. It runs on the worker after each pass, when nothing of the pass is still on its way, and
// takes the model's lock only for a moment: a caller that held it across a pass would hang here instead of now and then.
func (m *lm) verify() {
	m.card.owned()
	m.mu.Lock()
	waiting := len(m.queue)
	m.mu.Unlock()
	if waiting > m.maxQueue+m.parallel {
		panic(fmt.Sprintf("engine: invariant: %d sequences wait in a queue of %d", waiting, m.maxQueue))
	}
	stand, spoken := make([]int32, m.cells.size()), make([]bool, m.cells.size())
	for _, s := range m.running {
		for i, n := range s.path {
			parent := m.cells.root(s.job.Key)
			if i > 0 {
				parent = s.path[i-1]
			}
			if m.cells.state[n] != cellNode || m.cells.parent[n] != parent || m.cells.token[n] != s.ids[i] {
				panic(fmt.Sprintf("engine: invariant: cell %d is in state %d with token %d under %d; a sequence has it for token %d (its "+
					"number %d) under %d",
					n, m.cells.state[n], m.cells.token[n], m.cells.parent[n], s.ids[i], i, parent))
			}
			if s.see[n/64]>>(n%64)&1 == 0 {
				panic(fmt.Sprintf("engine: invariant: a sequence stands on cell %d and does not see it", n))
			}
		}
		for _, n := range s.reserved {
			spoken[n] = true
		}
		if n := len(s.path); n > 0 {
			stand[s.path[n-1]]++
		}
	}
	for n, is := range spoken {
		if !is && m.cells.spoken[n/64]>>(n%64)&1 == 1 {
			panic(fmt.Sprintf("engine: invariant: cell %d is spoken for, and reserved for no sequence", n))
		}
	}
	if err := m.cells.verify(stand); err != nil {
		panic("engine: invariant: " + err.Error())
	}
	if err := m.slots.verify(m.running, m.kept.slots()); err != nil {
		panic("engine: invariant: " + err.Error())
	}
	if err := m.tier.verify(m.cells); err != nil {
		panic("engine: invariant: in memory: " + err.Error())
	}
}

// verify reports a row whose account is wrong; stand is how many sequences stand on each.
func (c *cells) verify(stand []int32) error {
	seen := make([]bool, c.size())
	var walk func(parent int32) error
	walk = func(parent int32) error {
		before := none
		for n := c.first(parent); n != none; n = c.next[n] {
			if seen[n] || c.state[n] != cellNode || c.parent[n] != parent || c.prev[n] != before {
				return fmt.Errorf("node %d: seen %v, state %d, parent %d (want %d), prev %d (want %d)", n, seen[n], c.state[n], c.parent[n],
					parent, c.prev[n], before)
			}
			seen[n], before = true, n
			if err := walk(n); err != nil {
				return err
			}
		}
		return nil
	}
	for r := range c.roots {
		if err := walk(^int32(r)); err != nil {
			return err
		}
	}
	free := 0
	for i, st := range c.state {
		bit := c.free[i/64]>>(i%64)&1 == 1
		switch {
		case bit != (st == cellFree):
			return fmt.Errorf("row %d: free bit %v, state %d", i, bit, st)
		case st == cellTaken:
			return fmt.Errorf("row %d was taken by a pass and neither kept nor given back", i)
		case st == cellNode && !seen[i]:
			return fmt.Errorf("row %d is a node that no root reaches", i)
		case c.refs[i] != stand[i]:
			return fmt.Errorf("row %d: %d sequences are said to stand on it, %d do", i, c.refs[i], stand[i])
		}
		if bit {
			free++
		}
	}
	if free != c.nfree {
		return fmt.Errorf("%d rows are free, the account says %d", free, c.nfree)
	}
	return nil
}

// verify reports a row in memory whose account is wrong, or that is not the row of the cell that it is said to be a copy of.
func (t *tier) verify(c *cells) error {
	if t == nil {
		return nil
	}
	t.memory.mu.Lock()
	defer t.memory.mu.Unlock()
	if err := t.c.verify(make([]int32, t.c.size())); err != nil {
		return err
	}
	if used := t.memory.used(); used > t.memory.limit {
		return fmt.Errorf("rows in memory take %d bytes of %d", used, t.memory.limit)
	}
	for n, h := range t.kept {
		if !t.copied(int32(n)) {
			continue
		}
		if c.state[n] != cellNode || t.c.state[h] != cellNode {
			return fmt.Errorf("cell %d is kept as row %d, which is of cell %d; states %d and %d", n, h, t.back[h], c.state[n], t.c.state[h])
		}
		// The whole text is the same, from the root on, and so is the key.
		p, q := int32(n), h
		for p >= 0 && q >= 0 && c.token[p] == t.c.token[q] {
			p, q = c.parent[p], t.c.parent[q]
		}
		if p >= 0 || q >= 0 || c.names[^p] != t.c.names[^q] {
			return fmt.Errorf("cell %d is kept as row %d, which spells another text", n, h)
		}
	}
	return nil
}

// verify reports a slot that is not exactly one of free, a snapshot, a sequence's own, or what a state comes to from disk.
func (p *slots) verify(running []*seq, coming []uint32) error {
	if p == nil {
		return nil
	}
	has := make([]int, len(p.node))
	for _, slot := range p.free {
		has[slot]++
	}
	for _, slot := range coming {
		has[slot]++
	}
	for slot, n := range p.node {
		if n != none {
			if has[slot]++; p.at[n] != uint32(slot) || p.c.state[n] != cellNode {
				return fmt.Errorf("slot %d hangs on cell %d, which has slot %d and is in state %d", slot, n, p.at[n], p.c.state[n])
			}
		}
	}
	for _, s := range running {
		switch {
		case s.own:
			has[s.state]++
		case len(s.path) == 0 && s.state != 0, len(s.path) > 0 && s.state != p.at[s.path[len(s.path)-1]]:
			return fmt.Errorf("a sequence of %d rows goes on from slot %d, which is not kept there", len(s.path), s.state)
		}
	}
	for slot, n := range has[1:] {
		if n != 1 {
			return fmt.Errorf("slot %d is accounted for %d times", slot+1, n)
		}
	}
	return nil
}
