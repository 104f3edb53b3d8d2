//go:build !invariants

package card

func (c *Card) own() {}

// Disown: see invariants.go.
func (c *Card) Disown() {}

// Owned checks that the caller is on the worker's thread, in builds with the tag invariants: see
// invariants.go.
func (c *Card) Owned() {}
