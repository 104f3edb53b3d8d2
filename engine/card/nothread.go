//go:build invariants && !linux

package card

func threadID() int { return 0 }
