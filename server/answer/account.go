package answer

import (
	"github.com/axle-llm/axle/ask"
	"github.com/axle-llm/axle/server/access"
)

// account counts an answer's tokens for its key, as they come: an answer that is broken off has
// been paid for as far as it went. The zero account counts nothing.
type account struct {
	key    *access.Key
	seen   func(ask.Usage)
	prompt int // tokens of a prompt that was given to the card, before the first account of it
	last   ask.Usage
}

// event notes a prompt that is now evaluated, or how far the answer is.
func (a *account) event(e ask.Event) {
	if e.Begun > 0 {
		a.prompt = e.Begun
	}
	u := e.Usage
	if u.Prompt == 0 {
		return // no token has come yet
	}
	a.seen(u)
	a.key.Count(access.Tokens{Prompt: more(u.Prompt, a.last.Prompt), Cached: more(u.Cached, a.last.Cached),
		Output: more(u.Output, a.last.Output)})
	a.prompt, a.last = 0, u
}

// end counts a prompt whose answer never began: a client that leaves while it is evaluated has used
// the card all the same.
func (a *account) end() {
	a.key.Count(access.Tokens{Prompt: uint64(a.prompt)})
	a.prompt = 0
}

// more is how many there are more than before.
func more(now, before int) uint64 { return uint64(max(now-before, 0)) }
