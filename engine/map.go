package engine

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/axle-llm/axle/axcl"
)

// This file is the cache as people look at it: which rows hold what. The worker draws a map between two passes, and only when somebody
// asks.

const (
	mostBranches = 256
	mapFresh     = 100 * time.Millisecond // a map so old is as good as a new one
	mapPatience  = 200 * time.Millisecond // how long who asks waits for the worker
)

// Maps draws the cache of each card that holds the model; none where the backend has no such thing. A card that is busy with something
// longer gives what it gave last, or nothing: nobody waits for more than a fifth of a second, and a pass never waits for this.
func (m *Model) Maps(ctx context.Context) []CellMap {
	if b, ok := m.b.(interface {
		Maps(ctx context.Context) []CellMap
	}); ok {
		return b.Maps(ctx)
	}
	return nil
}

// Maps implements the optional interface that [Model.Maps] looks for.
func (b *cardBackend) Maps(ctx context.Context) []CellMap {
	d := &b.m.drawn
	ctx, cancel := context.WithTimeout(ctx, mapPatience)
	defer cancel()
	select {
	case d.turn <- struct{}{}:
		if last := d.last.Load(); last == nil || time.Since(last.At) > mapFresh {
			_ = b.card.Do(ctx, func(axcl.Device) error { // who cannot have a new one has the last
				m := b.m.cells.chart(&d.sheet)
				m.At, m.Device = time.Now(), b.info.Device
				m.Tiers = []Tier{{Name: "card", Cells: m.Cells, Used: m.Used, Bytes: b.info.Memory.Cache}}
				st := b.Stats()
				if t := st.Memory; t.Rows > 0 {
					m.Tiers = append(m.Tiers, Tier{Name: "memory", Cells: t.Rows, Used: t.Used, Bytes: t.Bytes})
				}
				if t := st.Disk; t.On {
					m.Tiers = append(m.Tiers, Tier{Name: "disk", Cells: t.Rows, Bytes: t.Bytes})
				}
				d.last.Store(m)
				return nil
			})
		}
		<-d.turn
	case <-ctx.Done():
	}
	if last := d.last.Load(); last != nil {
		return []CellMap{*last}
	}
	return nil
}

// Maps are those of all replicas that work.
func (r *replicas) Maps(ctx context.Context) (out []CellMap) {
	r.mu.Lock()
	live := slices.DeleteFunc(slices.Clone(r.all), func(c *replica) bool { return c.dead })
	r.mu.Unlock()
	each := make([][]CellMap, len(live))
	var wg sync.WaitGroup
	for i, c := range live {
		if b, ok := c.Backend.(interface {
			Maps(ctx context.Context) []CellMap
		}); ok {
			wg.Go(func() { each[i] = b.Maps(ctx) })
		}
	}
	wg.Wait()
	return slices.Concat(each...)
}

// drawn is what was drawn last.
type drawn struct {
	turn  chan struct{} // of those who ask, one at a time
	last  atomic.Pointer[CellMap]
	sheet sheet // the worker's
}

// sheet is what drawing a map needs, used again each time.
type sheet struct {
	depth, root, branch []int32 // of each row: how many tokens end there, under which root, and whose it is
	named               int32   // the highest name given
}

// Values of sheet.branch that are no branch's index.
const (
	ofNone = int32(-1)
	ofMany = int32(-2)
)

// chart draws the map. It walks over each row a few times at most, however long the texts are and however many begin alike.
func (c *cells) chart(s *sheet) *CellMap {
	n := c.size()
	if len(s.depth) != n {
		s.depth, s.root, s.branch = make([]int32, n), make([]int32, n), make([]int32, n)
	}
	m := &CellMap{Cells: n}
	m.Used, m.Cached, _ = c.counts()
	m.Free = n - m.Used
	var ends []int32
	for i, st := range c.state {
		s.branch[i] = ofNone
		if st == cellNode && (c.child[i] == none || c.refs[i] > 0) {
			ends = append(ends, int32(i))
		}
	}
	slices.SortStableFunc(ends, func(a, b int32) int {
		return cmp.Or(cmp.Compare(min(c.refs[b], 1), min(c.refs[a], 1)), cmp.Compare(c.used[b], c.used[a]))
	})
	for b, end := range ends {
		// Up to what another branch has walked over: from there on they are one text.
		k, depth := end, int32(0)
		for ; k >= 0 && s.branch[k] == ofNone; k = c.parent[k] {
			s.branch[k] = int32(b)
			depth++
		}
		root := ^k
		if k >= 0 {
			root = s.root[k]
			depth += s.depth[k]
		}
		for j := end; j != k; j = c.parent[j] {
			s.depth[j], s.root[j] = depth, root
			depth--
		}
		for ; k >= 0 && s.branch[k] != ofMany; k = c.parent[k] {
			s.branch[k] = ofMany
		}
	}
	keys := make([]string, len(c.roots))
	for key, r := range c.keys {
		keys[r] = key
	}
	names := c.name(s, ends)
	for b, end := range ends[:min(len(ends), mostBranches)] {
		k := end
		for k >= 0 && s.branch[k] != ofMany {
			k = c.parent[k]
		}
		br := Branch{ID: int(names[b]), Key: keys[s.root[end]], Running: c.refs[end] > 0, Tokens: int(s.depth[end])}
		if k >= 0 {
			br.Shared = int(s.depth[k])
		}
		m.Branches = append(m.Branches, br)
	}
	for i, st := range c.state {
		what := HoldsNothing
		switch b := s.branch[i]; {
		case st == cellTaken:
			what = HoldsPass
		case st == cellNode && b == ofMany:
			what = HoldsShared
			m.Shared++
		case st == cellNode && int(b) < len(m.Branches):
			what = m.Branches[b].ID
		case st == cellNode:
			what = HoldsOther
		}
		if last := len(m.Runs) - 1; last >= 0 && m.Runs[last].What == what {
			m.Runs[last].Cells++
		} else {
			m.Runs = append(m.Runs, CellRun{Cells: 1, What: what})
		}
	}
	return m
}

// name gives each branch the name that its own rows have had longest, nearest to its end; one without such a row, or whose name another
// has, gets a new one. Rows keep their name until they are free.
func (c *cells) name(s *sheet, ends []int32) []int32 {
	names := make([]int32, len(ends))
	taken := map[int32]bool{}
	for _, own := range []bool{true, false} { // who has rows of its own comes first; then those whose text another goes on from
		for b, end := range ends {
			if names[b] != 0 {
				continue
			}
			for k := end; k >= 0 && (s.branch[k] == int32(b) || !own && k == end); k = c.parent[k] {
				if l := c.label[k]; l != 0 {
					if !taken[l] {
						names[b] = l
						taken[l] = true
					}
					break
				}
			}
		}
	}
	for b, end := range ends {
		if names[b] == 0 {
			s.named++
			names[b] = s.named
		}
		for k := end; k >= 0 && (s.branch[k] == int32(b) || k == end); k = c.parent[k] {
			if c.label[k] == 0 {
				c.label[k] = names[b]
			}
		}
	}
	return names
}
