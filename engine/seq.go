package engine

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/axle-llm/axle/internal/ranked"
	"github.com/axle-llm/axle/sampler"
	"github.com/axle-llm/axle/tokenizer"
)

// seq is a sequence: a prompt, what has been answered so far, and the cells that keep them. The worker owns every field but box, gone,
// pleased and ctx, through which the caller takes tokens and leaves.
type seq struct {
	ctx     context.Context
	gone    atomic.Bool // the caller left
	pleased atomic.Bool // and had had what it wanted
	box     mailbox

	job     Job
	ids     []int32 // prompt and answer
	path    []int32 // the cells of ids[:len(path)]
	see     []uint64
	near    []uint64 // what local layers see: see without path[:far]; nil where there are none
	far     int
	sampler *sampler.Sampler
	text    *tokenizer.Stream
	greedy  bool // the largest logit is all that is needed
	solo    bool // repeatable: see solo.go
	prompt  int  // so many of ids were given: they go in chunks
	down    bool // it stood from the start on rows that were to be moved down
	way     bool // cells are being made ready for its prompt: see move.go
	bring   int  // its rows up to here come back from memory, piece by piece
	high    int  // so many of ids have been through the card before
	doubt   bool // the next token's logits are to be looked at
	kept    int  // rows of the prompt that a disk has: see kept.go; asked for once
	sure    int  // the token, counted from 0, whose logits were the last to be looked at
	embed   *embedding
	spec    speculator
	shadow  *seq // in the draft model, where there is one

	reserved []int32 // cells where its next rows are to lie: see reserve.go

	pictures []pictureRows // where its prompt's rows are pictures', ascending: see gallery.go
	pos      []uint32      // the positions of its prompt's rows, where those are not their places in the text
	lag      int           // by how much the positions of what follows lie behind their places
	low      bool          // it begins on an empty card: its pictures found no cells that wide passes see

	served  uint64 // the pass that last carried a row of it
	state   uint32 // the slot with the state after path: see slots.go
	own     bool   // which the next pass may replace
	coming  int    // so many bytes of it came from memory: see snap.go
	stops   []int  // lengths of the prompt at which its state is to be kept
	admit   uint64 // order of admission: the youngest is preempted first
	begun   bool
	retried bool
	usage   Usage
	asked   time.Duration // when it was submitted, admitted, and gave its first token, by the card's clock
	started time.Duration
	first   time.Duration
}

// tip is the node of the sequence's last row on the card; of one without rows, the root of its client's texts.
func (s *seq) tip(c *cells) int32 {
	if len(s.path) == 0 {
		return c.root(s.job.Key)
	}
	return s.path[len(s.path)-1]
}

// pending is how many ids have not been through the card.
func (s *seq) pending() int { return len(s.ids) - len(s.path) }

// reach is one more than the highest cell the sequence sees.
func (s *seq) reach() int {
	for w := len(s.see) - 1; w >= 0; w-- {
		if v := s.see[w]; v != 0 {
			n := w * 64
			for v != 0 {
				v >>= 1
				n++
			}
			return n
		}
	}
	return 0
}

// stand puts the sequence on path, holding its last node.
func (s *seq) stand(c *cells, path []int32) {
	c.release(s.tip(c))
	s.path = path
	c.hold(s.tip(c))
	clear(s.see)
	for _, n := range path {
		s.see[n/64] |= 1 << (n % 64)
	}
	copy(s.near, s.see)
	s.far = 0
}

// window moves the window of local layers so that it begins at path[from].
func (s *seq) window(from int) {
	from = max(0, min(from, len(s.path)))
	for ; s.far < from; s.far++ {
		n := s.path[s.far]
		s.near[n/64] &^= 1 << (n % 64)
	}
	for s.far > from {
		s.far--
		n := s.path[s.far]
		s.near[n/64] |= 1 << (n % 64)
	}
}

// step moves the sequence one node on.
func (s *seq) step(c *cells, n int32) {
	c.release(s.tip(c))
	s.path = append(s.path, n)
	c.hold(n)
	//rule:G12 TestSameTokens$ drop
	s.see[n/64] |= 1 << (n % 64)
	if s.near != nil {
		s.near[n/64] |= 1 << (n % 64)
	}
}

// mailbox carries tokens from the worker to the caller. The worker never waits: what the caller does not take stays here, and a sequence
// whose box is full is not given rows until there is room.
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
