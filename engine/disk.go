package engine

import (
	"context"

	"github.com/axle-llm/axle/engine/cache"
	"github.com/axle-llm/axle/models/rows"
)

// disk makes a folder of rows a Medium.
type disk struct{ *rows.Disk }

// mediumOf returns the medium for a model's rows, or nil for none.
func mediumOf(o OpenOptions) cache.Medium {
	switch {
	case o.Medium != nil:
		return o.Medium
	case o.Rows != nil:
		return disk{o.Rows}
	}
	return nil
}

func (d disk) Off() bool { return d.Stats().Off }

func (d disk) Text(o cache.Owner, ids []int32) cache.Text {
	s := d.Space(rows.Owner(o))
	return &diskText{space: s, ids: ids, keys: s.Keys(ids), block: d.Block(), states: o.State > 0}
}

// diskText is a text in a folder of rows.
type diskText struct {
	space  *rows.Space
	ids    []int32
	keys   []rows.Key // of the text's whole blocks
	block  int
	states bool
}

func (t *diskText) Found() int {
	if !t.states {
		return t.Blocks() * t.block
	}
	if key, ok := t.space.FindState(t.ids, t.keys); ok {
		return t.space.Length(key)
	}
	return 0
}

func (t *diskText) Blocks() int { return t.space.Find(t.keys) }

func (t *diskText) state(n int) rows.StateKey { return t.space.StateKey(t.ids[:n], t.keys) }

func (t *diskText) HasState(n int) bool          { return t.space.HasState(t.state(n)) }
func (t *diskText) Load(i int, rows []byte) bool { return t.space.Load(t.keys[i], rows) }
func (t *diskText) LoadState(n int, rows, state []byte) bool {
	return t.space.LoadState(t.state(n), rows, state)
}
func (t *diskText) Save(i int, rows []byte) error { return t.space.Save(t.keys[i], rows) }
func (t *diskText) SaveState(n int, rows, state []byte) error {
	return t.space.SaveState(t.state(n), rows, state)
}

func (t *diskText) FoundFar(ctx context.Context, near int) int {
	return t.space.FindFar(ctx, t.keys, near)
}

func (t *diskText) LoadFar(ctx context.Context, i int, rows []byte) bool {
	return t.space.LoadFar(ctx, t.keys[i], rows)
}

func (t *diskText) Push(ctx context.Context) (int, error) { return t.space.Push(ctx, t.keys) }
