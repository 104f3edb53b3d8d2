//go:build !invariants

package ranked

import "sync"

// Mutex is a sync.Mutex with a place.
type Mutex[P Place] struct{ sync.Mutex }

// RWMutex is a sync.RWMutex with a place.
type RWMutex[P Place] struct{ sync.RWMutex }

// None panics under the tag invariants if the calling goroutine holds a lock: it stands where
// something is waited for that may take long.
func None() {}
