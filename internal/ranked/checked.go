//go:build invariants

package ranked

import (
	"fmt"
	"runtime"
	"slices"
	"sync"
)

// held are the locks that each goroutine has, by its number. All of it is used again, so that a
// lock costs no allocation, which tests count.
var held struct {
	sync.Mutex
	by    map[uint64]*stack
	spare []*stack
	text  [32]byte
}

type stack struct {
	n     int
	locks [16]lock
}

type lock struct {
	rank int
	name string
	at   any
}

// mine is the calling goroutine's stack. The runtime tells its number in a trace only: "goroutine 7
// [running]".
func mine() (s *stack, g uint64) {
	for _, c := range held.text[len("goroutine "):runtime.Stack(held.text[:], false)] {
		if c < '0' || c > '9' {
			break
		}
		g = g*10 + uint64(c-'0')
	}
	if s = held.by[g]; s != nil {
		return s, g
	}
	if n := len(held.spare); n > 0 {
		s, held.spare = held.spare[n-1], held.spare[:n-1]
		return s, g
	}
	return &stack{}, g
}

// put keeps a goroutine's stack where it has locks.
func put(s *stack, g uint64) {
	if held.by == nil {
		held.by = map[uint64]*stack{}
	}
	if s.n > 0 {
		held.by[g] = s
		return
	}
	delete(held.by, g)
	held.spare = append(held.spare, s)
}

func of[P Place](at any) lock {
	var p P
	rank, name := p.place()
	return lock{rank, name, at}
}

// take notes that the goroutine is about to wait for l.
func take(l lock) {
	held.Lock()
	defer held.Unlock()
	h, g := mine()
	defer put(h, g)
	for _, had := range h.locks[:h.n] {
		if had.rank >= l.rank {
			panic(fmt.Sprintf("ranked: invariant: the lock of the %s is taken by a goroutine that holds the lock of the %s", l.name,
				had.name))
		}
	}
	h.locks[h.n] = l
	h.n++
}

// give notes that the goroutine has given l back.
func give(l lock) {
	held.Lock()
	defer held.Unlock()
	h, g := mine()
	defer put(h, g)
	i := slices.Index(h.locks[:h.n], l)
	if i < 0 {
		panic(fmt.Sprintf("ranked: invariant: the lock of the %s is given back by a goroutine that does not hold it", l.name))
	}
	copy(h.locks[i:], h.locks[i+1:h.n])
	h.n--
}

// None panics if the calling goroutine holds a lock: it stands where something is waited for that
// may take long.
func None() {
	held.Lock()
	defer held.Unlock()
	h, g := mine()
	defer put(h, g)
	if h.n > 0 {
		panic(fmt.Sprintf("ranked: invariant: a goroutine waits with the lock of the %s in hand", h.locks[0].name))
	}
}

// Mutex is a sync.Mutex with a place.
type Mutex[P Place] struct{ mu sync.Mutex }

func (m *Mutex[P]) Lock()   { take(of[P](m)); m.mu.Lock() }
func (m *Mutex[P]) Unlock() { give(of[P](m)); m.mu.Unlock() }

// RWMutex is a sync.RWMutex with a place. Reading twice at once is an order that is broken too: a
// writer between the two hangs both.
type RWMutex[P Place] struct{ mu sync.RWMutex }

func (m *RWMutex[P]) Lock()    { take(of[P](m)); m.mu.Lock() }
func (m *RWMutex[P]) Unlock()  { give(of[P](m)); m.mu.Unlock() }
func (m *RWMutex[P]) RLock()   { take(of[P](m)); m.mu.RLock() }
func (m *RWMutex[P]) RUnlock() { give(of[P](m)); m.mu.RUnlock() }
