// Package cache records the contents of a model's cache on the card and in this machine's memory.
//
// A model on a card has a number of cells. Each holds one token's K and V in every layer. [Cells]
// is the allocator: it says which cells are free, and chooses cells for the new rows of a pass.
// [Tree] says what the used cells hold. A row is a node below the row of the token before it, so
// texts that begin alike share rows. A sequence holds a path of the tree ([Seq]). Rows that no
// sequence holds are evicted, the least recently used first. If layers have a state, [Snapshots]
// says which slot holds the state after which row. [Memory] is the RAM tier. It has a second tree
// for each model, with the rows that were copied off the card.
//
// The package does not call a card. It says what is to be copied and to where, and the caller
// reports the outcome. A Tree, its sequences, snapshots and tier belong to one goroutine, the
// worker of the card. A Memory has its own lock, because the workers of several cards share it.
package cache
