package rows

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/axle-llm/axle/prefix"
)

// TestStatesOnDisk (T17): a state is found at whatever row it is after, the longest first, of the
// same beginning only and by its own key; not where a block before it is missing. Files are their
// owner's, and a usage counts them.
func TestStatesOnDisk(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "rows")
	d := open(t, Options{Dir: dir, Size: 1 << 20})
	s, ids := d.Space(stateful("a")), text(1, 3*prefix.Shared+5)
	keep(t, s, ids)
	for _, n := range []int{1, prefix.Shared - 1, prefix.Shared, 2*prefix.Shared + 7, 3 * prefix.Shared} {
		keepState(t, s, ids[:n])
		if got := foundState(t, s, ids); got != n {
			t.Errorf("a state after %d rows: %d is the longest that is found", n, got)
		}
	}
	if got := foundState(t, s, ids[:2*prefix.Shared+6]); got != prefix.Shared {
		t.Errorf("in %d tokens the longest is after %d", 2*prefix.Shared+6, got)
	}
	fork := append([]int32(nil), ids...)
	fork[2*prefix.Shared+6]++
	if got := foundState(t, s, fork); got != prefix.Shared {
		t.Errorf("of a text that differs in row %d the longest is after %d", 2*prefix.Shared+6, got)
	}
	for name, change := range map[string]func(o *Owner){"package": func(o *Owner) { o.Package += "4" },
		"card": func(o *Owner) { o.Card = "axengine" }, "key": func(o *Owner) { o.Key = "b" }, "row": func(o *Owner) { o.Row-- },
		"state": func(o *Owner) { o.State++ }} {
		o := stateful("a")
		change(&o)
		if n := foundState(t, d.Space(o), ids); n != 0 {
			t.Errorf("another %s finds a state after %d rows", name, n)
		}
	}
	if err := os.Remove(filepath.Join(dir, filepath.FromSlash(s.file(s.Keys(ids)[1])))); err != nil {
		t.Fatal(err)
	}
	if got := foundState(t, s, ids); got != prefix.Shared {
		t.Errorf("without the second block the longest is after %d rows", got)
	}
	u, err := Look(dir)
	if err != nil || len(u) != 1 || u[0].Blocks != 2 || u[0].States != 5 {
		t.Errorf("%+v, %v", u, err)
	}
	err = filepath.WalkDir(dir, func(p string, e fs.DirEntry, err error) error {
		if st, _ := e.Info(); err == nil && !e.IsDir() && st.Mode().Perm() != 0o600 {
			t.Errorf("%s has mode %v", p, st.Mode())
		}
		return err
	})
	if freed, cleared := Clear(dir, nil); err != nil || cleared != nil || freed != u[0].Bytes {
		t.Errorf("%d bytes are cleared of %d, %v, %v", freed, u[0].Bytes, err, cleared)
	}
	k := s.StateKey(ids[:5], nil)
	if s.LoadState(k, nil, make([]byte, stateBytes)) || s.SaveState(k, nil, make([]byte, stateBytes)) == nil ||
		s.SaveState(k, make([]byte, 5*rowBytes), nil) == nil {
		t.Error("a state with too few rows, or none")
	}
}

const stateBytes = 100

func stateful(key string) Owner {
	o := owner(key)
	o.State = stateBytes
	return o
}

// stateOf is what a state's file holds: a matter of all tokens before it.
func stateOf(ids []int32) (rows, state []byte) {
	seed := uint64(3)
	for _, id := range ids {
		seed = seed*1000003 + uint64(id)
	}
	rng := rand.New(rand.NewPCG(seed, 2))
	b := make([]byte, len(ids)%prefix.Shared*rowBytes+stateBytes)
	for i := range b {
		b[i] = byte(rng.Uint32())
	}
	return b[:len(b)-stateBytes], b[len(b)-stateBytes:]
}

func keepState(t testing.TB, s *Space, ids []int32) {
	t.Helper()
	rows, state := stateOf(ids)
	if err := s.SaveState(s.StateKey(ids, s.Keys(ids)), rows, state); err != nil {
		t.Fatal(err)
	}
}

// foundState is after how many rows of the text the longest state is that is there, whole; what is
// there must be right.
func foundState(t testing.TB, s *Space, ids []int32) int {
	t.Helper()
	k, ok := s.FindState(ids, s.Keys(ids))
	if !ok {
		return 0
	}
	n := s.Length(k)
	rows, state := make([]byte, n%prefix.Shared*rowBytes), make([]byte, stateBytes)
	if !s.LoadState(k, rows, state) {
		return 0
	}
	if r, st := stateOf(ids[:n]); !bytes.Equal(r, rows) || !bytes.Equal(st, state) {
		t.Fatalf("the state after row %d of a text is another's, or damaged", n)
	}
	return n
}

// TestDamagedStates: with any byte changed, whatever is cut off or put behind, a state is not used,
// and not kept.
func TestDamagedStates(t *testing.T) {
	//proves:G20
	dir := t.TempDir()
	d := open(t, Options{Dir: dir, Size: 1 << 20})
	s, ids := d.Space(stateful("")), text(1, 7)
	keepState(t, s, ids)
	name := filepath.Join(dir, filepath.FromSlash(s.stateFile(s.StateKey(ids, nil))))
	whole, err := os.ReadFile(name)
	if err != nil || len(whole) != overhead+7*rowBytes+stateBytes {
		t.Fatalf("%d bytes, %v", len(whole), err)
	}
	try := func(what string, b []byte) {
		if err := os.WriteFile(name, b, 0o600); err != nil {
			t.Fatal(err)
		}
		if foundState(t, s, ids) != 0 {
			t.Fatalf("a state with %s is used", what)
		}
		if _, err := os.Stat(name); err == nil && len(b) == len(whole) {
			t.Fatalf("a state with %s is kept", what)
		}
	}
	for i := range whole {
		b := bytes.Clone(whole)
		b[i] ^= byte(1 << (i % 8))
		try(fmt.Sprintf("byte %d changed", i), b)
		b = bytes.Clone(whole)
		if clear(b[i:]); i%7 == 0 {
			try(fmt.Sprintf("%d bytes left", i), whole[:i])
			try(fmt.Sprintf("zeros from byte %d on", i), b)
		}
	}
	try("a byte more", append(bytes.Clone(whole), 0))
	other := text(2, 7)
	keepState(t, s, other)
	b, err := os.ReadFile(filepath.Join(dir, filepath.FromSlash(s.stateFile(s.StateKey(other, nil)))))
	if err != nil {
		t.Fatal(err)
	}
	try("another state's bytes", b)
	if err := os.WriteFile(name, whole, 0o600); err != nil || foundState(t, s, ids) != 7 || d.Stats().Off {
		t.Errorf("as it was, it is not used (%v), %+v", err, d.Stats())
	}
}

// TestStatesPowerCut: whichever operation fails, or whenever the power is cut, what is found
// afterwards is right, and states are kept again; what SaveState has said is kept lasts.
func TestStatesPowerCut(t *testing.T) {
	//proves:D13 kept rows
	rng := rand.New(rand.NewPCG(1, 1))
	size := 4*fileSize + 4*int64(overhead+stateBytes+9*rowBytes)
	look := func(what string, m *mem) (n int) {
		d := open(t, Options{Size: size, disk: m})
		s := d.Space(stateful(""))
		for i := range uint64(4) {
			if foundState(t, s, text(i, prefix.Shared+9)) != 0 {
				n++
			}
		}
		ids := text(8, prefix.Shared+9)
		keep(t, s, ids)
		keepState(t, s, ids)
		if foundState(t, s, ids) != len(ids) || d.Stats().Off {
			t.Fatalf("%s: the next server keeps nothing: %+v", what, d.Stats())
		}
		return n
	}
	life := func(m *mem) (last bool, err error) {
		d, err := Open(Options{Size: size, disk: m})
		if err != nil {
			return false, err
		}
		for i := range uint64(4) {
			s, ids := d.Space(stateful("")), text(i, prefix.Shared+9)
			rows, state := stateOf(ids)
			err = errors.Join(err, s.Save(s.Keys(ids)[0], content(ids, 0)), s.SaveState(s.StateKey(ids, s.Keys(ids)), rows, state))
			last = err == nil && i == 3
			foundState(t, s, ids)
		}
		return last, err
	}
	clean := newMem()
	if _, err := life(clean); err != nil {
		t.Fatal(err)
	}
	images, kept := 0, 0
	for at := 1; at <= clean.ops+1; at++ {
		m := newMem()
		m.failAt, m.err = at, syscall.ENOSPC
		if _, err := life(m); err != nil && !errors.Is(err, syscall.ENOSPC) && !errors.Is(err, ErrOff) {
			t.Fatalf("operation %d: %v", at, err)
		}
		m.failAt = 0
		look(fmt.Sprint("operation ", at), m)
		m = newMem()
		m.failAt, m.err, m.dead = at, errIO, true
		last, _ := life(m)
		for range 3 {
			n := look(fmt.Sprint("a cut at operation ", at), m.cut(rng))
			if kept, images = kept+n, images+1; last && n < 3 {
				t.Fatalf("a cut at operation %d: %d states of 4 are left", at, n)
			}
		}
	}
	if kept < images {
		t.Errorf("%d states found in %d images", kept, images)
	}
	t.Logf("%d operations; %d images, %d states found in them", clean.ops, images, kept)
}

// TestStatesLimit: states count within the limit to the byte, what was used longest ago goes first,
// and of what is used together the state before the rows.
func TestStatesLimit(t *testing.T) {
	now := time.Unix(1e9, 0)
	m := newMem()
	limit := 7*fileSize + 3*int64(overhead+stateBytes+9*rowBytes) - 300 // three texts, and nearly a block
	d := open(t, Options{Size: limit, disk: m, Now: func() time.Time { return now }})
	s := d.Space(stateful(""))
	for i := range uint64(8) {
		ids := text(i, 2*prefix.Shared+9)
		now = now.Add(time.Hour)
		keep(t, s, ids)
		keepState(t, s, ids)
		total := int64(0)
		for name, i := range m.names {
			if name != "secret" {
				total += int64(len(i.data))
			}
		}
		if total > limit {
			t.Fatalf("%d bytes, %d are the limit", total, limit)
		}
	}
	for i := range uint64(4) {
		ids, want := text(4+i, 2*prefix.Shared+9), 0
		if i > 0 {
			want = len(ids)
		}
		now = now.Add(time.Hour)
		if n := foundState(t, s, ids); n != want || i > 0 && found(t, s, ids) != 2 {
			t.Errorf("text %d: a state after %d rows is left, not %d", 4+i, n, want)
		}
	}
	now = now.Add(time.Hour)
	ids := text(9, prefix.Shared)
	keep(t, s, ids) // one file, for which the oldest goes
	old := text(5, 2*prefix.Shared+9)
	if n, k := foundState(t, s, old), s.Find(s.Keys(old)); n != 0 || k != 2 {
		t.Errorf("of the oldest text %d blocks are left and a state after %d rows", k, n)
	}
}
