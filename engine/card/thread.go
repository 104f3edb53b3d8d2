//go:build invariants && linux

package card

import "golang.org/x/sys/unix"

func threadID() int { return unix.Gettid() }
