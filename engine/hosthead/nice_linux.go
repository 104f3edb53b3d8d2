package hosthead

import (
	"runtime"

	"golang.org/x/sys/unix"
)

// Lower lets the card's worker and the server go before the calling goroutine, until it ends.
func Lower() {
	runtime.LockOSThread() // without unlocking: the thread ends with its niceness
	_ = unix.Setpriority(unix.PRIO_PROCESS, unix.Gettid(), 5)
}
