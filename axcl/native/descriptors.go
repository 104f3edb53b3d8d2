//go:build cgo && !fake && linux

package native

import (
	"os"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"
)

// The library opens the card's nodes so that a child process inherits them, and the driver keeps
// what a process holds on the card until the last copy of a descriptor is closed: a child that
// outlives us would hold the card and its memory. So every descriptor that appears while the
// library opens something is marked close-on-exec. Go's own are so from the beginning, whatever
// goroutine opens them meanwhile.

// alone runs a call that may open nodes and begins no child before what it left open is marked.
func alone(call func()) {
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	defer marked(descriptors())
	call()
}

// descriptors are this process's, with what each leads to.
func descriptors() map[int]string {
	entries, _ := os.ReadDir("/proc/self/fd")
	all := make(map[int]string, len(entries))
	for _, e := range entries {
		if n, err := strconv.Atoi(e.Name()); err == nil {
			all[n], _ = os.Readlink("/proc/self/fd/" + e.Name())
		}
	}
	return all
}

// marked makes all descriptors but the standard ones close-on-exec that are not among those of
// before.
func marked(before map[int]string) {
	for n, to := range descriptors() {
		if was, old := before[n]; n <= 2 || old && was == to {
			continue
		}
		if flags, err := unix.FcntlInt(uintptr(n), unix.F_GETFD, 0); err == nil && flags&unix.FD_CLOEXEC == 0 {
			_, _ = unix.FcntlInt(uintptr(n), unix.F_SETFD, flags|unix.FD_CLOEXEC)
		}
	}
}
