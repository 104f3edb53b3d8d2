package store

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// What pulls left is removed when it is no longer used, never while another process pulls,
// and no whole blob that an unreadable manifest may name.
func TestPruneBesidePull(t *testing.T) {
	_, c := testHub(t)
	s := openStore(t)
	other, err := Open(Options{Dir: s.Dir()}) // as another process has it
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	left := filepath.Join(s.Dir(), "blobs", "git-0123-partial")
	leave := func() {
		t.Helper()
		if err := os.MkdirAll(filepath.Dir(left), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(left, []byte("half"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	leave()
	asked := false
	err = s.Pull(context.Background(), "axle/one", c, func(p Progress) {
		asked = true
		if freed, err := other.Prune(-time.Hour); freed != 0 || err != nil {
			t.Errorf("during %q: freed %d, %v", p.Status, freed, err)
		}
	})
	if err != nil || !asked {
		t.Fatal(err)
	}
	// A pull that was killed leaves its announcement, which no process holds.
	dead := filepath.Join(s.Dir(), pullingPrefix+"dead")
	if err := os.WriteFile(dead, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if freed, err := other.Prune(time.Hour); freed != 0 || err != nil {
		t.Errorf("what is new: freed %d, %v", freed, err)
	}
	if freed, err := other.Prune(-time.Hour); freed != 4 || err != nil {
		t.Errorf("what is left: freed %d, %v", freed, err)
	}
	if list, _ := filepath.Glob(filepath.Join(s.Dir(), ".*ulling*")); len(list) > 0 {
		t.Errorf("announcements left: %v", list)
	}
	if err := s.Verify(context.Background(), "axle/one", nil); err != nil {
		t.Error(err)
	}
	// A manifest that cannot be read may name any blob.
	leave()
	list, err := filepath.Glob(filepath.Join(s.Dir(), "manifests", "*", "axle", "one", "latest"))
	if err != nil || len(list) != 1 {
		t.Fatal(list, err)
	}
	if err := os.WriteFile(list[0], bytes.Repeat([]byte{0}, 100), 0o644); err != nil {
		t.Fatal(err)
	}
	before := len(blobs(t, s))
	if freed, err := other.Prune(-time.Hour); freed != 4 || err != nil || len(blobs(t, s)) != before-1 {
		t.Errorf("beside a damaged manifest: freed %d of %d files, %v", freed, before-len(blobs(t, s)), err)
	}
}
