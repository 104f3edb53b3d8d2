package engine

import (
	"cmp"
	"context"
	"slices"

	"github.com/axle-llm/axle/ask"
	"github.com/axle-llm/axle/axcl"
	"github.com/axle-llm/axle/engine/cache"
)

// This file saves what a model that is about to be closed has of texts, so that another server, or
// the next process, continues every one of them.

// handing is a backend that hands over.
type handing interface {
	Handover(ctx context.Context) (ask.Handed, error)
}

// Handover saves every whole block of every text that a model has on the card or in memory, the
// last used text first, and sends them to the place behind the medium, if there is one. It ends
// with ctx, and requests may run meanwhile. Of a model whose layers keep states it saves nothing:
// rows without a state are of no use, and states are saved when their text ends. Errors: ctx's, the
// card's.
func Handover(ctx context.Context, m *Model) (ask.Handed, error) {
	if b, ok := m.b.(handing); ok {
		return b.Handover(ctx)
	}
	return ask.Handed{}, nil
}

// Handover implements the optional interface that [Handover] looks for.
func (b *cardBackend) Handover(ctx context.Context) (n ask.Handed, err error) {
	d := b.m.diskTier
	if d == nil || d.owner.State > 0 {
		return n, nil
	}
	var texts []cache.Spelled
	if err := b.card.Do(ctx, func(axcl.Device) error {
		texts = cache.Texts(b.m.cells)
		return nil
	}); err != nil {
		return n, err
	}
	texts = append(texts, b.m.ram.Texts()...)
	for i, t := range texts {
		texts[i].IDs = spelled(t.IDs)
	}
	for i, t := range texts {
		if slices.ContainsFunc(texts[:i], t.Begins) {
			continue // with what it begins, it is there already
		}
		if err := d.handOver(ctx, t, &n); err != nil || ctx.Err() != nil || d.disk.Off() {
			return n, cmp.Or(err, ctx.Err())
		}
	}
	return n, nil
}

// handOver saves and sends a text.
func (d *diskTier) handOver(ctx context.Context, t cache.Spelled, n *ask.Handed) error {
	size := d.disk.Block()
	whole := len(t.IDs) / size
	if whole == 0 {
		return nil
	}
	on := d.on(t.Key, t.IDs[:whole*size])
	n.Texts++
	block := make([]byte, size*d.shape.RowBytes())
	for i := on.Blocks(); i < whole && ctx.Err() == nil; i++ {
		there, err := d.fetch(ctx, t, i*size, block)
		if err != nil {
			return err
		}
		if !there || senselessRows(block) || on.Save(i, block) != nil {
			break // what comes after it would not be found
		}
		n.Saved++
		d.out.Add(int64(len(block)))
	}
	far, ok := on.(cache.FarText)
	if d.far == nil || !ok {
		return ctx.Err()
	}
	sent, err := far.Push(ctx)
	if n.Sent += sent; err != nil && ctx.Err() == nil {
		return nil // the place has its own trouble; other texts may be taken
	}
	return err
}

// fetch copies a block of a text, whose first row is from, from memory or off the card, a piece at
// a time. It reports whether all of it is still there.
func (d *diskTier) fetch(ctx context.Context, t cache.Spelled, from int, block []byte) (bool, error) {
	size, row := d.disk.Block(), d.shape.RowBytes()
	if d.ram.Copy(t.Key, t.IDs[:from+size], from, block) {
		return true, nil
	}
	for at, gone := 0, false; at < size; {
		err := d.card.Do(ctx, func(axcl.Device) error {
			path := d.cells.Peek(t.Key, t.IDs[:from+size])
			if len(path) < from+size {
				gone = true
				return nil
			}
			n := min(size-at, d.shape.Piece)
			cells := unsigned(path[from+at : from+at+n])
			_, ok, err := d.mover.Carry(nil, func() error { return d.model.Save(cells, block[at*row:(at+n)*row]) })
			at, gone = at+n, !ok
			return err
		})
		if err != nil || gone {
			return false, err
		}
	}
	return true, nil
}

// Handover lets each card that works hand over.
func (r *replicas) Handover(ctx context.Context) (sum ask.Handed, err error) {
	r.mu.Lock()
	live := slices.DeleteFunc(slices.Clone(r.all), func(c *replica) bool { return c.dead })
	r.mu.Unlock()
	for _, c := range live {
		b, ok := c.Backend.(handing)
		if !ok {
			continue
		}
		n, e := b.Handover(ctx)
		sum.Texts, sum.Saved, sum.Sent, err = sum.Texts+n.Texts, sum.Saved+n.Saved, sum.Sent+n.Sent, cmp.Or(err, e)
	}
	return sum, err
}
