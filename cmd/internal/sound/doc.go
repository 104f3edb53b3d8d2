// Package sound is where the samples go that a server speaks: a [Player], or an [Encoder] that
// writes a file or a pipe. Both take them as they come.
//
// A Player or an Encoder belongs to one goroutine. Close of a Player waits for its program; an
// Encoder owns nothing.
package sound
