//go:build linux || darwin

package compile

import "golang.org/x/sys/unix"

// freeBytes is what a user may still write below dir.
func freeBytes(dir string) (int64, bool) {
	var s unix.Statfs_t
	if unix.Statfs(dir, &s) != nil {
		return 0, false
	}
	return int64(s.Bavail) * int64(s.Bsize), true
}
