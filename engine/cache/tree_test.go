package cache

import (
	"math/rand/v2"
	"slices"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestCellsTakeLowestRun(t *testing.T) {
	c := New(200)
	a, _ := c.Take(nil, 3, 0, false)
	b, _ := c.Take(nil, 70, 0, false)
	if !slices.Equal(a, []int32{0, 1, 2}) || b[0] != 3 || b[69] != 72 {
		t.Fatalf("took %v and %d…%d", a, b[0], b[69])
	}
	c.Give(1)
	if d, _ := c.Take(nil, 2, 0, false); d[0] != 73 || d[1] != 74 {
		t.Errorf("two rows: %v, want the lowest run 73 74", d)
	}
	if d, _ := c.Take(nil, 1, 0, false); d[0] != 1 {
		t.Errorf("one row: %v, want 1", d)
	}
	if _, ok := c.Take(nil, 200, 0, false); ok {
		t.Error("took more than there is")
	}
}

// check verifies everything that must hold of a cells at rest, and returns the number of nodes.
func (c *Tree) check(t *testing.T) int {
	t.Helper()
	free, nodes := 0, 0
	seen := make([]bool, c.Size())
	var walk func(parent int32)
	walk = func(parent int32) {
		before := none
		for n := c.first(parent); n != none; n = c.next[n] {
			if seen[n] || c.state[n] != cellNode || c.parent[n] != parent || c.prev[n] != before {
				t.Fatalf("node %d: seen %v state %d parent %d (want %d) prev %d (want %d)", n, seen[n], c.state[n], c.parent[n], parent,
					c.prev[n], before)
			}
			seen[n] = true
			nodes++
			walk(n)
			before = n
		}
	}
	for r := range c.roots {
		walk(^int32(r))
	}
	for i := range c.state {
		bit := c.free[i/64]>>(i%64)&1 == 1
		if bit != (c.state[i] == cellFree) {
			t.Fatalf("row %d: free bit %v, state %d", i, bit, c.state[i])
		}
		if bit {
			free++
		}
		if c.state[i] == cellNode && !seen[i] {
			t.Fatalf("row %d is a node that no root reaches", i)
		}
	}
	if free != c.nfree {
		t.Fatalf("%d rows free, account says %d", free, c.nfree)
	}
	return nodes
}

// TestCellsRandom runs sequences over few texts and few rows, and holds the account against the
// sequences' own view after every step.
func TestCellsRandom(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	c := New(96)
	type seq struct {
		key  string
		ids  []int32
		path []int32
	}
	var live []*seq
	tip := func(s *seq) int32 {
		if len(s.path) == 0 {
			return c.root(s.key)
		}
		return s.path[len(s.path)-1]
	}
	for step := range 20000 {
		switch k := rng.IntN(3); {
		case k == 0 && len(live) < 6:
			s := &seq{key: []string{"", "b"}[rng.IntN(2)]}
			for range rng.IntN(12) {
				s.ids = append(s.ids, int32(rng.IntN(2)))
			}
			s.path = c.Match(s.key, s.ids, len(s.ids))
			for i, n := range s.path {
				if c.token[n] != s.ids[i] {
					t.Fatalf("step %d: matched the wrong text", step)
				}
			}
			s.ids = s.ids[:len(s.path)]
			c.hold(tip(s))
			live = append(live, s)
		case k == 1 && len(live) > 0:
			s := live[rng.IntN(len(live))]
			n := 1 + rng.IntN(5)
			rows, ok := c.Take(nil, n, 0, false)
			if !ok {
				continue
			}
			keep := rng.IntN(n + 1)
			old := tip(s)
			for i, r := range rows {
				if i >= keep {
					c.Give(r)
					continue
				}
				id := int32(rng.IntN(2))
				c.attach(r, tip(s), id)
				s.path, s.ids = append(s.path, r), append(s.ids, id)
			}
			c.hold(tip(s))
			c.release(old)
		case k == 2 && len(live) > 0:
			i := rng.IntN(len(live))
			c.release(tip(live[i]))
			live = slices.Delete(live, i, i+1)
		}
		if step%53 == 0 {
			c.Places().EvictBelow(1+rng.IntN(6), 16+rng.IntN(64), func(drop, length int) bool { return drop <= length && rng.IntN(3) > 0 })
		}
		if step%37 == 0 {
			c.check(t)
			checkChart(t, c)
		}
		for _, s := range live {
			parent := c.root(s.key)
			for i, n := range s.path {
				if c.state[n] != cellNode || c.token[n] != s.ids[i] || c.parent[n] != parent {
					t.Fatalf("step %d: row %d no longer holds a living sequence's token", step, n)
				}
				parent = n
			}
		}
	}
	for _, s := range live {
		c.release(tip(s))
	}
	c.Forget()
	if n := c.check(t); n != 0 || c.nfree != c.Size() {
		t.Errorf("%d nodes left after forgetting everything", n)
	}
}

// TestCellsLower: rows that lie low come free from the end of the longest unused branch that has
// any, and only as far as is allowed.
func TestCellsLower(t *testing.T) {
	c := New(64)
	branch := func(token int32, rows ...int32) {
		parent := c.root("")
		for _, n := range rows {
			c.attach(n, parent, token)
			c.tick++
			c.used[n] = c.tick
			parent, token = n, token+1
		}
	}
	all, _ := c.Take(nil, 40, 0, false)
	branch(100, all[20:24]...) // oldest, but nothing low in it
	branch(200, append(append([]int32{}, all[0:4]...), all[30:34]...)...)
	branch(300, all[4:8]...)
	no := 0
	c.Places().EvictBelow(2, 16, func(drop, length int) bool {
		if drop == 5 && length == 8 { // four high rows before the first low one
			no++
			return false
		}
		return true
	})
	if no == 0 || c.FreeBelow(16) < 2 || c.state[0] != cellNode || c.state[20] != cellNode || c.state[7] != cellFree {
		t.Errorf("asked %d times, %d low rows free, states %v", no, c.FreeBelow(16), c.state[:40])
	}
	for _, n := range all {
		if c.state[n] == cellTaken {
			c.Give(n)
		}
	}
	c.check(t)
}

// TestCellsEvict: what goes is the whole of the branch that was used longest ago, as far as nothing
// else hangs on it.
func TestCellsEvict(t *testing.T) {
	c := New(128)
	branch := func(parent int32, n int) (last int32) {
		rows, _ := c.Take(nil, n, 0, false)
		for i, r := range rows {
			c.touch()
			c.attach(r, parent, int32(100*n+i))
			parent = r
		}
		return parent
	}
	fork := branch(c.root(""), 10)
	branch(fork, 40)
	branch(fork, 50)
	if !c.evict() || c.nfree != 68 || c.Run(40, 0) != 10 || c.state[9] != cellNode {
		t.Errorf("%d free cells, 40 neighbours at %d; state %v", c.nfree, c.Run(40, 0), c.state)
	}
	c.check(t)
}

// TestCellsSpoken: cells that are spoken for are others' only where there are no more, or where
// wide passes would not see the rest.
func TestCellsSpoken(t *testing.T) {
	//proves:G25
	rows := func(from, n int) (r []int32) {
		for i := range n {
			r = append(r, int32(from+i))
		}
		return r
	}
	for _, c := range []struct {
		name        string
		spoken      []int32
		n           int
		first, last int32
	}{
		{"behind them", rows(0, 20), 10, 20, 29},
		{"not beyond what wide passes see", rows(0, 40), 30, 0, 29},
		{"where there are no more", rows(0, 60), 40, 0, 39},
	} {
		s := New(64)
		s.rungs = []int{32, 48}
		s.reserve(c.spoken, true)
		if got, ok := s.Take(nil, c.n, 0, false); !ok || got[0] != c.first || got[c.n-1] != c.last {
			t.Errorf("%s: took %v", c.name, got)
		}
	}
}

// TestCellsBetween: stretches between free cells go where they fit best, the least first and on the
// same side of what wide passes see, until nothing is to be joined.
func TestCellsBetween(t *testing.T) {
	c := New(64)
	all, _ := c.Take(nil, 64, 0, false)
	parent := c.root("")
	for _, n := range all {
		c.attach(n, parent, n)
		parent = n
	}
	c.hold(parent)
	for _, free := range [][2]int{{4, 8}, {10, 13}, {20, 22}, {40, 50}, {53, 60}} { // [4, 8) and so on
		for i := free[0]; i < free[1]; i++ {
			up, down := c.parent[i], c.child[i]
			if down != none {
				c.parent[down] = up
			}
			c.setFirst(up, down)
			c.Give(int32(i))
		}
	}
	runs := func() (n int) {
		for i := range c.Size() {
			if c.state[i] == cellFree && (i == 0 || c.state[i-1] != cellFree) {
				n++
			}
		}
		return n
	}
	var moves [][3]int
	for was := runs(); ; {
		from, to, n := c.Places().Between(16, 32)
		if n == 0 {
			break
		}
		moves = append(moves, [3]int{from, to, n})
		for i := range n {
			c.Grab(to + i)
			c.Relocate(int32(from+i), int32(to+i))
		}
		now := runs()
		if now >= was || len(moves) > 64 {
			t.Fatalf("%d runs of free cells after %v, %d before", now, moves, was)
		}
		was = now
	}
	c.check(t)
	if want := [][3]int{{8, 20, 2}}; len(moves) < 2 || moves[0] != want[0] || runs() > 3 {
		t.Errorf("%d runs of free cells are left; moves %v", runs(), moves)
	}
}

// TestCellsShift: nodes that go to other rows keep their text, their place in the tree, and who
// stands on them.
func TestCellsShift(t *testing.T) {
	//proves:G18
	rng := rand.New(rand.NewPCG(3, 4))
	c := New(64)
	var texts [][]int32
	for range 8 {
		text := make([]int32, 1+rng.IntN(9))
		at := c.root([]string{"", "b"}[len(texts)%2])
		for i := range text {
			text[i] = int32(rng.IntN(2))
			n := c.find(at, text[i])
			if n == none {
				taken, ok := c.Take(nil, 1, 0, false)
				if !ok {
					t.Fatal("no cells")
				}
				n = taken[0]
				c.attach(n, at, text[i])
			}
			at = n
		}
		c.hold(at)
		texts = append(texts, text)
	}
	nodes := c.check(t)
	for range 2000 {
		n := int32(rng.IntN(c.Size()))
		if c.state[n] != cellNode {
			continue
		}
		refs, used := c.refs[n], c.used[n]
		to := c.TakeIn(nil, 1, rng.IntN(c.Size()/2), c.Size())
		if len(to) == 0 {
			continue
		}
		c.Relocate(n, to[0])
		if c.state[n] != cellFree || c.refs[to[0]] != refs || c.used[to[0]] != used || c.check(t) != nodes {
			t.Fatalf("row %d went to %d", n, to[0])
		}
		for i, text := range texts {
			if len(c.Peek([]string{"", "b"}[i%2], text)) != len(text) {
				t.Fatalf("text %d is cut", i)
			}
		}
	}
}

// TestRowsAscend: a sequence's new rows lie behind those it has where that makes no pass dearer, so
// that a card that adds in the cells' order adds as in fresh cells; where low rows make cheaper
// passes they are taken.
func TestRowsAscend(t *testing.T) {
	low := []int32{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 30, 31, 32, 33}
	for _, tt := range []struct {
		name     string
		free     []int32 // below row 50; from there on all are
		n, above int
		want     []int32
	}{
		{"the lowest makes a cheaper pass than any behind", low, 1, 40, []int32{0}},
		{"behind, where passes cost the same", low, 2, 4, []int32{4, 5}},
		{"one row behind", low, 1, 31, []int32{31}},
		{"none behind", low, 1, 96, []int32{0}},
		{"a run behind before a lower one", low, 4, 10, []int32{30, 31, 32, 33}},
		{"a run anywhere before rows apart behind", low, 5, 8, []int32{0, 1, 2, 3, 4}},
		{"apart, behind", []int32{1, 3, 5, 31, 33}, 2, 4, []int32{5, 31}},
		{"apart, too few behind", []int32{1, 3, 5, 31, 33}, 3, 6, []int32{1, 3, 5}},
	} {
		c := New(96)
		c.rungs = []int{36, 56, 88}
		_, _ = c.Take(nil, 50, 0, false)
		for _, n := range tt.free {
			c.Give(n)
		}
		if got, ok := c.Take(nil, tt.n, tt.above, false); !ok || !slices.Equal(got, tt.want) {
			t.Errorf("%s: %d rows behind %d: %v, want %v", tt.name, tt.n, tt.above, got, tt.want)
		}
	}
}
