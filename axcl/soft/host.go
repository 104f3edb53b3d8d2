package soft

import (
	"io/fs"
	"sync/atomic"

	"github.com/axle-llm/axle/internal/ram"
)

// heap is what all software cards of the process have allocated for models. Much of it may never
// have been touched, and then counts as free with the system, though it is promised.
var heap atomic.Int64

// hostMemory is how much memory this machine has and how much of it may still be taken. What cards
// have allocated and cannot be resident, since the whole process has less, is taken.
func hostMemory(root fs.FS) (total, free int64) {
	total, free = ram.Of(root)
	return total, max(free-max(heap.Load()-ram.Resident(root), 0), 0)
}
