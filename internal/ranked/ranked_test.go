//go:build invariants

package ranked

import (
	"strings"
	"testing"

	"go.uber.org/goleak"
)

// TestOrder: the assertion fires for every order that could hang, and for none that cannot.
func TestOrder(t *testing.T) {
	var host Mutex[Host]
	var card, other Mutex[Card]
	var store RWMutex[Store]
	for _, tt := range []struct {
		name, want string
		f          func()
	}{
		{"downwards", "", func() {
			host.Lock()
			store.RLock()
			card.Lock()
			store.RUnlock()
			card.Unlock()
			host.Unlock()
		}},
		{"again", "", func() { host.Lock(); host.Unlock(); host.Lock(); host.Unlock(); None() }},
		{"upwards", "the lock of the host is taken by a goroutine that holds the lock of the card",
			func() { card.Lock(); defer card.Unlock(); host.Lock() }},
		{"two of a place", "the lock of the card is taken by a goroutine that holds the lock of the card",
			func() { card.Lock(); defer card.Unlock(); other.Lock() }},
		{"reading twice", "the lock of the store is taken by a goroutine that holds the lock of the store",
			func() { store.RLock(); defer store.RUnlock(); store.RLock() }},
		{"another's", "the lock of the host is given back by a goroutine that does not hold it", func() { host.Unlock() }},
		{"waiting", "a goroutine waits with the lock of the store in hand", func() { store.Lock(); defer store.Unlock(); None() }},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := broken(tt.f); !strings.HasSuffix(got, tt.want) || tt.want == "" && got != "" {
				t.Errorf("%q, want %q", got, tt.want)
			}
		})
	}
	if len(held.by) != 0 {
		t.Errorf("still held: %v", held.by)
	}
}

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// broken is what f panics with, on a goroutine of its own.
func broken(f func()) string {
	said := make(chan any)
	go func() {
		defer func() { said <- recover() }()
		f()
	}()
	s, _ := (<-said).(string)
	return s
}
