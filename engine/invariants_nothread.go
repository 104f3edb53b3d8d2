//go:build invariants && !linux

package engine

func threadID() int { return 0 }
