//go:build !linux

package hosthead

// Lower does nothing here.
func Lower() {}
