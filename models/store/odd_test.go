package store

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/axle-llm/axle/internal/lane"
	"github.com/axle-llm/axle/internal/regular"
	"github.com/axle-llm/axle/models"
	"github.com/axle-llm/axle/models/modelstest"
)

// TestOddFiles: a pipe, a socket, a device or a folder in place of any file of a package blocks
// no reader and takes no memory, wherever a store reads it; a package that needs the file fails
// with an error that names it.
func TestOddFiles(t *testing.T) {
	//proves:T1
	lane.Slow(t)
	lane.NoRace(t)
	ctx := context.Background()
	for _, layout := range modelstest.Layouts {
		whole := t.TempDir()
		if err := modelstest.Write(whole, layout); err != nil {
			t.Fatal(err)
		}
		_ = fs.WalkDir(os.DirFS(whole), ".", func(file string, d fs.DirEntry, _ error) error {
			if d.IsDir() {
				return nil
			}
			for kind := range modelstest.Odd() {
				t.Run(layout+"/"+file+"/"+kind, func(t *testing.T) {
					t.Parallel()
					s, err := Open(Options{Dir: t.TempDir(), Paths: []string{odd(t, layout, file, kind)}})
					if err != nil {
						t.Fatal(err)
					}
					defer s.Close()
					if err := soon(t, "List", func() error { _, err := s.List(ctx); return err }); err != nil {
						t.Error(err)
					}
					var m *Model
					if err := soon(t, "Get", func() (err error) { m, err = s.Get("odd"); return err }); err != nil {
						if !errors.Is(err, ErrNotFound) {
							t.Error(err)
						}
						return // without that file it is no package
					}
					err = soon(t, "Open", func() error {
						p, err := m.Open()
						if err == nil {
							_, terr := p.Tokenizer()
							err = errors.Join(terr, p.Close())
						}
						return err
					})
					if err != nil && !strings.Contains(err.Error(), filepath.Base(file)) && !strings.Contains(err.Error(), "Odd") {
						t.Errorf("%v names no file", err)
					}
					used := !strings.HasPrefix(file, "prefill_axmodel/")
					needed := used && (strings.HasSuffix(file, ".axmodel") || strings.HasSuffix(file, ".bin") ||
						strings.HasSuffix(file, "tokenizer.txt"))
					if err == nil && needed && file != "qwen3_l1.axmodel" { // layout G has as many layers as there are files
						t.Error("opened without it")
					}
					_ = soon(t, "Verify", func() error { return s.Verify(ctx, "odd", nil) })
				})
			}
			return nil
		})
	}
}

// odd is a package of a layout below a folder of packages, with something that is no file in place
// of one of its files.
func odd(t *testing.T, layout, file, kind string) (paths string) {
	t.Helper()
	paths = t.TempDir()
	dir := filepath.Join(paths, "Odd")
	err := os.Mkdir(dir, 0o755)
	if err == nil {
		err = modelstest.Write(dir, layout)
	}
	name := filepath.Join(dir, filepath.FromSlash(file))
	if err == nil {
		err = os.Remove(name)
	}
	if err == nil {
		err = modelstest.Odd()[kind](name)
	}
	if errors.Is(err, syscall.EPERM) {
		t.Skip("this user may make no devices")
	}
	if err != nil {
		t.Fatal(err)
	}
	return paths
}

// soon fails the test when f does not come back.
func soon(t *testing.T, what string, f func() error) (err error) {
	t.Helper()
	done := make(chan error, 1)
	go func() { done <- f() }()
	select {
	case err = <-done:
	case <-time.After(time.Minute):
		t.Fatalf("%s waits", what)
	}
	return err
}

// TestOddSwap: what is swapped for a pipe once the package was looked through blocks no reader
// either.
func TestOddSwap(t *testing.T) {
	dir := t.TempDir()
	if err := modelstest.Write(dir, "A"); err != nil {
		t.Fatal(err)
	}
	p, err := models.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	for _, file := range p.Files() {
		name := filepath.Join(dir, file)
		if err := errors.Join(os.Remove(name), syscall.Mkfifo(name, 0o644)); err != nil {
			t.Fatal(err)
		}
		if err := soon(t, "Open", func() error { _, err := p.FS().Open(file); return err }); !errors.Is(err, regular.ErrNot) {
			t.Errorf("%s: %v", file, err)
		}
	}
}

// TestOddBlobs: a pipe in place of a blob, a manifest or a partial file blocks no one with
// the store's lock in hand.
func TestOddBlobs(t *testing.T) {
	ctx := context.Background()
	_, c := testHub(t)
	s := openStore(t)
	if err := s.Pull(ctx, "axle/two", c, nil); err != nil {
		t.Fatal(err)
	}
	var files []string
	_ = filepath.WalkDir(s.Dir(), func(name string, d fs.DirEntry, _ error) error {
		if d.Type().IsRegular() && strings.Contains(name, "sha256-") || strings.HasSuffix(name, "latest") {
			files = append(files, name)
		}
		return nil
	})
	if len(files) < 5 {
		t.Fatalf("files %v", files)
	}
	for _, name := range files {
		if err := errors.Join(os.Rename(name, name+".kept"), syscall.Mkfifo(name, 0o644)); err != nil {
			t.Fatal(err)
		}
		err := soon(t, name, func() error {
			_, _ = s.List(ctx)
			m, err := s.Get("axle/two")
			if err == nil {
				var p *models.Package
				if p, err = m.Open(); err == nil {
					_, err = p.Tokenizer()
					err = errors.Join(err, p.Close())
				}
			}
			return errors.Join(err, s.Verify(ctx, "axle/two", nil))
		})
		if err == nil {
			t.Errorf("%s: a pipe was taken for it", filepath.Base(name))
		}
		if err := os.Rename(name+".kept", name); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Verify(ctx, "axle/two", nil); err != nil {
		t.Error(err)
	}
}
