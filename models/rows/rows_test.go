package rows

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/axle-llm/axle/prefix"
)

// TestRowsRestart: what one process kept the next one finds, of the same beginning only, and only
// for the same package, card, key and row.
func TestRowsRestart(t *testing.T) {
	//proves:T17 on disk
	dir := filepath.Join(t.TempDir(), "rows")
	d := open(t, Options{Dir: dir, Size: 1 << 20})
	ids := text(1, 3*prefix.Shared+5)
	keep(t, d.Space(owner("a")), ids)
	if err := errors.Join(d.Close(), d.Close()); err != nil {
		t.Fatal(err)
	}
	d = open(t, Options{Dir: dir, Size: 1 << 20})
	if n := found(t, d.Space(owner("a")), ids); n != 3 {
		t.Errorf("%d blocks of 3 are found again", n)
	}
	fork := append([]int32(nil), ids...)
	fork[prefix.Shared+3]++
	if n := found(t, d.Space(owner("a")), fork); n != 1 {
		t.Errorf("of a text that differs in the second block %d blocks are found", n)
	}
	if n := found(t, d.Space(owner("a")), append([]int32{1}, ids...)); n != 0 {
		t.Errorf("of a text that begins elsewhere %d blocks are found", n)
	}
	for name, change := range map[string]func(o *Owner){"package": func(o *Owner) { o.Package += "4" },
		"card": func(o *Owner) { o.Card = "axengine" }, "key": func(o *Owner) { o.Key = "" },
		"row": func(o *Owner) { o.Row-- }, "a border that moved": func(o *Owner) { o.Card, o.Key = "axcla", "" }} {
		o := owner("a")
		change(&o)
		if s := d.Space(o); s.Find(s.Keys(ids)) != 0 {
			t.Errorf("another %s finds it", name)
		}
	}
	if got := d.Stats(); got.Hits != 4 || got.Misses < 5 || got.Read != 4*prefix.Shared*rowBytes || got.Off {
		t.Errorf("%+v", got)
	}
	if s := d.Space(owner("a")); s.Load(s.Keys(ids)[0], make([]byte, 5)) || s.Save(s.Keys(ids)[0], make([]byte, 5)) == nil {
		t.Error("a block of another size")
	}
}

// TestMain: the test binary keeps rows for ever when a test starts it again: something to kill.
func TestMain(m *testing.M) {
	if dir := os.Getenv("AXLE_TEST_ROWS"); dir != "" {
		seed, _ := strconv.ParseUint(os.Getenv("AXLE_TEST_SEED"), 10, 64)
		d, err := Open(Options{Dir: dir, Size: testSize})
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		fmt.Println("open")
		for n := seed; ; n++ {
			s, ids := d.Space(owner("")), text(n%40, 3*prefix.Shared)
			for i, k := range s.Keys(ids) {
				if err := s.Save(k, content(ids, i)); err != nil {
					fmt.Fprintln(os.Stderr, err)
					os.Exit(1)
				}
			}
		}
	}
	goleak.VerifyTestMain(m)
}

const (
	rowBytes = 24
	fileSize = int64(overhead + prefix.Shared*rowBytes)
	testSize = 20*fileSize + 100
)

func owner(key string) Owner {
	return Owner{Package: "sha256-0123", Model: "qwen3:0.6b", Card: "axcl", Key: key, Row: rowBytes}
}

// text is n tokens of a conversation.
func text(seed uint64, n int) []int32 {
	rng := rand.New(rand.NewPCG(seed, 1))
	ids := make([]int32, n)
	for i := range ids {
		ids[i] = rng.Int32N(1000)
	}
	return ids
}

// content is what the i-th block of a text holds: a matter of all tokens up to its end, as rows
// are.
func content(ids []int32, i int) []byte {
	seed := uint64(7)
	for _, id := range ids[:(i+1)*prefix.Shared] {
		seed = seed*1000003 + uint64(id)
	}
	rng := rand.New(rand.NewPCG(seed, 2))
	b := make([]byte, prefix.Shared*rowBytes)
	for k := range b {
		b[k] = byte(rng.Uint32())
	}
	return b
}

func open(t testing.TB, o Options) *Disk {
	t.Helper()
	d, err := Open(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = d.Close() })
	return d
}

// keep keeps all whole blocks of a text.
func keep(t testing.TB, s *Space, ids []int32) {
	t.Helper()
	for i, k := range s.Keys(ids) {
		if err := s.Save(k, content(ids, i)); err != nil {
			t.Fatal(err)
		}
	}
}

// found is how many blocks of a text are there from the first on; what is there must be right.
func found(t testing.TB, s *Space, ids []int32) int {
	t.Helper()
	keys := s.Keys(ids)
	n := s.Find(keys)
	for i, k := range keys[:n] {
		got := make([]byte, prefix.Shared*rowBytes)
		if !s.Load(k, got) {
			return i
		}
		if !bytes.Equal(got, content(ids, i)) {
			t.Fatalf("block %d of a text is another's, or damaged", i)
		}
	}
	return n
}

// files are all blocks in a real folder.
func files(t testing.TB, dir string) (all []string) {
	t.Helper()
	m, err := filepath.Glob(filepath.Join(dir, strings.Repeat("[0-9a-f]", 32), strings.Repeat("?", 64)))
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// TestKeysOnDisk (T17): of 1,000 keys that say the same, none finds what another one said; names
// tell nothing without the folder's secret.
func TestKeysOnDisk(t *testing.T) {
	//proves:T17 on disk: 1,000 keys
	m := newMem()
	d := open(t, Options{Size: 1 << 30, disk: m})
	ids := text(1, prefix.Shared)
	names := map[string]bool{}
	for i := range 1000 {
		s := d.Space(owner(fmt.Sprint("key ", i)))
		if n := s.Find(s.Keys(ids)); n != 0 {
			t.Fatalf("key %d finds what an earlier one said", i)
		}
		keep(t, s, ids)
		names[s.file(s.Keys(ids)[0])] = true
	}
	if len(names) != 1000 {
		t.Errorf("%d names", len(names))
	}
	for i := range 1000 {
		if n := found(t, d.Space(owner(fmt.Sprint("key ", i))), ids); n != 1 {
			t.Fatalf("key %d does not find its own", i)
		}
	}
	other := open(t, Options{Size: 1 << 30, disk: newMem()})
	if s := other.Space(owner("key 1")); names[s.file(s.Keys(ids)[0])] {
		t.Error("another folder has the same names")
	}
}

// TestDamagedRows: with any byte changed, whatever is cut off or put behind, a block is not used,
// and not kept.
func TestDamagedRows(t *testing.T) {
	//proves:D12 kept rows: each byte
	//proves:G20
	dir := t.TempDir()
	d := open(t, Options{Dir: dir, Size: 1 << 20})
	s, ids := d.Space(owner("")), text(1, prefix.Shared)
	k := s.Keys(ids)[0]
	keep(t, s, ids)
	name := filepath.Join(dir, filepath.FromSlash(s.file(k)))
	whole, err := os.ReadFile(name)
	if err != nil || int64(len(whole)) != fileSize {
		t.Fatalf("%d bytes, %v", len(whole), err)
	}
	got := make([]byte, prefix.Shared*rowBytes)
	try := func(what string, b []byte) {
		if err := os.WriteFile(name, b, 0o600); err != nil {
			t.Fatal(err)
		}
		if s.Load(k, got) {
			t.Fatalf("a block with %s is used", what)
		}
		if _, err := os.Stat(name); err == nil && len(b) == len(whole) {
			t.Fatalf("a block with %s is kept", what)
		}
	}
	for i := range whole {
		b := bytes.Clone(whole)
		b[i] ^= byte(1 << (i % 8))
		try(fmt.Sprintf("byte %d changed", i), b)
	}
	for n := 0; n < len(whole); n += 7 {
		try(fmt.Sprintf("%d bytes left", n), whole[:n])
		b := bytes.Clone(whole)
		clear(b[n:])
		try(fmt.Sprintf("zeros from byte %d on", n), b)
	}
	try("a byte more", append(bytes.Clone(whole), 0))
	swapped := text(2, prefix.Shared)
	keep(t, s, swapped)
	other, err := os.ReadFile(filepath.Join(dir, filepath.FromSlash(s.file(s.Keys(swapped)[0]))))
	if err != nil {
		t.Fatal(err)
	}
	try("another block's bytes", other)
	if err := os.WriteFile(name, whole, 0o600); err != nil || !s.Load(k, got) || !bytes.Equal(got, content(ids, 0)) {
		t.Errorf("as it was, it is not used (%v)", err)
	}
	if st := d.Stats(); st.Off || st.Damaged < int64(len(whole)) {
		t.Errorf("%+v", st)
	}
}

// TestRowsOwnerOnly: files and folders are their owner's, and nothing else lies there once a block
// is kept.
func TestRowsOwnerOnly(t *testing.T) {
	old := syscall.Umask(0)
	defer syscall.Umask(old)
	dir := filepath.Join(t.TempDir(), "rows")
	keep(t, open(t, Options{Dir: dir, Size: 1 << 20}).Space(owner("")), text(1, 2*prefix.Shared))
	n := 0
	err := filepath.WalkDir(dir, func(p string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		st, err := e.Info()
		if err != nil {
			return err
		}
		if want := map[bool]fs.FileMode{true: 0o700, false: 0o600}[e.IsDir()]; st.Mode().Perm() != want {
			t.Errorf("%s has mode %v", p, st.Mode())
		}
		n++
		return nil
	})
	if err != nil || n != 8 { // two folders, the locks, the secret, the name, two blocks
		t.Errorf("%d files and folders, %v", n, err)
	}
}

// TestRowsLimit: the limit holds to the byte, what was used longest ago goes first, and of one text
// its end before its beginning.
func TestRowsLimit(t *testing.T) {
	now := time.Unix(1e9, 0)
	m := newMem()
	d := open(t, Options{Size: testSize, disk: m, Now: func() time.Time { return now }})
	s := d.Space(owner(""))
	total := func() (n int64) {
		for name, i := range m.names {
			if name != "secret" {
				n += int64(len(i.data))
			}
		}
		return n
	}
	texts := map[int][]int32{}
	for i := range 10 { // five blocks each, twenty fit
		texts[i] = text(uint64(i), 5*prefix.Shared)
		now = now.Add(time.Hour)
		if i > 0 {
			if n := found(t, s, texts[0]); n != 5 {
				t.Errorf("after %d texts the one that is used all the time has %d blocks", i, n)
			}
		}
		keep(t, s, texts[i])
		if n := total(); n > testSize {
			t.Fatalf("%d bytes, %d are the limit", n, testSize)
		}
	}
	for i, want := range map[int]int{0: 5, 9: 5, 8: 5, 7: 5, 6: 0, 1: 0} {
		if n := found(t, s, texts[i]); n != want {
			t.Errorf("of text %d %d blocks are left, not %d", i, n, want)
		}
	}
	now = now.Add(time.Hour)
	keep(t, s, text(50, 2*prefix.Shared))
	left := 0
	for i := range 10 { // four were used at one time: the ends of two of them go
		if n := found(t, s, texts[i]); n == 4 {
			left++
		} else if n != 0 && n != 5 {
			t.Errorf("of text %d %d blocks are left", i, n)
		}
	}
	if left != 2 {
		t.Errorf("two blocks went, from the ends of %d texts", left)
	}
	small := open(t, Options{Size: fileSize + int64(len(owner("").Model)) - 1, disk: newMem()})
	s = small.Space(owner(""))
	keep(t, s, texts[0])
	if n := s.Find(s.Keys(texts[0])); n != 0 || small.Stats().Off {
		t.Errorf("a limit smaller than a block: %d found, %+v", n, small.Stats())
	}
	if _, err := Open(Options{disk: newMem()}); err == nil {
		t.Error("no limit at all is one")
	}
	m.free = reserve + 3*fileSize // the disk fills up by others' doing
	d.o.Size = 1 << 30
	s = d.Space(owner(""))
	keep(t, s, text(60, 3*prefix.Shared))
	m.free = reserve
	keep(t, s, text(61, 2*prefix.Shared))
	if n := found(t, s, text(61, 2*prefix.Shared)); n != 2 || d.Stats().Off {
		t.Errorf("on a disk that is full beside ours %d blocks were kept in place of older ones, %+v", n, d.Stats())
	}
}

// TestRowsFaults: whichever operation fails, the disk is switched off with one line or goes on, and
// what is found afterwards is right.
func TestRowsFaults(t *testing.T) {
	//proves:D13 kept rows
	life := func(m *mem) (lines []error, d *Disk, err error) {
		d, err = Open(Options{Size: 6*fileSize + 100, disk: m, Off: func(err error) { lines = append(lines, err) }})
		if err != nil {
			return nil, nil, err
		}
		for i := range uint64(4) {
			s, ids := d.Space(owner("")), text(i, 2*prefix.Shared)
			for b, k := range s.Keys(ids) {
				err = errors.Join(err, s.Save(k, content(ids, b)))
			}
			found(t, s, ids)
		}
		return lines, d, err
	}
	clean := newMem()
	if _, _, err := life(clean); err != nil {
		t.Fatal(err)
	}
	for at := 1; at <= clean.ops; at++ {
		for _, fault := range []error{syscall.ENOSPC, errIO, syscall.EROFS, syscall.ESTALE} {
			m := newMem()
			m.failAt, m.err = at, fault
			lines, d, err := life(m)
			switch {
			case d == nil && !errors.Is(err, fault):
				t.Fatalf("operation %d: %v", at, err)
			case d != nil && len(lines) > 1:
				t.Fatalf("operation %d: %d lines in the log", at, len(lines))
			case d != nil && errors.Is(fault, syscall.ENOSPC) && len(lines) == 0: // it may have been told by Full
			case d != nil && d.Stats().Off != (len(lines) == 1):
				t.Fatalf("operation %d: off without a line: %v", at, d.Stats())
			case d != nil && len(lines) == 1 && !errors.Is(lines[0], fault):
				t.Fatalf("operation %d: the line says %v", at, lines[0])
			}
			if d != nil && d.Stats().Off {
				s := d.Space(owner(""))
				before := m.ops
				if err := s.Save(s.Keys(text(9, prefix.Shared))[0], content(text(9, prefix.Shared), 0)); !errors.Is(err, ErrOff) ||
					found(t, s, text(0, prefix.Shared)) != 0 || m.ops != before {
					t.Fatalf("operation %d: switched off, and yet used (%v)", at, err)
				}
			}
			m.failAt = 0
			again := open(t, Options{Size: 6*fileSize + 100, disk: m})
			for i := range uint64(4) {
				found(t, again.Space(owner("")), text(i, 2*prefix.Shared))
			}
			keep(t, again.Space(owner("")), text(8, prefix.Shared))
			if n := found(t, again.Space(owner("")), text(8, prefix.Shared)); n != 1 {
				t.Fatalf("operation %d: the next server keeps nothing", at)
			}
		}
	}
	t.Logf("%d operations, each failed in four ways", clean.ops)
}

// TestRowsPowerCut: whatever a power cut leaves, at any point, the next server finds only what is
// right, and keeps rows again.
func TestRowsPowerCut(t *testing.T) {
	//proves:D13 kept rows: over 1,000 images
	rng := rand.New(rand.NewPCG(1, 1))
	ops, kept := 0, 0
	for at := 1; ; at++ {
		m := newMem()
		m.failAt, m.err, m.dead = at, errIO, true // nothing is done after it
		d, err := Open(Options{Size: 6*fileSize + 100, disk: m})
		if err == nil {
			for i := range uint64(4) {
				s, ids := d.Space(owner("")), text(i, 2*prefix.Shared)
				for b, k := range s.Keys(ids) {
					if err == nil {
						err = s.Save(k, content(ids, b))
					}
				}
			}
		}
		for range 8 {
			img := m.cut(rng)
			again, err := Open(Options{Size: 6*fileSize + 100, disk: img})
			if err != nil {
				t.Fatalf("operation %d: %v", at, err)
			}
			for i := range uint64(4) {
				kept += found(t, again.Space(owner("")), text(i, 2*prefix.Shared))
			}
			for name := range img.names {
				if strings.Contains(name, ".new-") && strings.Contains(name, "/") {
					t.Fatalf("operation %d: %s is left", at, name)
				}
			}
			keep(t, again.Space(owner("")), text(8, prefix.Shared))
			if n := found(t, again.Space(owner("")), text(8, prefix.Shared)); n != 1 || again.Stats().Off {
				t.Fatalf("operation %d: the next server keeps nothing", at)
			}
			_ = again.Close()
			ops++
		}
		if m.ops < at {
			break
		}
	}
	if ops < 1000 || kept < ops {
		t.Errorf("%d images, %d blocks found in them", ops, kept)
	}
	t.Logf("%d images, %d blocks found in them", ops, kept)
}

// TestRowsLast: a block that Save has said is kept is there after a power cut.
func TestRowsLast(t *testing.T) {
	//proves:D13 kept rows
	m := newMem()
	s := open(t, Options{Size: 1 << 20, disk: m}).Space(owner(""))
	keep(t, s, text(1, 3*prefix.Shared))
	rng := rand.New(rand.NewPCG(2, 2))
	for range 50 {
		if n := found(t, open(t, Options{Size: 1 << 20, disk: m.cut(rng)}).Space(owner("")), text(1, 3*prefix.Shared)); n != 3 {
			t.Fatalf("%d blocks of 3", n)
		}
	}
}

// TestRowsKilled: a server that is killed at any moment leaves nothing wrong, nothing unfinished
// that lasts, and no more than the limit.
func TestRowsKilled(t *testing.T) {
	//proves:D13 kept rows
	dir, loops := t.TempDir(), 40
	if testing.Short() {
		loops = 8
	}
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	rng := rand.New(rand.NewPCG(3, 3))
	hits := 0
	for i := range loops {
		cmd := exec.Command(exe)
		cmd.Env = append(os.Environ(), "AXLE_TEST_ROWS="+dir, "AXLE_TEST_SEED="+strconv.Itoa(i))
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		if _, err := out.Read(make([]byte, 8)); err != nil {
			t.Fatal(err)
		}
		// After this many changes of the folder: killing goes by what the server did, not by a
		// clock.
		was := files(t, dir)
		for n := 1 + rng.IntN(8); n > 0; {
			if now := files(t, dir); !slices.Equal(now, was) {
				was, n = now, n-1
			}
		}
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		d, err := Open(Options{Dir: dir, Size: testSize})
		if err != nil {
			t.Fatal(err)
		}
		for n := range uint64(40) {
			hits += found(t, d.Space(owner("")), text(n, 3*prefix.Shared))
		}
		all := files(t, dir)
		if left, _ := filepath.Glob(filepath.Join(dir, "*", ".new-*")); len(left) > 0 || len(all) > 20 || d.Stats().Damaged > 0 ||
			d.Stats().Off {
			t.Fatalf("after kill %d: %d blocks, %q left, %+v", i, len(all), left, d.Stats())
		}
		_ = d.Close()
	}
	if hits == 0 {
		t.Error("nothing was ever found")
	}
}

// TestRowsClear: what a folder holds is shown by package, and goes by package, for every key, or
// all of it; a server at work does not mind.
func TestRowsClear(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "rows")
	if u, err := Look(dir); err != nil || u != nil {
		t.Errorf("a folder that is not there: %v, %v", u, err)
	}
	if n, err := Clear(dir, nil); err != nil || n != 0 {
		t.Errorf("a folder that is not there: %d, %v", n, err)
	}
	now := time.Now()
	d := open(t, Options{Dir: dir, Size: 1 << 20, Off: func(err error) { t.Error(err) }, Now: func() time.Time { return now }})
	other := owner("b")
	other.Package, other.Model = "sha256-other", "gemma3:1b"
	keep(t, d.Space(other), text(3, prefix.Shared))
	now = now.Add(time.Hour)
	keep(t, d.Space(owner("a")), text(1, 2*prefix.Shared))
	keep(t, d.Space(owner("b")), text(1, 2*prefix.Shared))
	u, err := Look(dir)
	if err != nil || len(u) != 2 || u[0].Model != "qwen3:0.6b" || u[0].Blocks != 4 || u[0].Bytes != 4*fileSize+int64(len("qwen3:0.6b")) ||
		!u[0].Of("sha256-0123") || u[1].Of("sha256-0123") || u[1].Blocks != 1 {
		t.Fatalf("%+v, %v", u, err)
	}
	freed, err := Clear(dir, func(u Usage) bool { return u.Of("sha256-0123") })
	if err != nil || freed != u[0].Bytes {
		t.Errorf("%d bytes freed, %v", freed, err)
	}
	if a, b := found(t, d.Space(owner("a")), text(1, 2*prefix.Shared)), found(t, d.Space(other), text(3, prefix.Shared)); a != 0 || b != 1 {
		t.Errorf("%d blocks of the package that was cleared, %d of the other", a, b)
	}
	keep(t, d.Space(owner("a")), text(1, 2*prefix.Shared))
	if n := found(t, d.Space(owner("a")), text(1, 2*prefix.Shared)); n != 2 {
		t.Errorf("%d blocks are kept again", n)
	}
	if _, err := Clear(dir, nil); err != nil || len(files(t, dir)) != 0 {
		t.Errorf("%d files are left, %v", len(files(t, dir)), err)
	}
}

// TestOddRows: what somebody else put into the folder is never opened for what it is not, and does
// no harm.
func TestOddRows(t *testing.T) {
	dir := t.TempDir()
	canary := filepath.Join(t.TempDir(), "canary")
	if err := os.WriteFile(canary, []byte("canary"), 0o600); err != nil {
		t.Fatal(err)
	}
	d := open(t, Options{Dir: dir, Size: 1 << 20})
	s, ids := d.Space(owner("")), text(1, prefix.Shared)
	keep(t, s, ids)
	name := filepath.Join(dir, filepath.FromSlash(s.file(s.Keys(ids)[0])))
	if err := errors.Join(os.Remove(name), os.Symlink(canary, name), os.Mkdir(filepath.Join(dir, "notes"), 0o700),
		os.WriteFile(filepath.Join(dir, "notes", "x"), []byte("x"), 0o600)); err != nil {
		t.Fatal(err)
	}
	if n := found(t, s, ids); n != 0 {
		t.Errorf("%d blocks through a link", n)
	}
	keep(t, s, ids)
	if n := found(t, s, ids); n != 1 {
		t.Errorf("%d blocks after it was kept in the link's place", n)
	}
	if _, err := Clear(dir, nil); err != nil {
		t.Error(err)
	}
	if b, err := os.ReadFile(canary); err != nil || string(b) != "canary" {
		t.Errorf("the canary: %q, %v", b, err)
	}
	if _, err := os.Stat(filepath.Join(dir, "notes", "x")); err != nil {
		t.Error(err)
	}
}
