//go:build !invariants

package card

func (c *Card) own() {}

// Disown: see invariants.go.
func (c *Card) Disown() {}

// Owned is a look whether the worker's thread is the one that calls, which is built in under the
// tag invariants: see invariants.go.
func (c *Card) Owned() {}
