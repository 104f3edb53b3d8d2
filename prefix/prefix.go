// Package prefix is the identity of the beginning of a text: the names by which what was evaluated
// of it is found again. A text is cut into blocks of tokens, and a block's name covers all that
// comes before it too. So two texts have as many names in common as they have whole blocks at their
// beginning, and a name that is known says that everything before it was the same.
//
// A [Chain] makes the names of one owner's texts: another model, card or API key gives other names
// to the same tokens, and never finds them. A chain that has a secret gives names that say nothing
// without the secret; names that leave the process are made so.
//
// A Chain is not changed by its methods, which may be called from any goroutine.
package prefix

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"hash"
	"io"
)

// Block sizes, in tokens. A small one finds more of a beginning, a large one keeps and asks for
// fewer things.
const (
	// Local is for names that stay in this process: which of several copies of a model has seen a
	// beginning.
	Local = 16
	// Shared is for names that other processes know too: a folder on disk, a router before several
	// machines.
	Shared = 64
)

// Name is the identity of a beginning of a text.
type Name [sha256.Size]byte

// String is the name in hexadecimal digits.
func (n Name) String() string { return hex.EncodeToString(n[:]) }

// Chain names the beginnings of one owner's texts. [New] makes one; the zero Chain has no block
// size and is of no use.
type Chain struct {
	secret []byte
	block  int
	seed   Name
}

// New gives the chain for blocks of block tokens, at least one, of the owner that words and sizes
// say: all that what is kept under a name depends on, other than the tokens. Their borders count,
// and their order. A nil secret is none.
func New(secret []byte, block int, words []string, sizes ...uint64) *Chain {
	if block < 1 {
		panic("prefix: a block of no tokens")
	}
	c := &Chain{secret: secret, block: block}
	h := hmac.New(sha256.New, secret)
	for _, w := range words {
		number(h, uint64(len(w)))
		_, _ = io.WriteString(h, w)
	}
	number(h, uint64(block))
	for _, n := range sizes {
		number(h, n)
	}
	h.Sum(c.seed[:0])
	return c
}

func number(h hash.Hash, n uint64) {
	var b [8]byte
	binary.LittleEndian.PutUint64(b[:], n)
	_, _ = h.Write(b[:])
}

// Blocks gives the names of the whole blocks that the tokens make, from the first on. Where tokens
// only hold a place for something (a picture's rows), beside gives what else the token at i stands
// for, or nil; it is asked once a token, in order. A nil beside is for texts without such things.
// Two texts whose tokens are alike and whose things are not have names in common up to the first
// thing that differs.
func (c *Chain) Blocks(ids []int32, beside func(i int) []byte) []Name {
	names := make([]Name, len(ids)/c.block)
	before := c.seed
	h := hmac.New(sha256.New, c.secret)
	for k := range names {
		h.Reset()
		_, _ = h.Write(before[:])
		tokens(h, ids[k*c.block:(k+1)*c.block])
		for i := k * c.block; beside != nil && i < (k+1)*c.block; i++ {
			if thing := beside(i); thing != nil {
				number(h, uint64(i%c.block)) // behind the tokens, each with its place: nothing else is spelled so
				number(h, uint64(len(thing)))
				_, _ = h.Write(thing)
			}
		}
		h.Sum(before[:0])
		names[k] = before
	}
	return names
}

// Next gives the name of a block of tokens behind the one that before names. A nil before is for
// the first block of a text. Blocks gives the same name to it, where no token holds a place.
func (c *Chain) Next(before *Name, block []int32) (n Name) {
	if before == nil {
		before = &c.seed
	}
	h := hmac.New(sha256.New, c.secret)
	_, _ = h.Write(before[:])
	tokens(h, block)
	h.Sum(n[:0])
	return n
}

func tokens(h hash.Hash, ids []int32) {
	var b [4 * 64]byte
	for len(ids) > 0 {
		n := min(len(ids), len(b)/4)
		for i, id := range ids[:n] {
			binary.LittleEndian.PutUint32(b[4*i:], uint32(id))
		}
		_, _ = h.Write(b[:4*n])
		ids = ids[n:]
	}
}

// End names what belongs behind the last of the tokens rather than to a block: a state. last is the
// name of their last whole block, and is not looked at where they make none; kind and size tell
// apart what may stand behind the same token.
func (c *Chain) End(kind string, size uint64, last Name, ids []int32) Name {
	whole := len(ids) / c.block
	if whole == 0 {
		last = c.seed
	}
	h := hmac.New(sha256.New, c.secret)
	_, _ = io.WriteString(h, kind)
	number(h, size)
	number(h, uint64(len(ids)%c.block))
	//rule:T17 ./models/rows TestStatesOnDisk$ drop
	_, _ = h.Write(last[:])
	tokens(h, ids[whole*c.block:])
	h.Sum(last[:0])
	return last
}
