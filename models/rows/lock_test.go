package rows

import (
	"errors"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/axle-llm/axle/prefix"
)

// TestLockHeld: a folder whose lock another process does not give up is not waited for: it is told,
// and what is there is found. Nothing is kept until the lock is free.
func TestLockHeld(t *testing.T) {
	//proves:D10 rows on disk that another process holds
	dir := filepath.Join(t.TempDir(), "rows")
	now := time.Now()
	var told []error
	d := open(t, Options{Dir: dir, Size: 1 << 20, Now: func() time.Time { return now }, Off: func(err error) { t.Error(err) },
		Full: func(err error) { told = append(told, err) }})
	s, before, ids := d.Space(owner("a")), text(1, prefix.Shared), text(2, prefix.Shared)
	keep(t, s, before)
	f, err := os.Open(filepath.Join(dir, ".lock"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(Options{Dir: dir, Size: 1 << 20}); !errors.Is(err, ErrHeld) || !strings.Contains(err.Error(), dir) {
		t.Errorf("opened under another's lock: %v", err)
	}
	if err := s.Save(s.Keys(ids)[0], content(ids, 0)); !errors.Is(err, ErrHeld) || !d.Stats().Full || len(told) != 1 {
		t.Errorf("kept under another's lock: %v, %+v, told %v", err, d.Stats(), told)
	}
	if found(t, s, before) != 1 {
		t.Error("what was kept before is not found")
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_UN); err != nil {
		t.Fatal(err)
	}
	if err := s.Save(s.Keys(ids)[0], content(ids, 0)); !errors.Is(err, ErrFull) {
		t.Errorf("tried again at once: %v", err)
	}
	now = now.Add(fullFor)
	keep(t, s, ids)
	if d.Stats().Full || len(told) != 2 || told[1] != nil {
		t.Errorf("with the lock free: %+v, told %v", d.Stats(), told)
	}
}

// TestLockTurns: who holds the lock and wants it again at once gets it after the one that waits.
func TestLockTurns(t *testing.T) {
	//proves:D10 two processes that both want the lock
	dir := t.TempDir()
	lock := func() (func() error, error) {
		d, err := openFolder(dir, false)
		if err != nil {
			return nil, err
		}
		defer d.Close()
		d.(*folder).wait = time.Minute
		return d.Lock()
	}
	unlock, err := lock()
	if err != nil {
		t.Fatal(err)
	}
	order := make(chan string, 2)
	var wg sync.WaitGroup
	take := func(name string) {
		unlock, err := lock()
		if err == nil {
			order <- name
			err = unlock()
		}
		if err != nil {
			t.Error(err)
		}
	}
	wg.Go(func() { take("who waited") })
	turn, err := os.Open(filepath.Join(dir, ".turn"))
	if err != nil {
		t.Fatal(err)
	}
	defer turn.Close()
	limit := time.Now().Add(20 * time.Second)
	for syscall.Flock(int(turn.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) == nil { // until the other waits
		if time.Now().After(limit) {
			_ = unlock()
			wg.Wait()
			t.Fatal("who waits for the lock does not hold .turn")
		}
		if err := syscall.Flock(int(turn.Fd()), syscall.LOCK_UN); err != nil {
			t.Fatal(err)
		}
		runtime.Gosched()
	}
	if err := unlock(); err != nil {
		t.Fatal(err)
	}
	take("who had it")
	wg.Wait()
	if first := <-order; first != "who waited" {
		t.Errorf("%s gets it first", first)
	}
}

// TestRowsTwoServers: two servers share a folder, its limit and what either kept.
func TestRowsTwoServers(t *testing.T) {
	dir := t.TempDir()
	var wg sync.WaitGroup
	for n := range uint64(2) {
		f, err := openFolder(dir, true)
		if err != nil {
			t.Fatal(err)
		}
		f.(*folder).wait = time.Minute // on a machine that is busy with other work a change may take its time
		d := open(t, Options{disk: f, Size: testSize, Off: func(err error) { t.Error(err) }})
		for w := range uint64(2) {
			wg.Go(func() {
				s := d.Space(owner(""))
				rng := rand.New(rand.NewPCG(n, w))
				for range 60 {
					ids := text(rng.Uint64N(12), 3*prefix.Shared)
					if rng.IntN(2) == 0 {
						found(t, s, ids)
						continue
					}
					for i, k := range s.Keys(ids) {
						if err := s.Save(k, content(ids, i)); err != nil {
							t.Error(err)
						}
					}
				}
			})
		}
	}
	wg.Wait()
	if n := len(files(t, dir)); n > 20 || n < 15 {
		t.Errorf("%d blocks, 20 fit", n)
	}
	d := open(t, Options{Dir: dir, Size: testSize})
	hits := 0
	for i := range uint64(12) {
		hits += found(t, d.Space(owner("")), text(i, 3*prefix.Shared))
	}
	if hits == 0 || d.Stats().Damaged != 0 {
		t.Errorf("%d blocks are found, %+v", hits, d.Stats())
	}
}
