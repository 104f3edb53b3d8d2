//go:build cgo && !fake && !scripted && linux

package main

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// TestRowsLocked (D10): another process holds the lock of the rows on disk for ever. The server
// starts all the same, says in words that rows are off, answers, and ends in order. So does one
// whose rows have a secret that others can read.
func TestRowsLocked(t *testing.T) {
	//proves:D10 rows on disk that another process holds: a process
	for _, tt := range []struct {
		name, says string
		spoil      func(t *testing.T, dir string)
	}{
		{"held", "another process holds the lock", func(t *testing.T, dir string) {
			f, err := os.Create(filepath.Join(dir, ".lock"))
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = f.Close() })
			if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX); err != nil {
				t.Fatal(err)
			}
		}},
		{"read by others", "chmod 600", func(t *testing.T, dir string) {
			name := filepath.Join(dir, "secret")
			if err := errors.Join(os.WriteFile(name, make([]byte, 32), 0o600), os.Chmod(name, 0o644)); err != nil { // whatever the umask
				t.Fatal(err)
			}
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			u := newUnit(t, "--device", "soft", "--cache-disk", "64MB")
			dir := filepath.Join(u.dir, "models", "rows")
			if err := os.MkdirAll(dir, 0o700); err != nil {
				t.Fatal(err)
			}
			tt.spoil(t, dir)
			p := u.start()
			p.until("answers", func() bool { code, status := p.health(); return code == 200 && status == "ok" })
			if said := p.said(); !strings.Contains(said, "rows are no longer kept on disk") || !strings.Contains(said, tt.says) ||
				!strings.Contains(said, dir) {
				t.Errorf("the log does not say that rows are off, and why: %s", said)
			}
			if code := p.stop(); code != 0 {
				t.Errorf("it ended with %d", code)
			}
			p.quiet()
		})
	}
}
