package pool

import (
	"context"
	"time"

	"github.com/axle-llm/axle/ask"
)

// Handing is a [Loader] whose models can hand their conversations over.
type Handing interface {
	// HandOver saves what a model has of conversations, so that another server may go on with them.
	// It ends with ctx.
	HandOver(ctx context.Context, m ask.Model) (ask.Handed, error)
}

// handOver has a model hand its conversations over before it is closed for good, within two thirds
// of the time that is left. A nil end is a model that is unloaded while the server goes on: what it
// evaluated was saved while it was idle.
func (ms *Models) handOver(end context.Context, name string, m ask.Model) {
	h, ok := ms.loader.(Handing)
	if end == nil || !ok {
		return
	}
	now := time.Now()
	if by, ok := end.Deadline(); ok {
		var cancel context.CancelFunc
		end, cancel = context.WithDeadline(end, now.Add(by.Sub(now)*2/3))
		defer cancel()
	}
	n, err := h.HandOver(end, m)
	if ms.o.Handed != nil && (n.Texts > 0 || err != nil) {
		ms.o.Handed(name, n, err)
	}
}
