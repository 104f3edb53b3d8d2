//go:build invariants

package engine

import (
	"fmt"

	"github.com/axle-llm/axle/engine/cache"
)

// Checks that cost too much for every day: they are built in under the tag invariants, which the
// race lane sets. A violation is a panic with what was found, since whatever comes after it would
// only hide it.

// verify panics unless cells and sequences agree. It runs on the worker after each pass, when
// nothing of the pass is still on its way, and takes the model's lock only for a moment: a caller
// that held it across a pass would hang here instead of now and then.
func (m *lm) verify() {
	m.card.Owned()
	if waiting := m.queue.len(); waiting > m.queue.most+m.parallel {
		panic(fmt.Sprintf("engine: invariant: %d sequences wait in a queue of %d", waiting, m.queue.most))
	}
	var places []*cache.Seq
	for s := range m.places() {
		places = append(places, s)
	}
	if err := cache.CheckSeqs(m.cells, places, func(i int) []int32 { return m.running[i].ids }); err != nil {
		panic("engine: invariant: " + err.Error())
	}
	if err := m.cache.Check(m.places(), m.diskTier.slots()); err != nil {
		panic("engine: invariant: " + err.Error())
	}
	if err := m.ram.Check(); err != nil {
		panic("engine: invariant: in memory: " + err.Error())
	}
}

// slots returns the slots that states are being restored to.
func (d *diskTier) slots() (all []uint32) {
	if d != nil {
		for _, r := range d.reading {
			if r.slot != 0 {
				all = append(all, r.slot)
			}
		}
	}
	return all
}
