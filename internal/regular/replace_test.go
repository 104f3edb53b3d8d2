package regular

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
)

// A file is replaced whole, and one that cannot be is left as it was, with nothing beside it.
func TestReplace(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "x")
	bad := errors.New("bad")
	for _, tt := range []struct {
		text string
		also []func(*os.File) error
		err  error
		want string
	}{
		{"one", nil, nil, "one"},
		{"two", nil, nil, "two"},
		{"three", []func(*os.File) error{func(*os.File) error { return bad }}, bad, "two"},
	} {
		if err := Replace(path, 0o640, []byte(tt.text), tt.also...); !errors.Is(err, tt.err) {
			t.Errorf("%s: %v", tt.text, err)
		}
		b, err := os.ReadFile(path)
		st, serr := os.Stat(path)
		if err != nil || serr != nil || string(b) != tt.want || st.Mode() != 0o640 {
			t.Errorf("%s: %q, %v, %v %v", tt.text, b, st.Mode(), err, serr)
		}
	}
	if all, err := os.ReadDir(dir); err != nil || len(all) != 1 {
		t.Errorf("%v, %v", all, err)
	}
	if err := Replace(filepath.Join(dir, "no", "x"), 0o640, nil); err == nil {
		t.Error("there is no such folder")
	}
}
