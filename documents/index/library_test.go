package index

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/axle-llm/axle/internal/folder"
)

// TestLibrary: what was taken in is found, also after a start, and by its owner alone.
func TestLibrary(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "documents")
	l := open(t, dir, Limits{})
	s := of(t, l, "ann")
	file := add(t, s, "cards.md", "# Cards\n\nA card has memory.\n\n# Heat\n\nA hot card is slow.\n")
	c, err := s.Create(Collection{Name: "docs"})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Attach(c.ID, file.ID, map[string]any{"a": "b"}, Cutting{}); err != nil {
		t.Fatal(err)
	}
	if err := s.Index(t.Context(), c.ID, file.ID, plain); err != nil {
		t.Fatal(err)
	}
	look := func(l *Library) {
		t.Helper()
		s := of(t, l, "ann")
		found, err := s.Find(t.Context(), []string{c.ID}, "Why is it hot?", Looking{})
		if err != nil || len(found) != 1 || found[0].Heading != "Heat" || found[0].Text != "# Heat\n\nA hot card is slow." ||
			found[0].Attributes["a"] != "b" || found[0].Name != "cards.md" {
			t.Errorf("%+v %v", found, err)
		}
		bob := of(t, l, "bob")
		if _, err := bob.Find(t.Context(), []string{c.ID}, "hot", Looking{}); !errors.Is(err, ErrNotFound) || len(bob.Files()) != 0 {
			t.Errorf("another owner: %v, %v", bob.Files(), err)
		}
	}
	look(l)
	if _, err := OpenLibrary(dir, Limits{}); !errors.Is(err, folder.ErrHeld) {
		t.Errorf("a second process: %v", err)
	}
	if st, err := os.Stat(dir); err != nil || st.Mode().Perm() != 0o700 {
		t.Errorf("the folder: %v %v", st.Mode(), err)
	}
	if err := l.Close(); err != nil {
		t.Error(err)
	}
	l = open(t, dir, Limits{})
	look(l)
	used := of(t, l, "ann").Used()
	if have := onDisk(t, dir); have != used {
		t.Errorf("%d bytes are counted, %d are there", used, have)
	}
	s = of(t, l, "ann")
	if err := s.Delete(c.ID); err != nil {
		t.Error(err)
	}
	if err := s.DeleteFile(file.ID); err != nil {
		t.Error(err)
	}
	if have := onDisk(t, dir); have != 0 || s.Used() != 0 {
		t.Errorf("%d bytes of what was deleted are there, %d are counted", have, s.Used())
	}
	if err := s.DeleteFile(file.ID); !errors.Is(err, ErrNotFound) {
		t.Error(err)
	}
}

func TestLibraryFull(t *testing.T) {
	//proves:T7 documents
	l := open(t, t.TempDir(), Limits{Bytes: 4000, File: 3000, Files: 3, Collections: 1})
	s := of(t, l, "ann")
	for _, c := range []struct {
		bytes int
		want  error
	}{{3001, ErrTooLarge}, {2500, nil}, {1500, ErrFull}, {200, nil}, {200, nil}, {1, ErrFull}} {
		_, err := s.AddFile("a", strings.NewReader(strings.Repeat("x", c.bytes)), assistants)
		if !errors.Is(err, c.want) || (err == nil) != (c.want == nil) {
			t.Errorf("%d bytes: %v, want %v", c.bytes, err, c.want)
		}
	}
	if _, err := of(t, l, "bob").AddFile("a", strings.NewReader("x"), assistants); err != nil {
		t.Errorf("another owner: %v", err)
	}
	c, err := s.Create(Collection{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Create(Collection{}); !errors.Is(err, ErrFull) {
		t.Errorf("one vector store too many: %v", err)
	}
	big := s.Files()[slices.IndexFunc(s.Files(), func(f File) bool { return f.Bytes == 2500 })]
	if _, err := s.Attach(c.ID, big.ID, nil, Cutting{}); err != nil {
		t.Fatal(err)
	}
	if err := s.Index(t.Context(), c.ID, big.ID, plain); !errors.Is(err, ErrFull) {
		t.Errorf("a text beyond the room: %v", err)
	}
}

// TestLibraryOther: a folder of other files is refused and left as it is, and what somebody puts
// beside the owners' folders is left alone.
func TestLibraryOther(t *testing.T) {
	dir := t.TempDir()
	letter := filepath.Join(dir, "letters", "home.pdf")
	err := errors.Join(os.Mkdir(filepath.Dir(letter), 0o755), os.WriteFile(letter, []byte("dear"), 0o644), os.Chmod(dir, 0o755))
	if err != nil {
		t.Fatal(err)
	}
	if l, err := OpenLibrary(dir, Limits{}); err == nil || !strings.Contains(err.Error(), `"letters"`) {
		t.Errorf("it was opened: %v %v", l, err)
	}
	if st, err := os.Stat(dir); err != nil || st.Mode().Perm() != 0o755 {
		t.Errorf("its mode: %v %v", st.Mode(), err)
	}
	if err := os.WriteFile(filepath.Join(dir, lockFile), nil, 0o600); err != nil { // as if a Library had been here first
		t.Fatal(err)
	}
	l := open(t, dir, Limits{})
	add(t, of(t, l, "ann"), "a.md", "text")
	if list, err := l.All(); err != nil || len(list) != 1 {
		t.Errorf("%d owners, want one: %v", len(list), err)
	}
	if b, err := os.ReadFile(letter); err != nil || string(b) != "dear" {
		t.Errorf("the letter: %q %v", b, err)
	}
	empty := t.TempDir() // a new disk, and what desktops leave
	err = errors.Join(os.Mkdir(filepath.Join(empty, "lost+found"), 0o700), os.WriteFile(filepath.Join(empty, ".DS_Store"), nil, 0o600))
	if err != nil {
		t.Fatal(err)
	}
	open(t, empty, Limits{})
}

// TestLibraryGone: where one of the texts that were found is gone meanwhile, the others are given.
func TestLibraryGone(t *testing.T) {
	s := of(t, open(t, t.TempDir(), Limits{}), "ann")
	c, err := s.Create(Collection{})
	if err != nil {
		t.Fatal(err)
	}
	var files []File
	for _, text := range []string{"a hot card", "a hot fan"} {
		f := add(t, s, "a.md", text)
		if _, err = s.Attach(c.ID, f.ID, nil, Cutting{}); err == nil {
			err = s.Index(t.Context(), c.ID, f.ID, plain)
		}
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, f)
	}
	s.mu.Lock()
	err = s.remove(files[0].ID + textSuffix)
	s.mu.Unlock()
	if err != nil {
		t.Fatal(err)
	}
	found, err := s.Find(t.Context(), []string{c.ID}, "hot", Looking{})
	if err != nil || len(found) != 1 || found[0].File != files[1].ID {
		t.Errorf("%+v %v", found, err)
	}
}

// TestLibraryFailFull: a file that cannot be read has failed, though there is no room to write that
// down: a client that waits for it ends. A vector store that there is no room for leaves nothing.
func TestLibraryFailFull(t *testing.T) {
	s := of(t, open(t, t.TempDir(), Limits{}), "ann")
	c, err := s.Create(Collection{})
	if err != nil {
		t.Fatal(err)
	}
	f := add(t, s, "a.md", "text")
	if _, err := s.Attach(c.ID, f.ID, nil, Cutting{}); err != nil {
		t.Fatal(err)
	}
	s.used = s.lib.Bytes
	if err := s.Fail(c.ID, f.ID, "invalid_file", "it is blank"); !errors.Is(err, ErrFull) {
		t.Errorf("%v, want that it is full", err)
	}
	if e, err := s.Entry(c.ID, f.ID); err != nil || e.Status != Failed || e.Message != "it is blank" {
		t.Errorf("%+v %v", e, err)
	}
	if c, err := s.Create(Collection{}); !errors.Is(err, ErrFull) {
		t.Errorf("a vector store without room: %v", err)
	} else if _, err := s.lib.disk.Stat(s.at(c.ID)); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("its folder stays: %v", err)
	}
}

// TestDeletedMeanwhile: nothing of a file that is deleted while it is read stays.
func TestDeletedMeanwhile(t *testing.T) {
	//proves:T17 documents that are deleted
	dir := t.TempDir()
	s := of(t, open(t, dir, Limits{}), "ann")
	file := add(t, s, "a.md", "text")
	for name, remove := range map[string]func(c string) error{
		"vector store": s.Delete,
		"attachment":   func(c string) error { return s.Detach(c, file.ID) },
		"file":         func(string) error { return s.DeleteFile(file.ID) },
	} {
		if name == "file" {
			continue // the last one, below
		}
		deleteMeanwhile(t, s, file, remove)
	}
	deleteMeanwhile(t, s, file, func(string) error { return s.DeleteFile(file.ID) })
	for _, id := range s.Collections() {
		if err := s.Delete(id); err != nil {
			t.Error(err)
		}
	}
	if have := onDisk(t, dir); have != 0 {
		t.Errorf("%d bytes stay", have)
	}
}

// TestLibraryCut: whatever operation the process dies in, a start finds each file, text and index
// whole or not at all, and what was answered for is there.
func TestLibraryCut(t *testing.T) {
	//proves:D13 documents
	for cut := 0; ; cut++ {
		dir := t.TempDir()
		root, err := folder.Open(dir, 0o600)
		if err != nil {
			t.Fatal(err)
		}
		d := &dying{Disk: rooted{root}, left: cut}
		l, err := newLibrary(d, Limits{})
		if err != nil {
			t.Fatal(err)
		}
		done := life(t, of(t, l, "ann"))
		_ = l.Close()
		again := open(t, dir, Limits{})
		s := of(t, again, "ann")
		for _, id := range s.Collections() {
			found, err := s.Find(t.Context(), []string{id}, "hot card", Looking{})
			if err != nil {
				t.Fatalf("cut at %d: %v", cut, err)
			}
			if done.indexed && !done.deleting && len(found) != 1 {
				t.Fatalf("cut at %d: what was indexed is not found", cut)
			}
		}
		if done.added && !done.deleting && len(s.Files()) != 1 || done.deleted && (len(s.Files()) != 0 || onDisk(t, dir) != 0) {
			t.Fatalf("cut at %d: %+v, and %d files, %d bytes", cut, done, len(s.Files()), onDisk(t, dir))
		}
		if have := onDisk(t, dir); have != s.Used() {
			t.Fatalf("cut at %d: %d bytes are there, %d are counted", cut, have, s.Used())
		}
		_ = again.Close()
		if d.left > 0 {
			if cut < 20 {
				t.Errorf("only %d operations", cut)
			}
			return
		}
	}
}

// FuzzOpen: a damaged index is refused, or read without harm.
func FuzzOpen(f *testing.F) {
	d := &Document{Pages: []Page{{Text: "# One\n\nA card.\n\n# Two\n\nA hot card.\n"}}}
	b, err := Build(d, Cut(d, Cutting{}))
	if err != nil {
		f.Fatal(err)
	}
	f.Add(b)
	f.Add(b[:len(b)-1])
	f.Fuzz(func(t *testing.T, b []byte) {
		s, err := Open(b)
		if err != nil {
			return
		}
		for i := range s.Len() {
			s.Passage(i)
		}
		Search([]*Segment{s}, Ask("hot card"), 10)
	})
}

// TestSearch: the search finds the passages that a plain count of words does, and its order does
// not depend on how documents are split into indexes.
func TestSearch(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		word := rapid.SampledFrom([]string{"card", "hot", "fan", "memory", "slow", "卡片", "Speicher"})
		texts := rapid.SliceOfN(rapid.SliceOfN(word, 1, 12), 1, 12).Draw(t, "texts")
		query := strings.Join(rapid.SliceOfN(word, 1, 4).Draw(t, "query"), " ")
		one, each := &Document{}, []*Segment{}
		for _, words := range texts {
			p := Page{Text: strings.Join(words, " ")}
			one.Pages = append(one.Pages, p)
			each = append(each, built(t, &Document{Pages: []Page{p}}))
		}
		whole := []*Segment{built(t, one)}
		a, b := Search(whole, Ask(query), 100), Search(each, Ask(query), 100)
		want := 0
		for _, words := range texts {
			if slices.ContainsFunc(words, func(w string) bool { return strings.Contains(query, w) }) {
				want++
			}
		}
		if len(a) != want || len(b) != want {
			t.Fatalf("%d and %d found, want %d", len(a), len(b), want)
		}
		for i := range a {
			if a[i].Passage != b[i].Segment || a[i].Score != b[i].Score {
				t.Fatalf("%v and %v", a, b)
			}
		}
	})
}

func TestRerank(t *testing.T) {
	d := &Document{Kind: "markdown", Pages: []Page{{Text: "# One\n\nslow card card fan and, long before that, a hot summer\n\n# " +
		"Other\n\nput a fan beside a hot card\n"}}}
	s := []*Segment{built(t, d)}
	q := Ask("hot card fan")
	hits, err := Rerank(s, q, Search(s, q, 10), func(h Hit) (string, error) {
		p := s[h.Segment].Passage(h.Passage)
		return d.Pages[p.Page].Text[p.Start:p.End], nil
	})
	if err != nil || len(hits) != 2 || s[0].Passage(hits[0].Passage).Heading != "Other" {
		t.Errorf("%+v %v", hits, err)
	}
	f := Blend(3, []Hit{{0, 1, 0.5}, {0, 2, 0.4}}, []Hit{{0, 3, 0.95}, {0, 2, 0.9}, {0, 4, 0.1}})
	if len(f) != 3 || f[0].Passage != 2 || f[1].Passage != 1 || f[2].Passage != 3 || f[0].Score >= 1 {
		t.Errorf("%+v", f)
	}
}

// dying is a disk on which nothing works any more after a number of operations.
type dying struct {
	folder.Disk
	left int
}

var errDead = errors.New("dead")

func (d *dying) dies() bool { d.left--; return d.left < 0 }

func (d *dying) Create(name string) (folder.File, error) {
	if d.dies() {
		return nil, errDead
	}
	f, err := d.Disk.Create(name)
	return dyingFile{f, d}, err
}

func (d *dying) Rename(from, to string) error {
	return d.or(func() error { return d.Disk.Rename(from, to) })
}
func (d *dying) Remove(name string) error { return d.or(func() error { return d.Disk.Remove(name) }) }
func (d *dying) Mkdir(name string) error  { return d.or(func() error { return d.Disk.Mkdir(name) }) }

func (d *dying) or(f func() error) error {
	if d.dies() {
		return errDead
	}
	return f()
}

type dyingFile struct {
	folder.File
	d *dying
}

func (f dyingFile) Write(b []byte) (int, error) {
	if f.d.dies() {
		n, _ := f.File.Write(b[:len(b)/2])
		return n, errDead
	}
	return f.File.Write(b)
}

type did struct{ added, indexed, deleting, deleted bool }

// life is what is done with a shelf, and how far it came.
func life(t *testing.T, s *Shelf) (done did) {
	file, err := s.AddFile("a.md", strings.NewReader("A hot card is slow."), assistants)
	if err != nil {
		return done
	}
	done.added = true
	c, err := s.Create(Collection{Name: "docs"})
	if err != nil {
		return done
	}
	if _, err := s.Attach(c.ID, file.ID, nil, Cutting{}); err != nil {
		return done
	}
	if s.Index(t.Context(), c.ID, file.ID, plain) != nil {
		return done
	}
	done.indexed = true
	if _, err := s.SetAttributes(c.ID, file.ID, map[string]any{"a": "b"}); err != nil {
		return done
	}
	done.deleting = true
	if s.Delete(c.ID) != nil || s.DeleteFile(file.ID) != nil {
		return done
	}
	done.deleted = true
	return done
}

func deleteMeanwhile(t *testing.T, s *Shelf, file File, remove func(c string) error) {
	t.Helper()
	c, err := s.Create(Collection{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Attach(c.ID, file.ID, nil, Cutting{}); err != nil {
		t.Fatal(err)
	}
	_ = s.remove(file.ID + textSuffix) // it is read anew
	err = s.Index(t.Context(), c.ID, file.ID, func(ctx context.Context, name string, data io.ReaderAt, size int64) (*Document, error) {
		if err := remove(c.ID); err != nil {
			t.Error(err)
		}
		return plain(ctx, name, data, size)
	})
	if !errors.Is(err, ErrNotFound) {
		t.Errorf("indexed what was deleted: %v", err)
	}
}

func open(t *testing.T, dir string, l Limits) *Library {
	t.Helper()
	lib, err := OpenLibrary(dir, l)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = lib.Close() })
	return lib
}

func of(t *testing.T, l *Library, owner string) *Shelf {
	t.Helper()
	s, err := l.Of(owner)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func add(t *testing.T, s *Shelf, name, text string) File {
	t.Helper()
	f, err := s.AddFile(name, strings.NewReader(text), assistants)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func assistants() (string, error) { return "assistants", nil }

func plain(_ context.Context, _ string, data io.ReaderAt, size int64) (*Document, error) {
	b, err := io.ReadAll(io.NewSectionReader(data, 0, size))
	return &Document{Kind: "markdown", Pages: []Page{{Text: string(b)}}}, err
}

func built(t interface{ Fatal(...any) }, d *Document) *Segment {
	b, err := Build(d, Cut(d, Cutting{}))
	if err != nil {
		t.Fatal(err)
	}
	s, err := Open(b)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// onDisk is how many bytes of files a folder has, the lock left out.
func onDisk(t *testing.T, dir string) (n int64) {
	t.Helper()
	err := filepath.WalkDir(dir, func(_ string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		st, err := e.Info()
		n += st.Size()
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// TestVectors: a passage is found by its vector though it has none of the words, and vectors of
// another model, or of what was deleted meanwhile, do nothing.
func TestVectors(t *testing.T) {
	s := of(t, open(t, t.TempDir(), Limits{}), "ann")
	c, err := s.Create(Collection{})
	if err != nil {
		t.Fatal(err)
	}
	file := add(t, s, "a.md", "# One\n\nhot cards\n\n# Two\n\ncold cards\n")
	e, err := s.Attach(c.ID, file.ID, nil, Cutting{})
	if err == nil {
		err = s.Index(t.Context(), c.ID, file.ID, plain)
	}
	if err != nil {
		t.Fatal(err)
	}
	if err := s.SetVectors(c.ID, file.ID, e.Created, "m", [][]float32{{3, 0.1}, {0.1, 2}}); err != nil {
		t.Fatal(err)
	}
	for _, c2 := range []struct {
		l    Looking
		want string
	}{
		{Looking{Vector: []float32{0, 5}, Model: "m"}, "Two"}, {Looking{Vector: []float32{5, 0}, Model: "m"}, "One"},
		{Looking{Vector: []float32{0, 5}, Model: "other"}, ""}, {Looking{Vector: []float32{0, 5, 1}, Model: "m"}, ""},
		{Looking{Vector: []float32{0, -5}, Model: "m"}, ""},
	} {
		found, err := s.Find(t.Context(), []string{c.ID}, "freezing", c2.l)
		if err != nil || (len(found) > 0) != (c2.want != "") || c2.want != "" && found[0].Heading != c2.want {
			t.Errorf("%+v: %+v %v, want %q", c2.l, found, err, c2.want)
		}
	}
	if err := s.SetVectors(c.ID, file.ID, e.Created, "m", [][]float32{{1, 2}}); !errors.Is(err, ErrNotFound) {
		t.Errorf("vectors of other passages: %v", err)
	}
	if err := s.SetVectors(c.ID, file.ID, e.Created, "m", [][]float32{{1}, {1, 2}}); err == nil {
		t.Error("vectors of different lengths")
	}
	if err := s.Detach(c.ID, file.ID); err != nil {
		t.Fatal(err)
	}
	if err := s.SetVectors(c.ID, file.ID, e.Created, "m", [][]float32{{1, 2}, {1, 2}}); !errors.Is(err, ErrNotFound) {
		t.Errorf("vectors of what was deleted: %v", err)
	}
}
