package rows

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/axle-llm/axle/prefix"
)

// TestFullDiskPasses: a full disk is told once and keeps nothing new, what is there is found, and
// once it has room again rows are kept as before, without a restart.
func TestFullDiskPasses(t *testing.T) {
	m := newMem()
	now := time.Now()
	var told []error
	d := open(t, Options{Size: testSize, disk: m, Off: func(err error) { t.Error(err) }, Full: func(err error) { told = append(told, err) },
		Now: func() time.Time { return now }})
	s, before, after := d.Space(owner("")), text(1, prefix.Shared), text(2, 2*prefix.Shared)
	keep(t, s, before)
	m.free = reserve - fileSize // whatever of ours goes
	for range 3 {
		if err := s.Save(s.Keys(after)[0], content(after, 0)); !errors.Is(err, ErrFull) {
			t.Fatalf("onto a full disk: %v", err)
		}
	}
	if len(told) != 1 || !errors.Is(told[0], syscall.ENOSPC) || !d.Stats().Full {
		t.Errorf("told %v, %+v", told, d.Stats())
	}
	now = now.Add(2 * time.Minute)
	keep(t, s, before) // it is there
	if err := s.Save(s.Keys(after)[0], content(after, 0)); !errors.Is(err, ErrFull) || len(told) != 1 || !d.Stats().Full {
		t.Errorf("what is there already makes no room: %v, told %v, %+v", err, told, d.Stats())
	}
	m.free = -1
	ops := m.ops
	if err := s.Save(s.Keys(after)[0], content(after, 0)); !errors.Is(err, ErrFull) || m.ops != ops {
		t.Errorf("at once it is tried again: %v, %d operations", err, m.ops-ops)
	}
	now = now.Add(2 * time.Minute)
	keep(t, s, after)
	if len(told) != 2 || told[1] != nil || d.Stats().Full || d.Stats().Off || found(t, s, after) != 2 {
		t.Errorf("told %v, %+v", told, d.Stats())
	}
}

// TestYield: rows give way to others who need room, what was used longest ago first, and no more of
// them than that takes.
func TestYield(t *testing.T) {
	//proves:D11
	now := time.Now()
	d := open(t, Options{Dir: filepath.Join(t.TempDir(), "rows"), Size: testSize,
		Now: func() time.Time { now = now.Add(time.Second); return now }})
	s := d.Space(owner(""))
	for i := range uint64(6) {
		keep(t, s, text(i, prefix.Shared))
	}
	if freed := d.Yield(2*fileSize - 1); freed != 2*fileSize {
		t.Errorf("%d bytes freed, a file has %d", freed, fileSize)
	}
	for i := range uint64(6) {
		if n := found(t, s, text(i, prefix.Shared)); (n == 1) != (i >= 2) {
			t.Errorf("text %d: %d blocks are found", i, n)
		}
	}
	if freed := d.Yield(1 << 40); freed != 4*fileSize || d.Yield(1) != 0 || d.Yield(-1) != 0 {
		t.Errorf("%d bytes freed", freed)
	}
	keep(t, s, text(9, prefix.Shared))
}

// TestOpenSecret: a secret that others can read is refused as key files are, with what to do.
func TestOpenSecret(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "rows")
	d := open(t, Options{Dir: dir, Size: testSize})
	keep(t, d.Space(owner("")), text(1, prefix.Shared))
	name := filepath.Join(dir, "secret")
	for mode, refused := range map[os.FileMode]bool{0o600: false, 0o400: false, 0o640: true, 0o604: true, 0o660: true} {
		if err := os.Chmod(name, mode); err != nil {
			t.Fatal(err)
		}
		d, err := Open(Options{Dir: dir, Size: testSize})
		if refused != (err != nil) || err != nil && (!strings.Contains(err.Error(), dir) || !strings.Contains(err.Error(), "chmod 600")) {
			t.Errorf("mode %#o: %v", mode, err)
		}
		if err == nil {
			_ = d.Close()
		}
	}
}
