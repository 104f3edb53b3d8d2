package cache

// Medium is where rows and states are kept beyond the card and this machine's memory: a disk, or
// whatever is handed in. Its methods are called from any goroutine.
type Medium interface {
	Block() int  // how many rows go together
	Size() int64 // bytes that it may take
	Off() bool   // it keeps and gives nothing any more
	// Text is a text of an owner's, as the medium knows it. ids are not changed as long as it is
	// used.
	Text(o Owner, ids []int32) Text
}

// Owner is what rows belong to and depend on, other than their tokens.
type Owner struct {
	Package string // its digest
	Model   string // what people call it; rows do not depend on it
	Card    string // its kind, and whatever else rows differ by
	Key     string // of who asked: rows of one key are not found by another
	Row     int    // bytes of a row
	State   int    // bytes of a state; 0: no layer keeps one
}

// Text is a text in a Medium. Its rows go in whole blocks, from the first on; the rows behind the
// last block before a state go with it. All of its methods may wait for the medium.
type Text interface {
	// Found is how many rows, from the first on, seem to be there: where the owner has states,
	// those up to the last that is there with all blocks before it.
	Found() int
	// Blocks is how many of the text's whole blocks seem to be there, from the first on, and
	// HasState whether the state after its first n rows does.
	Blocks() int
	HasState(n int) bool
	// Load reads block i, and LoadState the state after the first n rows with the rows behind the
	// last whole block of those. They report whether it is there, whole and sound; else what they
	// have read is not to be used.
	Load(i int, rows []byte) bool
	LoadState(n int, rows, state []byte) bool
	// Save and SaveState keep them. The blocks before a block or a state are kept already.
	Save(i int, rows []byte) error
	SaveState(n int, rows, state []byte) error
}
