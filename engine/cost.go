package engine

import (
	"time"

	"github.com/axle-llm/axle/engine/cache"
)

// costs is what passes take on this card, measured at load and corrected while running: a fixed
// time for each shape group and one for each row that goes through the head. What rows on their way
// cost is beside it: see cache.CopyCost.
type costs struct {
	group []float64 // seconds; 0 is unknown
	head  float64
	run   float64        // a wide pass's new rows, for each run of cells after the first
	move  cache.CopyCost // from cells to cells; the zero CopyCost: rows stay where they are
}

// settle is how much a single pass moves an estimate.
const settle = 0.1

func (c *costs) predict(group, wants int) time.Duration {
	return time.Duration((c.group[group] + float64(wants)*c.head) * float64(time.Second))
}

// observe corrects the estimates by what a pass took whose new rows lie in cells. The error is
// shared in proportion: one pass cannot tell layers from head and copies.
func (c *costs) observe(group, wants int, cells []uint32, took time.Duration) {
	t := took.Seconds()
	if t <= 0 {
		return // a clock too coarse to tell
	}
	if c.group[group] == 0 {
		c.group[group] = max(t-float64(wants)*c.head-c.copies(cells), t/10)
		return
	}
	copies := c.copies(cells)
	want := c.group[group] + float64(wants)*c.head + copies
	f := 1 + settle*(t/want-1)
	// One slow pass (a page fault, another program) must not turn the choice over.
	f = min(max(f, 0.8), 1.25)
	c.group[group] *= f
	if wants > 0 {
		c.head *= f
	}
	if copies > 0 {
		c.run *= f
	}
}
