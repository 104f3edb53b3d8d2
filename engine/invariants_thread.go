//go:build invariants && linux

package engine

import "golang.org/x/sys/unix"

func threadID() int { return unix.Gettid() }
