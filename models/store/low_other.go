//go:build !linux

package store

func lowPriority() {}
