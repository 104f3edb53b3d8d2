package cache

import "github.com/axle-llm/axle/prefix"

// Where a block of rows is.
const (
	OnCard   = "card"
	InMemory = "memory"
	OnDisk   = "disk"
)

// Listener is told which whole blocks of rows a model's caches hold, as they come and go. Its
// methods are called from any goroutine with locks held. They must not wait, and must not call the
// cache.
type Listener interface {
	// Stored is called when the rows of a block are at a place, for each copy of them: two
	// sequences may have evaluated the same text at the same time. before is the name of the block
	// before it in its text; nil: it is the first. tokens do not change during the call.
	Stored(place, key string, name prefix.Name, before *prefix.Name, tokens []int32)
	// Removed is called when a copy is there no longer. It is not called for blocks on disk.
	Removed(place string, name prefix.Name)
	// Close says that the model is gone, with its blocks on the card and in memory.
	Close()
}

// Blocks says how blocks are named, and who is told of them. Rows of pictures have no token that
// means anything elsewhere: the blocks with such a row, and those behind it, are not told.
type Blocks struct {
	Size     int                            // tokens in a block
	Names    func(key string) *prefix.Chain // of a key's texts, with blocks of Size
	Listener Listener
}

// Listen tells b's listener of the blocks that are in the tree, and from then on of each that comes
// or goes. A tier in memory that is opened later is told of too.
func (b *Blocks) Listen(t *Tree) { b.listen(t, OnCard) }

func (b *Blocks) listen(t *Tree, place string) {
	t.told = &told{Blocks: b, place: place, depth: make([]int32, t.Size()), names: map[int32]prefix.Name{},
		chains: map[int32]*prefix.Chain{}, block: make([]int32, b.Size)}
	var walk func(parent int32)
	walk = func(parent int32) {
		for n := t.first(parent); n != none; n = t.next[n] {
			t.told.add(t, n)
			walk(n)
		}
	}
	for r := range t.roots {
		walk(^int32(r))
	}
}

// Unlisten closes the tree's listener, if it has one.
func Unlisten(t *Tree) {
	if t.told != nil {
		t.told.Listener.Close()
		t.told = nil
	}
}

// told is what of a tree was told. A nil told tells nothing.
type told struct {
	*Blocks
	place  string
	depth  []int32                 // of each node: rows from the root to it
	names  map[int32]prefix.Name   // of the block that ends in a node
	chains map[int32]*prefix.Chain // by root
	block  []int32                 // scratch
}

// add looks whether a new node ends a block.
func (d *told) add(t *Tree, n int32) {
	if d == nil {
		return
	}
	d.depth[n] = 1
	if p := t.parent[n]; p >= 0 {
		d.depth[n] = d.depth[p] + 1
	}
	if d.depth[n]%int32(d.Size) != 0 {
		return
	}
	at := n
	for i := d.Size - 1; i >= 0; i-- {
		if d.block[i] = t.token[at]; d.block[i] < 0 {
			return
		}
		at = t.parent[at]
	}
	var before *prefix.Name
	root := at
	if at >= 0 {
		name, ok := d.names[at]
		if !ok {
			return // there is a picture before it
		}
		for before = &name; root >= 0; root = t.parent[root] {
		}
	}
	key, chain := t.names[^root], d.chains[root]
	if chain == nil {
		chain = d.Names(key)
		d.chains[root] = chain
	}
	d.names[n] = chain.Next(before, d.block)
	d.Listener.Stored(d.place, key, d.names[n], before, d.block)
}

// remove looks whether a block ended in a node that goes.
func (d *told) remove(n int32) {
	if d == nil {
		return
	}
	if name, ok := d.names[n]; ok {
		delete(d.names, n)
		d.Listener.Removed(d.place, name)
	}
}

// move notes that a node has another number.
func (d *told) move(n, to int32) {
	if d == nil {
		return
	}
	d.depth[to] = d.depth[n]
	if name, ok := d.names[n]; ok {
		delete(d.names, n)
		d.names[to] = name
	}
}

// Saved returns a function that tells of the blocks of a text on disk, by their numbers. A nil
// Blocks tells nothing.
func (b *Blocks) Saved(key string, ids []int32) func(i int) {
	if b == nil {
		return func(int) {}
	}
	names := b.Names(key).Blocks(ids, nil)
	return func(i int) {
		var before *prefix.Name
		if i > 0 {
			before = &names[i-1]
		}
		b.Listener.Stored(OnDisk, key, names[i], before, ids[i*b.Size:(i+1)*b.Size])
	}
}
