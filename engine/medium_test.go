package engine

import (
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/axle-llm/axle/engine/cache"
)

// TestMediumHandedIn (G20): whatever medium is handed in, the next engine has from it what one
// evaluated, rows alone and rows with a state, under the same key only; and says the same.
func TestMediumHandedIn(t *testing.T) {
	//proves:G20
	for name, card := range map[string]func() *fake{"rows": newFake, "states": func() *fake { return withStates(4) }} {
		t.Run(name, func(t *testing.T) {
			job := jobsFor(5, 1, fakeVocab, 60)[0]
			for len(job.IDs) < 50 {
				job.IDs = append(job.IDs, job.IDs...)
			}
			job.IDs, job.Limit = job.IDs[:50], 9
			want, _, err := run(onKept(t, card(), nil), job)
			if err != nil {
				t.Fatal(err)
			}
			medium := &shelves{kept: map[string][]byte{}, block: 8}
			for _, c := range []struct {
				key  string
				come bool
			}{{"", false}, {"", true}, {"other", false}} {
				var now atomic.Int64
				f := card()
				f.run = func(int) error { now.Add(int64(100 * time.Millisecond)); return nil }
				o := OpenOptions{CardOptions: still, Medium: medium}
				o.CardOptions.Clock = func() time.Duration { return time.Duration(now.Load()) }
				b := onFake(t, f, o)
				job.Key = c.key
				out, last, err := run(b, job)
				if err != nil || !slices.Equal(out, want) {
					t.Errorf("key %q: %v, %v; alone %v", c.key, out, err, want)
				}
				if last.Usage.Cached > 30 != c.come || last.Usage.Cached > 0 != c.come {
					t.Errorf("key %q: %d rows came back", c.key, last.Usage.Cached)
				}
				settleDisk(t, b)
				clean(t, b)
				if err := b.Close(); err != nil {
					t.Error(err)
				}
			}
		})
	}
}

// shelves is a medium in a map, as a program of another's might hand one in.
type shelves struct {
	mu    sync.Mutex
	kept  map[string][]byte
	block int
}

func (s *shelves) Block() int  { return s.block }
func (s *shelves) Size() int64 { return 1 << 30 }
func (s *shelves) Off() bool   { return false }
func (s *shelves) Text(o cache.Owner, ids []int32) cache.Text {
	return &shelved{s, o, ids}
}

type shelved struct {
	*shelves
	o   cache.Owner
	ids []int32
}

func (s *shelved) name(what string, n int) string { return fmt.Sprint(what, s.o, s.ids[:n]) }

func (s *shelved) get(name string, into ...[]byte) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	b, ok := s.kept[name]
	for _, to := range into {
		b = b[copy(to, b):]
	}
	return ok
}

func (s *shelved) put(name string, parts ...[]byte) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.kept[name] = slices.Concat(parts...)
	return nil
}

func (s *shelved) Found() int {
	n := s.Blocks() * s.block
	if s.o.State == 0 {
		return n
	}
	for end := min(len(s.ids), n+s.block-1); end > 0; end-- {
		if s.HasState(end) {
			return end
		}
	}
	return 0
}

func (s *shelved) Blocks() (n int) {
	for (n+1)*s.block <= len(s.ids) && s.get(s.name("rows", (n+1)*s.block)) {
		n++
	}
	return n
}

func (s *shelved) HasState(n int) bool { return s.get(s.name("state", n)) }
func (s *shelved) Load(i int, rows []byte) bool {
	return s.get(s.name("rows", (i+1)*s.block), rows)
}
func (s *shelved) LoadState(n int, rows, state []byte) bool {
	return s.get(s.name("state", n), rows, state)
}
func (s *shelved) Save(i int, rows []byte) error {
	return s.put(s.name("rows", (i+1)*s.block), rows)
}
func (s *shelved) SaveState(n int, rows, state []byte) error {
	return s.put(s.name("state", n), rows, state)
}
