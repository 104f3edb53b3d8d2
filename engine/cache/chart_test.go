package cache

import (
	"testing"

	"github.com/axle-llm/axle/ask"
)

// A branch keeps its name while it grows, when another begins like it, and when that one is
// forgotten; rows that are free forget theirs.
func TestChartNames(t *testing.T) {
	c := New(64)
	grow := func(parent int32, ids ...int32) int32 {
		rows, ok := c.Take(nil, len(ids), 0, false)
		if !ok {
			t.Fatal("no rows")
		}
		for i, r := range rows {
			c.attach(r, parent, ids[i])
			parent = r
		}
		return parent
	}
	name := func(end int32) int {
		m := c.Chart()
		i := 0
		for _, r := range m.Runs {
			if i += r.Cells; int(end) < i {
				return r.What
			}
		}
		return 0
	}
	root := c.root("")
	a := grow(root, 1, 2, 3)
	first := name(a)
	a = grow(a, 4, 5)
	if n := name(a); n != first {
		t.Errorf("a branch that grew was %d and is %d", first, n)
	}
	fork := c.parent[c.parent[a]]
	b := grow(fork, 9, 9)
	if n := name(a); n != first {
		t.Errorf("a branch that another begins like was %d and is %d", first, n)
	}
	second := name(b)
	if second == first {
		t.Errorf("two branches are called %d", first)
	}
	c.Prune(a, 2)
	if n := name(b); n != second {
		t.Errorf("a branch that is alone again was %d and is %d", second, n)
	}
	c.Prune(b, 64)
	if n := name(grow(root, 1)); n == first || n == second {
		t.Errorf("a new text in old rows is called %d", n)
	}
}

// checkChart holds a map against the rows one by one: each is in the run of what it holds, shared
// where several branches go through it, and each branch has its tokens.
func checkChart(t *testing.T, c *Tree) {
	t.Helper()
	m := c.Chart()
	through := make([]int, c.Size())
	ids := map[int]bool{}
	for i, st := range c.state {
		if st == cellNode && (c.child[i] == none || c.refs[i] > 0) {
			for k := int32(i); k >= 0; k = c.parent[k] {
				through[k]++
			}
		}
	}
	for _, b := range m.Branches {
		if ids[b.ID] || b.ID < 1 {
			t.Fatalf("branch %d is told twice, or has no name", b.ID)
		}
		ids[b.ID] = true
	}
	i, sum := 0, map[int]int{}
	for _, r := range m.Runs {
		for range r.Cells {
			want := r.What
			switch {
			case c.state[i] == cellFree:
				want = ask.HoldsNothing
			case c.state[i] == cellTaken:
				want = ask.HoldsPass
			case through[i] > 1:
				want = ask.HoldsShared
			case !ids[r.What]:
				t.Fatalf("row %d is of branch %d, which is not told", i, r.What)
			}
			if r.What != want {
				t.Fatalf("row %d is told as %d, want %d", i, r.What, want)
			}
			sum[r.What]++
			i++
		}
	}
	if i != c.Size() || m.Free != sum[ask.HoldsNothing] || m.Used != c.Size()-m.Free || m.Shared != sum[ask.HoldsShared] {
		t.Fatalf("%d rows told of %d; %d free, %d used", i, c.Size(), m.Free, m.Used)
	}
	for b, br := range m.Branches {
		if own := br.Tokens - br.Shared; own != sum[br.ID] {
			t.Fatalf("branch %d of %d: %d tokens, %d shared, and %d rows", b, len(m.Branches), br.Tokens, br.Shared, sum[br.ID])
		}
	}
}
