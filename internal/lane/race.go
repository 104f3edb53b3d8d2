//go:build race

package lane

// Race says that the race detector is on, which makes code up to ten times slower.
const Race = true
