package engine

import (
	"time"

	"github.com/axle-llm/axle/engine/cache"
)

// costs predicts what passes cost on this card: a fixed time for each shape group, and a time for
// each row that goes through the LM head. It is measured at load and corrected after every pass.
// The cost of copied rows is separate: see cache.CopyCost.
type costs struct {
	group    []float64 // seconds; 0 is unknown
	head     float64
	host     hostCost       // the head on the host
	onlyHost bool           // it is used also where it takes longer
	run      float64        // seconds for each run of a wide pass's new cells after the first
	move     cache.CopyCost // from cells to cells; the zero CopyCost: rows cannot be moved
}

// settle is how far a single pass moves an estimate.
const settle = 0.1

// predict returns the time of a pass on the card, whose head takes wants rows.
func (c *costs) predict(group, wants int) time.Duration {
	return time.Duration((c.group[group] + float64(wants)*c.head) * float64(time.Second))
}

// observe corrects the estimates by a pass's time. Its new rows are in cells. The error is shared
// in proportion, because one pass cannot tell layers from head and copies.
func (c *costs) observe(group, wants int, cells []uint32, took time.Duration) {
	t := took.Seconds()
	if t <= 0 {
		return // the clock is too coarse
	}
	if c.group[group] == 0 {
		c.group[group] = max(t-float64(wants)*c.head-c.copies(cells), t/10)
		return
	}
	copies := c.copies(cells)
	want := c.group[group] + float64(wants)*c.head + copies
	f := 1 + settle*(t/want-1)
	// One slow pass (a page fault, another program) must not reverse a choice.
	f = min(max(f, 0.8), 1.25)
	c.group[group] *= f
	if wants > 0 {
		c.head *= f
	}
	if copies > 0 {
		c.run *= f
	}
}
