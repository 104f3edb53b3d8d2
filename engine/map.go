package engine

import (
	"context"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/axle-llm/axle/axcl"
)

// This file draws the cache as a map for people: which rows hold what. The worker draws it between
// two passes, and only on request.

const (
	mapFresh    = 100 * time.Millisecond // a map of this age is still returned
	mapPatience = 200 * time.Millisecond // how long a caller waits for the worker
)

// Maps draws the cache of each card that holds the model. It is empty if the backend has no cache.
// A card that is busy for longer returns its last map, or none: a caller waits a fifth of a second
// at most, and a pass never waits for a map.
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
			_ = b.card.Do(ctx, func(axcl.Device) error { // without a new map, the last one is returned
				m := b.m.cells.Chart()
				for i := range m.Branches {
					m.Branches[i].Key, _, _ = strings.Cut(m.Branches[i].Key, adapterMark)
				}
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

// Maps returns the maps of all replicas that work.
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

// drawn is the last map.
type drawn struct {
	turn chan struct{} // callers take turns, one at a time
	last atomic.Pointer[CellMap]
}
