//go:build invariants

package card

import (
	"fmt"
	"sync"
)

// owners are the OS threads that opened a card, by card.
var owners sync.Map

// own notes that the calling thread owns the card.
func (c *Card) own() { owners.Store(c, threadID()) }

// Disown ends the checks of Owned: the worker has ended, or a test replaces it.
func (c *Card) Disown() { owners.Delete(c) }

// Owned panics unless the calling thread is the card's owner (D16): the vendor's library binds its
// context to the thread that opened it.
func (c *Card) Owned() {
	if id, ok := owners.Load(c); ok && id != threadID() {
		panic(fmt.Sprintf("engine: invariant: the card of thread %v is used on thread %d", id, threadID()))
	}
}
