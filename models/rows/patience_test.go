package rows

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/axle-llm/axle/prefix"
)

// TestStale: behind a stale handle, or one file that cannot be opened, a block is absent and the
// folder is opened anew; only many faults, one after the other, switch the disk off.
func TestStale(t *testing.T) {
	//proves:D13 kept rows behind stale handles
	ids := text(1, 2*prefix.Shared)
	for _, c := range []struct {
		op  string
		err error
	}{{"stat", syscall.ESTALE}, {"open", syscall.ESTALE}, {"open", syscall.EIO}, {"fstat", syscall.ESTALE}, {"read", syscall.ESTALE},
		{"read", syscall.ETIMEDOUT}, {"readdir", syscall.ESTALE}, {"write", syscall.ESTALE}, {"rename", syscall.ESTALE}} {
		t.Run(fmt.Sprint(c.op, " ", c.err), func(t *testing.T) {
			m := newMounts(1)[0]
			now, lines := time.Unix(1e9, 0), 0
			d := open(t, Options{Size: 1 << 20, disk: m, Now: func() time.Time { return now }, Off: func(error) { lines++ }})
			s := d.Space(owner(""))
			keep(t, s, ids)
			use := func() bool { // reads, and keeps what is new
				more := text(2, prefix.Shared)
				n := found(t, s, ids)
				return s.Save(s.Keys(more)[0], content(more, 0)) == nil && n == 2
			}
			bad := func(op, _ string) error {
				if op == c.op {
					return c.err
				}
				return nil
			}
			m.fault = bad
			for range 3 * mostFaults { // of one moment
				if use() {
					t.Fatal("all is well with a fault")
				}
			}
			m.fault = nil
			if !use() || m.reopened != 1 || d.Stats().Off {
				t.Fatalf("after the fault: reopened %d times, %+v", m.reopened, d.Stats())
			}
			for i := range 2 * mostFaults {
				now, m.fault = now.Add(faultEvery), bad
				use()
				if m.fault = nil; !use() {
					t.Fatalf("off after %d faults with successes in between", i+1)
				}
			}
			other := text(3, prefix.Shared)
			for i := range mostFaults {
				if lines != 0 || d.Stats().Off {
					t.Fatalf("off after %d faults", i)
				}
				now, m.fault = now.Add(faultEvery), bad
				switch c.op {
				case "readdir", "write", "rename":
					_ = s.Save(s.Keys(other)[0], content(other, 0))
				default:
					found(t, s, ids)
				}
			}
			m.fault = nil
			if lines != 1 || !d.Stats().Off || use() {
				t.Errorf("after %d faults: %d lines, %+v", mostFaults, lines, d.Stats())
			}
		})
	}
}

// TestReopen: a folder that is opened anew by its path is the one that lies there now.
func TestReopen(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "rows")
	d := open(t, Options{Dir: dir, Size: 1 << 20})
	s, ids := d.Space(owner("")), text(1, 2*prefix.Shared)
	keep(t, s, ids)
	for range 3 {
		if err := d.disk.Reopen(); err != nil || found(t, s, ids) != 2 {
			t.Fatalf("%v, %d blocks", err, found(t, s, ids))
		}
	}
	keep(t, s, text(2, prefix.Shared))
}

// TestHung: while a call to the file system hangs the disk counts as absent. Who asks waits for a
// limit once, and then not at all; all is found again when the call has ended; Close waits for
// nothing.
func TestHung(t *testing.T) {
	//proves:D10 rows on a file system that hangs
	ids := text(1, 2*prefix.Shared+5)
	for _, op := range []string{"stat", "open", "fstat", "read", "close"} {
		for _, closes := range []bool{false, true} {
			t.Run(fmt.Sprint(op, " ", closes), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					m := newMounts(1)[0]
					var told []error
					d := open(t, Options{Size: 1 << 20, disk: m, Slow: func(err error) { told = append(told, err) },
						Off: func(err error) { t.Error(err) }})
					s := d.Space(stateful(""))
					keep(t, s, ids)
					keepState(t, s, ids)
					keys, gate := s.Keys(ids), make(chan struct{})
					m.fault = func(at, _ string) error {
						if at == op {
							<-gate
						}
						return nil
					}
					name, to := s.file(keys[0]), bytes.Repeat([]byte{1}, prefix.Shared*rowBytes)
					calls := map[string]func() bool{
						"find":     func() bool { return s.Find(keys) > 0 },
						"state":    func() bool { _, ok := s.FindState(ids, keys); return ok },
						"hasstate": func() bool { return s.HasState(s.StateKey(ids, keys)) },
						"has":      func() bool { return d.Has([]string{name}) > 0 },
						"load":     func() bool { return s.Load(keys[0], to) },
						"sealed":   func() bool { _, err := d.Sealed(name); return !errors.Is(err, ErrSlow) },
					}
					first := "find"
					if op != "stat" {
						first = "load"
					}
					begun := time.Now()
					if calls[first]() || time.Since(begun) != patience || len(told) != 1 || !errors.Is(told[0], ErrSlow) {
						t.Fatalf("%s ends after %v, told %v", first, time.Since(begun), told)
					}
					for what, call := range calls {
						if call() || time.Since(begun) != patience {
							t.Errorf("%s gives something, or waits: %v", what, time.Since(begun))
						}
					}
					if err := s.Save(keys[0], content(ids, 0)); !errors.Is(err, ErrSlow) || d.Stats().Off {
						t.Errorf("keeping: %v, %+v", err, d.Stats())
					}
					if _, err := d.Room(); !errors.Is(err, ErrSlow) || time.Since(begun) != patience {
						t.Errorf("room: %v", err)
					}
					if closes {
						if err := d.Close(); err != nil || time.Since(begun) != patience || len(told) != 2 || !errors.Is(told[1], ErrSlow) {
							t.Errorf("closed after %v: %v, told %v", time.Since(begun), err, told)
						}
						close(gate)
						synctest.Wait()
						return
					}
					close(gate)
					synctest.Wait()
					if len(told) != 2 || told[1] != nil || slices.ContainsFunc(to, func(b byte) bool { return b != 1 }) {
						t.Errorf("told %v, or a buffer was written to that was the caller's again", told)
					}
					if n := foundState(t, s, ids); n != len(ids) {
						t.Errorf("%d of %d rows are found again", n, len(ids))
					}
				})
			})
		}
	}
}

// TestHungMany: however many ask, a bounded number of calls hangs; and each who asks waits no
// longer than the limit.
func TestHungMany(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, gate, inside := newMounts(1)[0], make(chan struct{}), 0
		d := open(t, Options{Size: 1 << 20, disk: m})
		s, ids := d.Space(owner("")), text(1, prefix.Shared)
		keep(t, s, ids)
		m.fault = func(string, string) error {
			m.server.mu.Lock()
			inside++
			m.server.mu.Unlock()
			<-gate
			return nil
		}
		var wg sync.WaitGroup
		for range 5 * mostCalls {
			wg.Go(func() {
				begun := time.Now()
				if s.Find(s.Keys(ids)) != 0 || time.Since(begun) > patience {
					t.Errorf("found, or after %v", time.Since(begun))
				}
			})
		}
		wg.Wait()
		synctest.Wait()
		if inside != mostCalls {
			t.Errorf("%d calls hang", inside)
		}
		close(gate)
		synctest.Wait()
		m.fault = nil
		if found(t, s, ids) != 1 || d.calls.Load() != 0 {
			t.Errorf("%d calls are left", d.calls.Load())
		}
	})
}

// TestHungSave: a change that hangs makes the disk count as absent until it ends.
func TestHungSave(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, gate := newMounts(1)[0], make(chan struct{})
		var mu sync.Mutex
		var all []error
		d := open(t, Options{Size: 1 << 20, disk: m, Slow: func(err error) {
			mu.Lock()
			defer mu.Unlock()
			all = append(all, err)
		}})
		told := func() []error {
			mu.Lock()
			defer mu.Unlock()
			return all
		}
		s, ids, more := d.Space(owner("")), text(1, prefix.Shared), text(2, prefix.Shared)
		keep(t, s, ids)
		m.fault = func(op, _ string) error {
			if op == "sync" {
				<-gate
			}
			return nil
		}
		saved := make(chan error)
		go func() { saved <- s.Save(s.Keys(more)[0], content(more, 0)) }()
		time.Sleep(savePatience - time.Second)
		if found(t, s, ids) != 1 || told() != nil {
			t.Errorf("a slow one: told %v", told())
		}
		time.Sleep(2 * time.Second)
		synctest.Wait()
		if found(t, s, ids) != 0 || len(told()) != 1 {
			t.Errorf("one that hangs: told %v", told())
		}
		close(gate)
		if err := <-saved; err != nil || found(t, s, ids)+found(t, s, more) != 2 || len(told()) != 2 || told()[1] != nil {
			t.Errorf("%v, told %v", err, told())
		}
	})
}

// TestFaultyBetween: two servers on one folder, with a file system between that gives stale
// handles, tears reads, is full, slow and hangs: never a wrong row, no call that waits longer than
// the limit, and in the end all is as it was.
func TestFaultyBetween(t *testing.T) {
	//proves:D13 kept rows on a faulty file system
	rounds := uint64(30)
	if testing.Short() {
		rounds = 6
	}
	hits, kept, slow, well := 0, 0, 0, 0
	var mu sync.Mutex
	for seed := range rounds {
		synctest.Test(t, func(t *testing.T) {
			mounts := newMounts(2)
			var wg sync.WaitGroup
			disks := make([]*Disk, 2)
			for n, m := range mounts {
				rng := rand.New(rand.NewPCG(seed, uint64(n)))
				one := func(n int) bool {
					mu.Lock()
					defer mu.Unlock()
					return rng.IntN(n) == 0
				}
				disks[n] = open(t, Options{Size: testSize, disk: m, Slow: func(err error) {
					if mu.Lock(); err != nil {
						slow++
					}
					mu.Unlock()
				}})
				m.torn = func() bool { return one(40) }
				m.fault = func(op, name string) error {
					asks := slices.Contains([]string{"stat", "open", "fstat", "read"}, op)
					switch {
					case one(200):
						return syscall.ESTALE
					case op == "open" && one(100):
						return syscall.EIO
					case strings.HasPrefix(filepath.Base(name), ".new-") && one(20):
						return syscall.ENOSPC
					case asks && one(100):
						time.Sleep(2 * patience) // hangs
					case one(10):
						time.Sleep(patience / 50)
					}
					return nil
				}
				for w := range uint64(2) {
					wg.Go(func() {
						s, rng := disks[n].Space(owner("")), rand.New(rand.NewPCG(seed, 10*w+uint64(n)))
						for range 60 {
							ids := text(rng.Uint64N(12), 3*prefix.Shared)
							if rng.IntN(2) == 0 {
								begun := time.Now()
								h := found(t, s, ids)
								if took := time.Since(begun); took > 4*patience { // a lookup, and three blocks
									t.Errorf("waited %v", took)
								}
								mu.Lock()
								hits += h
								mu.Unlock()
								continue
							}
							for i, k := range s.Keys(ids) {
								if s.Save(k, content(ids, i)) == nil {
									mu.Lock()
									kept++
									mu.Unlock()
								}
							}
						}
					})
				}
			}
			wg.Wait()
			time.Sleep(2 * fullFor) // what hangs ends, and full disks are tried again
			synctest.Wait()
			for _, m := range mounts {
				m.fault, m.torn = nil, nil
			}
			for n, d := range disks {
				if d.Stats().Off || disks[1-n].Stats().Off { // too many faults one after the other
					continue
				}
				ids := text(20+uint64(n), 2*prefix.Shared)
				keep(t, d.Space(owner("")), ids)
				if got := found(t, disks[1-n].Space(owner("")), ids); got != 2 {
					t.Errorf("the other server finds %d blocks of 2", got)
				}
				well++
			}
		})
	}
	t.Logf("%d blocks found, %d kept, hung %d times, %d servers go on", hits, kept, slow, well)
	if hits == 0 || kept == 0 || slow == 0 || well == 0 {
		t.Error("nothing was tried")
	}
}

// TestFarBesideHung: rows of a remote do not wait for the folder, and nothing that hangs there is
// written into them.
func TestFarBesideHung(t *testing.T) {
	from := &remote{Disk: open(t, Options{Dir: t.TempDir(), Size: 1 << 20, Secret: shared})}
	ids := text(1, prefix.Shared)
	keep(t, from.Space(owner("")), ids)
	synctest.Test(t, func(t *testing.T) {
		m, gate := newMounts(1)[0], make(chan struct{})
		d := open(t, Options{Size: 1 << 20, disk: m, Secret: shared, Remote: from})
		s, to := d.Space(owner("")), make([]byte, prefix.Shared*rowBytes)
		keep(t, s, ids)
		m.fault = func(op, _ string) error {
			if op == "read" {
				<-gate
			}
			return nil
		}
		m.torn = func() bool { return true } // what hangs ends with something else
		k := s.Keys(ids)[0]
		if s.Load(k, to) || !s.LoadFar(context.Background(), k, to) {
			t.Error("it does not come from the remote")
		}
		close(gate)
		synctest.Wait()
		if !bytes.Equal(to, content(ids, 0)) {
			t.Error("a wrong row")
		}
	})
}
