package engine

import "github.com/axle-llm/axle/models/rows"

// diskText is a text in a folder of rows. Its rows go in whole blocks, from the first on; the rows
// behind the last block before a state go with it. All of its methods may wait for the disk.
type diskText struct {
	*rows.Space
	ids    []int32
	keys   []rows.Key // of its whole blocks
	block  int
	states bool
}

// on is a text of key's on the disk.
func (k *keeper) on(key string, ids []int32) *diskText {
	o := k.owner
	o.Key = key
	s := k.disk.Space(o)
	return &diskText{Space: s, ids: ids, keys: s.Keys(ids), block: k.disk.Block(), states: o.State > 0}
}

// found is how many rows, from the first on, seem to be there: of a model with states, those up to
// the last state that is there with all blocks before it.
func (t *diskText) found() int {
	if !t.states {
		return t.blocks() * t.block
	}
	if key, ok := t.FindState(t.ids, t.keys); ok {
		return t.Length(key)
	}
	return 0
}

// blocks is how many of the text's whole blocks seem to be there, from the first on.
func (t *diskText) blocks() int { return t.Find(t.keys) }

// after names the state after the first n rows, with the rows behind the last whole block of those.
func (t *diskText) after(n int) rows.StateKey { return t.StateKey(t.ids[:n], t.keys) }
