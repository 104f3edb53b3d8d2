//go:build race

package tokenizer

// raceOn: the detector slows tests tenfold, and those that compare a great deal in one goroutine have nothing for it to find.
const raceOn = true
