package folder

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/axle-llm/axle/internal/regular"
)

// TestRoot: files and folders are made for whom they are, nothing leads out, and no pipe is opened.
func TestRoot(t *testing.T) {
	dir := t.TempDir()
	for _, c := range []struct{ file, folder fs.FileMode }{{0o600, 0o700}, {0o644, 0o755}} {
		top := filepath.Join(dir, c.file.String())
		if err := os.Mkdir(top, 0o755); err != nil {
			t.Fatal(err)
		}
		r, err := Open(top, c.file)
		if err != nil {
			t.Fatal(err)
		}
		defer r.Close()
		if err := errors.Join(r.Mkdir("a"), r.Mkdir("a"), Write(disk{r}, "a/new", "a/b", []byte("1"), []byte("2"))); err != nil {
			t.Fatal(err)
		}
		if st, err := r.Stat("a"); err != nil || st.Mode().Perm() != c.folder {
			t.Errorf("a folder: %v, %v", st, err)
		}
		if st, err := r.Stat("a/b"); err != nil || st.Mode().Perm() != c.file {
			t.Errorf("a file: %v, %v", st, err)
		}
		f, err := r.Open("a/b")
		if err != nil {
			t.Fatal(err)
		}
		if data, err := io.ReadAll(f); err != nil || string(data) != "12" {
			t.Errorf("read %q, %v", data, err)
		}
		_ = f.Close()
		if list, err := r.ReadDir("a"); err != nil || len(list) != 1 {
			t.Errorf("in the folder: %v, %v", list, err)
		}
		if err := errors.Join(os.Symlink("/etc", r.Path("out")), syscall.Mkfifo(r.Path("pipe"), 0o644)); err != nil {
			t.Fatal(err)
		}
		if _, err := r.Open("out/passwd"); err == nil {
			t.Error("a link leads out")
		}
		if _, err := r.Open("pipe"); !errors.Is(err, regular.ErrNot) {
			t.Errorf("a pipe: %v", err)
		}
		if _, err := r.Create("pipe"); !errors.Is(err, regular.ErrNot) {
			t.Errorf("a pipe to write: %v", err)
		}
		if err := r.Mkdir("a/b"); err == nil {
			t.Error("a folder in place of a file")
		}
	}
}

// TestLock: one holds a lock at a time, and a file that is not there is no lock.
func TestLock(t *testing.T) {
	r, err := Open(t.TempDir(), 0o600)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if _, err := r.Lock("lock", false, time.Now()); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("no file: %v", err)
	}
	f, err := r.Lock("lock", true, time.Time{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := r.Lock("lock", true, time.Now()); !errors.Is(err, ErrHeld) {
		t.Errorf("held: %v", err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	if f, err = r.Lock("lock", false, time.Now().Add(time.Minute)); err != nil {
		t.Fatal(err)
	}
	_ = f.Close()
}

type disk struct{ *Root }

func (disk) Lock() (func() error, error) { return nil, nil }
