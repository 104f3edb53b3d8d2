package engine

import (
	"context"
	"testing"
	"time"
)

// A branch keeps its name while it grows, when another begins like it, and when that one is forgotten; rows that are free forget theirs.
func TestChartNames(t *testing.T) {
	c := newCells(64)
	var s sheet
	grow := func(parent int32, ids ...int32) int32 {
		rows, ok := c.take(nil, len(ids), 0, false)
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
		m := c.chart(&s)
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
	c.prune(a, 2)
	if n := name(b); n != second {
		t.Errorf("a branch that is alone again was %d and is %d", second, n)
	}
	c.prune(b, 64)
	if n := name(grow(root, 1)); n == first || n == second {
		t.Errorf("a new text in old rows is called %d", n)
	}
}

// checkChart holds a map against the rows one by one: each is in the run of what it holds, shared where several branches go through it, and
// each branch has its tokens.
func checkChart(t *testing.T, c *cells, s *sheet) {
	t.Helper()
	m := c.chart(s)
	through := make([]int, c.size())
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
				want = HoldsNothing
			case c.state[i] == cellTaken:
				want = HoldsPass
			case through[i] > 1:
				want = HoldsShared
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
	if i != c.size() || m.Free != sum[HoldsNothing] || m.Used != c.size()-m.Free || m.Shared != sum[HoldsShared] {
		t.Fatalf("%d rows told of %d; %d free, %d used", i, c.size(), m.Free, m.Used)
	}
	for b, br := range m.Branches {
		if own := br.Tokens - br.Shared; own != sum[br.ID] {
			t.Fatalf("branch %d of %d: %d tokens, %d shared, and %d rows", b, len(m.Branches), br.Tokens, br.Shared, sum[br.ID])
		}
	}
}

// A map says whose rows are whose, in a running model; and where the worker is busy for long, what it said last, without waiting for it.
func TestMaps(t *testing.T) {
	f := newFake()
	b := onFake(t, f, OpenOptions{CacheRAM: NewMemory(1 << 20)})
	m := New(b, Options{})
	for i, key := range []string{"anna", "bert"} {
		job := greedy([]int32{1, 2, 3, int32(4 + i)}, 8)
		job.Key = key
		for _, err := range b.Complete(context.Background(), job) {
			if err != nil {
				t.Fatal(err)
			}
		}
	}
	maps := m.Maps(context.Background())
	if len(maps) != 1 || len(maps[0].Branches) != 2 || maps[0].Branches[0].Key != "bert" || maps[0].Branches[1].Key != "anna" ||
		len(maps[0].Tiers) != 2 || maps[0].Tiers[0].Name != "card" || maps[0].Tiers[1].Name != "memory" || maps[0].Tiers[1].Cells == 0 {
		t.Fatalf("%+v", maps)
	}
	if br := maps[0].Branches[0]; br.Running || br.Tokens < 4 || br.Shared != 0 {
		t.Errorf("%+v", br)
	}
	b.m.drawn.last.Load().At = time.Time{} // so that a new one is wanted
	release := hold(b)
	again := m.Maps(context.Background())
	release()
	if len(again) != 1 || !again[0].At.IsZero() {
		t.Errorf("a busy card gave %+v", again)
	}
	if fresh := m.Maps(context.Background()); len(fresh) != 1 || fresh[0].At.IsZero() {
		t.Errorf("a card that is free again gave %+v", fresh)
	}
}
