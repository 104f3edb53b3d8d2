// Package cache keeps account of what lies in a model's cache, and of what of it is kept in this
// machine's memory.
//
// A model on a card has a number of cells, each of which holds one token's K and V in every layer.
// [Cells] is the allocator: it says which cells are free and which of these a pass's new rows come
// to. [Tree] is what the others hold: a row is a node below the row of the token before it, so that
// texts that begin alike share rows. A sequence stands on a path of the tree ([Seq]); what no
// sequence stands on is evicted, the longest unused first. Where layers keep a state, [Snapshots]
// says in which slot the state after which row lies. [Memory] is the RAM tier: a second tree for
// each model, of rows that were copied off the card.
//
// The package calls no card: it says what is to be copied and where it is to lie, and is told what
// came of it. Each Tree, its sequences, snapshots and tier belong to one goroutine, the worker of
// the card; a Memory has a lock of its own, since several cards' workers share it.
package cache
