package rows

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
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

// TestFarForged: what a remote gives is used only if it is whole and was sealed with the same
// secret under that very name; what it fails with is told, and harms nothing.
func TestFarForged(t *testing.T) {
	//proves:G28 what a remote gives
	at := t.TempDir()
	from := &remote{Disk: open(t, Options{Dir: filepath.Join(at, "a"), Size: 1 << 20, Secret: shared})}
	ids := text(1, 3*prefix.Shared)
	keep(t, from.Space(owner("k")), ids)
	ctx := context.Background()
	other := open(t, Options{Dir: filepath.Join(at, "other"), Size: 1 << 20, Secret: bytes.Repeat([]byte{9}, 32)})
	keep(t, other.Space(owner("k")), ids)
	theirs, err := other.Sealed(sealedFiles(t, filepath.Join(at, "other"))[0])
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		spoil func([]byte) []byte
		err   error
		ok    bool
	}{
		"as it is":       {nil, nil, true},
		"a bit":          {func(b []byte) []byte { b[headerSize+3] ^= 1; return b }, nil, false},
		"its sum":        {func(b []byte) []byte { b[len(b)-1] ^= 1; return b }, nil, false},
		"its header":     {func(b []byte) []byte { b[headerSize-1] ^= 1; return b }, nil, false},
		"another's":      {func([]byte) []byte { return theirs }, nil, false},
		"cut":            {func(b []byte) []byte { return b[:len(b)-1] }, nil, false},
		"longer":         {func(b []byte) []byte { return append(b, 0) }, nil, false},
		"nothing":        {func([]byte) []byte { return nil }, nil, false},
		"with an error":  {nil, errors.New("no route to host"), false},
		"with its store": {nil, fs.ErrNotExist, false},
	} {
		from.spoil, from.err = c.spoil, c.err
		var told []error
		d := open(t, Options{Dir: filepath.Join(at, name), Size: 1 << 20, Secret: shared, Remote: from,
			Trouble: func(err error) { told = append(told, err) }})
		s := d.Space(owner("k"))
		keys := s.Keys(ids)
		for i, k := range keys {
			got := make([]byte, prefix.Shared*rowBytes)
			ok := s.LoadFar(ctx, k, got)
			if ok != c.ok || ok && !bytes.Equal(got, content(ids, i)) {
				t.Errorf("%s: block %d: %v", name, i, ok)
			}
		}
		if n := s.FindFar(ctx, keys, 1); n != map[bool]int{true: 3, false: 1}[c.err == nil] {
			t.Errorf("%s: %d blocks are found", name, n)
		}
		if want := !c.ok && !errors.Is(c.err, fs.ErrNotExist); (len(told) == 1) != want {
			t.Errorf("%s: told %v", name, told)
		}
		if stranger := d.Space(owner("another")); stranger.FindFar(ctx, stranger.Keys(ids), 0) != 0 {
			t.Errorf("%s: another key finds it", name)
		}
	}
}

// TestMirror: with Mirror each block that is saved is sent soon; without it only Push sends, and
// only what is not there.
func TestMirror(t *testing.T) {
	at := t.TempDir()
	for _, mirror := range []bool{true, false} {
		to := &remote{Disk: open(t, Options{Dir: filepath.Join(at, fmt.Sprint("to ", mirror)), Size: 1 << 20, Secret: shared})}
		d := open(t, Options{Dir: filepath.Join(at, fmt.Sprint("from ", mirror)), Size: 1 << 20, Secret: shared, Remote: to,
			Mirror: mirror})
		s, ids := d.Space(owner("")), text(1, 3*prefix.Shared)
		keep(t, s, ids)
		keys := s.Keys(ids)
		for mirror && to.Space(owner("")).Find(keys) < 3 {
			runtime.Gosched()
		}
		sent, err := s.Push(context.Background(), keys)
		if err != nil || sent != map[bool]int{true: 0, false: 3}[mirror] || found(t, to.Space(owner("")), ids) != 3 {
			t.Errorf("mirror %v: %d sent, %v", mirror, sent, err)
		}
		if err := d.Close(); err != nil {
			t.Error(err)
		}
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

// remote is another folder as a remote.
type remote struct {
	*Disk
	spoil func([]byte) []byte // what it gives instead; nil: what it has
	err   error               // what it fails with
}

func (r *remote) Name() string { return "remote" }

func (r *remote) Get(_ context.Context, name string, _ int64) ([]byte, error) {
	b, err := r.Sealed(name)
	if err == nil && r.spoil != nil {
		b = r.spoil(b)
	}
	return b, errors.Join(err, r.err)
}

func (r *remote) Put(_ context.Context, name string, data []byte) error {
	return errors.Join(r.err, r.Accept(name, data))
}

func (r *remote) Has(_ context.Context, names []string) (int, error) { return r.Disk.Has(names), r.err }
