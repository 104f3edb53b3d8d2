package cache

import "context"

// Medium keeps rows and states outside the card and this machine's memory, for example on disk. Its
// methods are called from any goroutine.
type Medium interface {
	Block() int  // rows in a block
	Size() int64 // the most bytes that it takes
	Off() bool   // it no longer saves or loads anything
	// Text returns a text of an owner's, as the medium knows it. ids do not change while it is
	// used.
	Text(o Owner, ids []int32) Text
}

// Owner is what rows belong to and depend on, apart from their tokens.
type Owner struct {
	Package string // its digest
	Model   string // its name for people; rows do not depend on it
	Card    string // its kind, and whatever else makes rows differ
	Key     string // the request's key: rows are found only under their own key
	Row     int    // bytes of a row
	State   int    // bytes of a state; 0: no layer keeps one
}

// Text is a text in a Medium. Its rows are saved in whole blocks, from the first on. The rows
// between the last block and a state are saved with the state. All methods may wait for the medium.
type Text interface {
	// Found returns how many rows, from the first on, seem to be saved. If the owner has states, it
	// returns the length up to the last state that has all blocks before it.
	Found() int
	// Blocks returns how many of the text's whole blocks seem to be saved, from the first on.
	// HasState reports whether the state after the first n rows seems to be.
	Blocks() int
	HasState(n int) bool
	// Load reads block i. LoadState reads the state after the first n rows, and the rows behind
	// their last whole block. They report whether the data is there, complete and sound. If not,
	// what they read must not be used.
	Load(i int, rows []byte) bool
	LoadState(n int, rows, state []byte) bool
	// Save and SaveState save them. The blocks before a block or a state are saved already.
	Save(i int, rows []byte) error
	SaveState(n int, rows, state []byte) error
}

// Far is a Medium with a place behind it that is slower to ask, for example other machines. Its
// texts are [FarText]s. It is asked for rows only, not for states.
type Far interface {
	Medium
	Far() string // what the place is called; empty: there is none
}

// FarText is a text of a [Far]. Its methods wait for a network, and end with ctx.
type FarText interface {
	Text
	// FoundFar returns how many of the text's whole blocks seem to be saved, from the first on,
	// where the medium has the first near ones.
	FoundFar(ctx context.Context, near int) int
	// LoadFar is Load from the place behind.
	LoadFar(ctx context.Context, i int, rows []byte) bool
	// Push brings to the place behind what is saved here and not there, and returns how many blocks
	// that were.
	Push(ctx context.Context) (sent int, err error)
}
