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

// none means no cell, or no token.
const none = cache.None

// seq is a sequence: a prompt, the answer so far, and the cells that hold them. The worker owns all
// of it except answer.
type seq struct {
	answer
	cache.Seq // where its rows are: Path has the cells of ids[:len(Path)]

	job        Job
	ids        []int32 // prompt and answer
	prompt     int     // number of ids that were given; they go in chunks
	sampler    *sampler.Sampler
	text       *tokenizer.Stream
	embed      *embedding
	greedy     bool // only the largest logit is needed
	repeatable bool // see repeatable.go

	standing
	relocation
	doubts
	seen
	spec   speculator
	shadow *seq  // in the draft model, if there is one
	stops  []int // lengths of the prompt at which its state is to be kept
	onDisk int   // unread rows of the prompt on disk: see disktier.go
	usage  Usage
	moments
}

// answer is what the worker and the caller share. Tokens go to the caller through the box, and gone
// tells the worker that the caller left.
type answer struct {
	ctx     context.Context
	gone    atomic.Bool // the caller left
	pleased atomic.Bool // and had all that it needed
	box     mailbox
}

// standing is the rank of a sequence among the others, and with whom it may share passes: see
// admit.go and adapters.go.
type standing struct {
	adapter int    // that its rows are computed with, from 1; 0: none
	admit   uint64 // order of admission: the youngest is preempted first
	served  uint64 // the last pass with a row of it
	begun   bool
	retried bool
	shifted bool     // it went back to the queue for lack of near cells: see shifts.go
	late    *lateRow // the host computes its head; nil: it does not
}

// relocation is the state of a sequence's rows in the layout and the RAM tier: see relocate.go.
type relocation struct {
	down       bool // it began on rows that lie too high, which may be moved down
	relocating bool // cells are being prepared for its prompt
	high       int  // number of ids that have been through the card before
}

// doubts says which of a sequence's logits are to be checked: see spoiled.go.
type doubts struct {
	doubt bool // check those of the next token
	sure  int  // the last token, counted from 0, whose logits were checked
}

// seen is the state of the pictures in a sequence's prompt: see encodercache.go.
type seen struct {
	pictures []pictureRows // where the prompt has pictures' rows, ascending
	pos      []uint32      // positions of the prompt's rows, where they differ from the indices
	lag      int           // how far the positions of later rows are behind their indices
	low      bool          // it begins on an empty card: its pictures found no near cells
}

// moments has the times at which a sequence was submitted, admitted, and produced its first token,
// by the card's clock.
type moments struct{ asked, started, first time.Duration }

// pending returns how many ids have not been through the card.
func (s *seq) pending() int { return len(s.ids) - len(s.Path) }

// mailbox carries tokens from the worker to the caller. The worker never waits: tokens that the
// caller does not take stay here, and a sequence whose box is full gets no rows until there is
// room.
type mailbox struct {
	mu     ranked.Mutex[ranked.Mailbox]
	tokens []Token
	err    error
	closed bool
	wake   chan struct{}
}

// boxRoom is how many tokens wait for a slow reader before the sequence pauses.
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

// take moves the waiting tokens into buf. It marks each token that another follows at once.
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
