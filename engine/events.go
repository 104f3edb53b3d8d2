package engine

import (
	"crypto/rand"
	"sync"

	"github.com/axle-llm/axle/engine/cache"
	"github.com/axle-llm/axle/models/rows"
	"github.com/axle-llm/axle/prefix"
)

// Listener is told which whole blocks of texts a model's caches hold: see [OpenOptions].Events.
type Listener = cache.Listener

// namesSecret makes the names of blocks in this process, where no disk has a secret of its own.
var namesSecret = sync.OnceValue(func() []byte {
	b := make([]byte, 32)
	_, _ = rand.Read(b)
	return b
})

// namer is a Medium that says how it names an owner's blocks.
type namer interface {
	Names(o cache.Owner) *prefix.Chain
}

// Names returns the names that the folder's files have.
func (d disk) Names(o cache.Owner) *prefix.Chain { return d.Space(rows.Owner(o)).Names() }

// listen has the model's blocks told to the listener that o.Events returns. Blocks on disk have the
// names of their files, and all others the same, so that a listener knows them again.
func (m *lm) listen(digest, model string, o OpenOptions) {
	if o.Events == nil {
		return
	}
	b := &cache.Blocks{Size: prefix.Shared, Listener: o.Events(model), Names: func(key string) *prefix.Chain {
		return prefix.New(namesSecret(), prefix.Shared, []string{digest, m.card.Info().Name, key}, uint64(m.shape.RowBytes()))
	}}
	if d := m.diskTier; d != nil {
		if n, ok := d.disk.(namer); ok {
			b.Size, b.Names = d.disk.Block(), func(key string) *prefix.Chain {
				owner := d.owner
				owner.Key = key
				return n.Names(owner)
			}
			d.told = b
		}
	}
	b.Listen(m.cells)
}
