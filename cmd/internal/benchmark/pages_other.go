//go:build !linux

package benchmark

// forgetPages does nothing: what the system holds in memory of files is read from there.
func forgetPages(string) error { return nil }
