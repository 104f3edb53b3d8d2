package rows

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/axle-llm/axle/prefix"
)

// shared is a secret of two servers.
var shared = bytes.Repeat([]byte{7}, 32)

// TestAccept: what one server has sealed another one with the same secret takes in, and finds it,
// blocks and states alike, though their folders are two.
func TestAccept(t *testing.T) {
	//proves:G28
	at := t.TempDir()
	a := open(t, Options{Dir: filepath.Join(at, "a"), Size: 1 << 20, Secret: shared})
	b := open(t, Options{Dir: filepath.Join(at, "b"), Size: 1 << 20, Secret: shared})
	ids := text(1, 3*prefix.Shared+5)
	keep(t, a.Space(stateful("k")), ids)
	keepState(t, a.Space(stateful("k")), ids)
	names := sealedFiles(t, filepath.Join(at, "a"))
	if len(names) != 4 || a.Has(names) != 4 || b.Has(names) != 0 {
		t.Fatalf("%d files; a has %d, b %d", len(names), a.Has(names), b.Has(names))
	}
	for _, name := range names {
		data, err := a.Sealed(name)
		if err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(b.Accept(name, data), b.Accept(name, data)); err != nil {
			t.Fatal(err)
		}
	}
	if n := foundState(t, b.Space(stateful("k")), ids); n != len(ids) {
		t.Errorf("%d rows of %d are found", n, len(ids))
	}
	for what, change := range map[string]func(o *Owner){"package": func(o *Owner) { o.Package += "4" },
		"card": func(o *Owner) { o.Card += "2" }, "key": func(o *Owner) { o.Key = "" }, "row": func(o *Owner) { o.Row-- },
		"state": func(o *Owner) { o.State-- }} {
		o := stateful("k")
		change(&o)
		if _, ok := b.Space(o).FindState(ids, b.Space(o).Keys(ids)); ok {
			t.Errorf("another %s finds it", what)
		}
	}
	if _, err := os.Stat(filepath.Join(at, "b", "secret")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a secret was made beside the one that was given: %v", err)
	}
}

// TestAcceptForged: a file that was cut, extended, changed in any part, sealed with another secret,
// or that comes under another's name, is refused, and nothing is kept of it.
func TestAcceptForged(t *testing.T) {
	//proves:G28 forged files
	at := t.TempDir()
	dir := filepath.Join(at, "a")
	a := open(t, Options{Dir: dir, Size: 1 << 20, Secret: shared})
	ids := text(1, 2*prefix.Shared)
	keep(t, a.Space(stateful("")), ids)
	keepState(t, a.Space(stateful("")), ids[:prefix.Shared+3])
	to := filepath.Join(at, "b")
	b := open(t, Options{Dir: to, Size: 1 << 20, Secret: shared})
	other := open(t, Options{Dir: filepath.Join(at, "c"), Size: 1 << 20, Secret: bytes.Repeat([]byte{8}, 32)})
	names := sealedFiles(t, dir)
	for i, name := range names {
		data, err := a.Sealed(name)
		if err != nil {
			t.Fatal(err)
		}
		bad := [][]byte{nil, data[:len(data)-1], data[:overhead], append(slices.Clone(data), 0), make([]byte, len(data))}
		for at := 0; at < len(data); at += 1 + len(data)/50 {
			c := slices.Clone(data)
			c[at] ^= 1
			bad = append(bad, c)
		}
		for _, c := range bad {
			if err := b.Accept(name, c); !errors.Is(err, ErrForged) {
				t.Errorf("%s, %d bytes: %v", name, len(c), err)
			}
		}
		wrong := names[(i+1)%len(names)]
		if err := b.Accept(wrong, data); !errors.Is(err, ErrForged) {
			t.Errorf("under another's name: %v", err)
		}
		if err := b.Accept(strings.TrimSuffix(name, stateEnd)+stateEnd, data); err != nil != !isState(name) {
			t.Errorf("%s as a state: %v", name, err)
		}
		if err := other.Accept(name, data); !errors.Is(err, ErrForged) {
			t.Errorf("with another secret: %v", err)
		}
	}
	for _, f := range sealedFiles(t, to) {
		if !isState(f) {
			t.Errorf("%s was kept", f)
		}
	}
}

// TestBlobNames: what is not the name of a block reaches no file.
func TestBlobNames(t *testing.T) {
	d := open(t, Options{Dir: filepath.Join(t.TempDir(), "rows"), Size: 1 << 20})
	dir, base := strings.Repeat("ab", 16), strings.Repeat("0c", 32)
	for _, name := range []string{"", "secret", ".lock", dir, dir + "/name", dir + "/../secret", "../" + dir + "/" + base,
		"/" + dir + "/" + base, dir + "/" + base + "/", dir + "/" + base + ".state.state", dir + "/" + strings.ToUpper(base),
		dir + "/" + base + "\x00", dir + "//" + base,
		dir[1:] + "/" + base, dir + "/" + base[1:], strings.Repeat("x", 1<<20)} {
		_, err := d.Sealed(name)
		if err == nil || errors.Is(err, fs.ErrNotExist) || len(err.Error()) > 300 {
			t.Errorf("%.80q: %v", name, err)
		}
		if err := d.Accept(name, make([]byte, 200)); err == nil || errors.Is(err, ErrForged) {
			t.Errorf("%.80q: %v", name, err)
		}
		if d.Has([]string{name}) != 0 {
			t.Errorf("%.80q is there", name)
		}
	}
	if _, err := d.Sealed(dir + "/" + base); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("%v", err)
	}
	if _, err := Open(Options{Dir: t.TempDir(), Size: 1, Secret: make([]byte, 31)}); err == nil || !strings.Contains(err.Error(), "32") {
		t.Errorf("a short secret: %v", err)
	}
}

// sealedFiles gives the names of all blocks and states of a folder.
func sealedFiles(t testing.TB, dir string) (names []string) {
	t.Helper()
	all, err := filepath.Glob(filepath.Join(dir, strings.Repeat("?", 32), "*"))
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range all {
		if name, err := filepath.Rel(dir, f); err == nil && IsName(name) {
			names = append(names, name)
		}
	}
	if len(names) == 0 {
		t.Fatal("there are no blocks")
	}
	return names
}
