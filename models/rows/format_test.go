package rows

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"slices"
	"testing"
)

var update = flag.Bool("update", false, "write testdata/folder anew, which forgets what earlier versions wrote")

// TestFormat: testdata/folder was written by an earlier version. Its block and its state are found
// under the names that this version gives them, and this version writes the same files, to the
// byte.
func TestFormat(t *testing.T) {
	const folder = "testdata/folder"
	owner := Owner{Package: "sha256-0123", Model: "qwen3:0.6b", Card: "axcl", Key: "ann", Row: 6, State: 10}
	ids := []int32{1, 2, 3, 300, 70_000, 6, 7, 8, 9, 10, -1}
	block, state := bytes.Repeat([]byte{1, 2, 3, 4, 5, 6}, 8), []byte("ten bytes.")
	keep := func(dir string) {
		t.Helper()
		d := open(t, Options{Dir: dir, Size: 1 << 20, Block: 8})
		s := d.Space(owner)
		keys := s.Keys(ids)
		if len(keys) != 1 {
			t.Fatalf("%d blocks", len(keys))
		}
		if err := s.Save(keys[0], block); err != nil {
			t.Fatal(err)
		}
		if err := s.SaveState(s.StateKey(ids, keys), block[:3*owner.Row], state); err != nil {
			t.Fatal(err)
		}
		if err := d.Close(); err != nil {
			t.Fatal(err)
		}
	}
	files := func(dir string) map[string][]byte {
		t.Helper()
		all := map[string][]byte{}
		paths, err := filepath.Glob(filepath.Join(dir, "*", "*"))
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range append(paths, filepath.Join(dir, "secret")) {
			b, err := os.ReadFile(p)
			if err != nil {
				t.Fatal(err)
			}
			name, _ := filepath.Rel(dir, p)
			all[name] = b
		}
		return all
	}
	if *update {
		if err := os.RemoveAll(folder); err != nil {
			t.Fatal(err)
		}
		keep(folder)
		for _, name := range []string{".lock", ".turn"} {
			if err := os.Remove(filepath.Join(folder, name)); err != nil {
				t.Fatal(err)
			}
		}
	}
	old := files(folder)
	if len(old) != 4 {
		t.Fatalf("%d files: a secret, a name, a block and a state", len(old))
	}
	lay := func(only ...string) (dir string) {
		t.Helper()
		dir = t.TempDir()
		for name, b := range old {
			if len(only) > 0 && !slices.Contains(only, name) {
				continue
			}
			to := filepath.Join(dir, name)
			if err := os.MkdirAll(filepath.Dir(to), 0o700); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(to, b, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		return dir
	}
	s := open(t, Options{Dir: lay(), Size: 1 << 20, Block: 8}).Space(owner)
	keys := s.Keys(ids)
	rows := make([]byte, len(block))
	if s.Find(keys) != 1 || !s.Load(keys[0], rows) || !bytes.Equal(rows, block) {
		t.Errorf("the block of an earlier version is not found, or is another: %v", rows)
	}
	k, ok := s.FindState(ids, keys)
	tail, got := make([]byte, 3*owner.Row), make([]byte, owner.State)
	if !ok || s.Length(k) != len(ids) || !s.LoadState(k, tail, got) || !bytes.Equal(tail, block[:len(tail)]) || !bytes.Equal(got, state) {
		t.Errorf("the state of an earlier version is not found, or is another: %v %q", tail, got)
	}
	dir := lay("secret")
	keep(dir)
	now := files(dir)
	for name, b := range old {
		if !bytes.Equal(now[name], b) {
			t.Errorf("%s is written as %x, an earlier version wrote %x", name, now[name], b)
		}
	}
	if len(now) != len(old) {
		t.Errorf("%d files are written, an earlier version wrote %d", len(now), len(old))
	}
}
