package engine

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/axle-llm/axle/engine/cache"
	"github.com/axle-llm/axle/internal/ranked"
	"github.com/axle-llm/axle/sampler"
	"github.com/axle-llm/axle/tokenizer"
)

// none is no cell, and no token.
const none = cache.None

// seq is a sequence: a prompt, what has been answered so far, and the cells that keep them. The
// worker owns all of it but the answer.
type seq struct {
	answer
	cache.Seq // where its rows are: Path has the cells of ids[:len(Path)]

	job        Job
	ids        []int32 // prompt and answer
	prompt     int     // this many of ids were given: they go in chunks
	sampler    *sampler.Sampler
	text       *tokenizer.Stream
	embed      *embedding
	greedy     bool // the largest logit is all that is needed
	repeatable bool // repeatable: see repeatable.go

	standing
	relocation
	doubts
	seen
	spec   speculator
	shadow *seq  // in the draft model, where there is one
	stops  []int // lengths of the prompt at which its state is to be kept
	onDisk int   // rows of the prompt that a disk has, until they are read: see disktier.go
	usage  Usage
	moments
}

// answer is what the worker and the caller share: tokens go to the caller through the box, and the
// caller leaves.
type answer struct {
	ctx     context.Context
	gone    atomic.Bool // the caller left
	pleased atomic.Bool // and had had what it wanted
	box     mailbox
}

// standing is where a sequence stands among the others: see admit.go.
type standing struct {
	admit   uint64 // order of admission: the youngest is preempted first
	served  uint64 // the pass that last carried a row of it
	begun   bool
	retried bool
}

// relocation is how far the layout and the RAM tier have brought a sequence's rows: see
// relocate.go.
type relocation struct {
	down       bool // it stood from the start on rows that were to be moved down
	relocating bool // cells are being made ready for its prompt
	high       int  // this many of ids have been through the card before
}

// doubts are which of a sequence's logits are to be looked at: see spoiled.go.
type doubts struct {
	doubt bool // the next token's
	sure  int  // the token, counted from 0, whose logits were the last to be looked at
}

// seen is what a sequence has of the pictures in its prompt: see encodercache.go.
type seen struct {
	pictures []pictureRows // where its prompt's rows are pictures', ascending
	pos      []uint32      // the positions of its prompt's rows, where those are not their places in the text
	lag      int           // by how much the positions of what follows lie behind their places
	low      bool          // it begins on an empty card: its pictures found no cells that wide passes see
}

// moments are when a sequence was submitted, admitted, and gave its first token, by the card's
// clock.
type moments struct{ asked, started, first time.Duration }

// pending is how many ids have not been through the card.
func (s *seq) pending() int { return len(s.ids) - len(s.Path) }

// mailbox carries tokens from the worker to the caller. The worker never waits: what the caller
// does not take stays here, and a sequence whose box is full is not given rows until there is room.
type mailbox struct {
	mu     ranked.Mutex[ranked.Mailbox]
	tokens []Token
	err    error
	closed bool
	wake   chan struct{}
}

// boxRoom is how many tokens wait for a slow reader before its sequence does.
const boxRoom = 1024

func (b *mailbox) put(t Token) {
	b.mu.Lock()
	if !b.closed {
		b.tokens = append(b.tokens, t)
		b.closed = t.Final != ""
	}
	b.mu.Unlock()
	b.signal()
}

func (b *mailbox) fail(err error) {
	b.mu.Lock()
	if !b.closed {
		b.err, b.closed = err, true
	}
	b.mu.Unlock()
	b.signal()
}

func (b *mailbox) signal() {
	select {
	case b.wake <- struct{}{}:
	default:
	}
}

// take moves what is there into buf. Of each token it says whether another follows at once.
func (b *mailbox) take(buf []Token) (tokens []Token, err error, closed bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	tokens = append(buf[:0], b.tokens...)
	b.tokens = b.tokens[:0]
	for i := range tokens {
		tokens[i].More = i+1 < len(tokens) || b.closed
	}
	return tokens, b.err, b.closed
}

func (b *mailbox) full() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.tokens) >= boxRoom
}
