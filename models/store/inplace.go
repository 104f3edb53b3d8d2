package store

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"os"
	"path"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/axle-llm/axle/internal/regular"
	"github.com/axle-llm/axle/models"
)

// inPlace lists the packages found in the folders of Paths, without opening any: their names come
// from their folders. Where only is given, none of another name is looked into.
func (s *Store) inPlace(only ...models.Name) []*Model {
	var out []*Model
	for _, f := range s.allFound() {
		if len(only) > 0 && !f.name.EqualFold(only[0]) {
			continue
		}
		if m := s.folderModel(f.name, f.dir); m != nil {
			out = append(out, m)
		}
	}
	return out
}

// allFound are the packages in the folders of Paths.
func (s *Store) allFound() (all []found) {
	for _, p := range s.paths {
		if abs, err := filepath.Abs(p); err == nil {
			list, _ := s.packages(abs)
			all = append(all, list...)
		}
	}
	return all
}

// folderName makes a valid name of a folder's path: Qwen3-0.6B, AXERA-TECH/Qwen3-0.6B, and
// models--AXERA-TECH--Qwen3-0.6B as the same.
func folderName(rel []string) (models.Name, bool) {
	if n := len(rel); n > 1 && rel[n-1] == "inputs" { // the vendor's Zipformer keeps all its files in there
		rel = rel[:n-1]
	}
	last := rel[len(rel)-1]
	if repo, ok := strings.CutPrefix(last, "models--"); ok {
		if org, name, ok := strings.Cut(repo, "--"); ok {
			rel = []string{org, name}
			last = name
		}
	}
	model, tag, _ := strings.Cut(last, ":")
	text := clean(model, true)
	if tag = clean(tag, true); tag != "" {
		text += ":" + tag
	}
	if len(rel) > 1 {
		if ns := clean(rel[len(rel)-2], false); ns != "" {
			text = ns + "/" + text
		}
	}
	n, err := models.ParseName(text)
	return n, err == nil
}

// clean replaces what a part of a name may not hold.
func clean(s string, dots bool) string {
	s = strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '_' || r == '-' || dots && r == '.' {
			return r
		}
		return '-'
	}, s)
	s = strings.TrimLeft(s, "-.")
	return s[:min(len(s), 80)]
}

// folderModel describes a package in place by its listing; nil when no file in it is a compiled
// model.
func (s *Store) folderModel(n models.Name, dir string) *Model {
	if real, err := filepath.EvalSymlinks(dir); err == nil {
		dir = real // a link to a folder is how people add one
	}
	m := &Model{Name: n, Folder: dir, s: s, m: &manifest{Axle: &origin{Folder: dir}}}
	if !m.listing() {
		return nil
	}
	return m
}

// listing fills size, time and digest from names, sizes and times of the folder's files.
func (m *Model) listing() bool {
	h := sha256.New()
	compiled, entries := false, 0
	_ = filepath.WalkDir(m.Folder, func(p string, d fs.DirEntry, err error) error {
		if entries++; entries > 20000 {
			return fs.SkipAll
		}
		if err != nil {
			return nil
		}
		rel, rerr := filepath.Rel(m.Folder, p)
		if rerr != nil {
			return nil
		}
		if d.IsDir() {
			if rel != "." && (strings.HasPrefix(d.Name(), ".") || strings.Count(rel, string(filepath.Separator)) > 4) {
				return fs.SkipDir
			}
			return nil
		}
		st, err := os.Stat(p)
		if err != nil || !st.Mode().IsRegular() {
			return nil
		}
		compiled = compiled || strings.HasSuffix(p, ".axmodel")
		if d.Type()&fs.ModeSymlink == 0 || strings.HasSuffix(p, ".axmodel") {
			m.Size += st.Size()
		}
		if st.ModTime().After(m.ModifiedAt) {
			m.ModifiedAt = st.ModTime()
		}
		m.Files = append(m.Files, FileInfo{Name: filepath.ToSlash(rel), Size: st.Size()})
		fmt.Fprintf(h, "%s\x00%d\x00%d\x00", rel, st.Size(), st.ModTime().UnixNano())
		return nil
	})
	m.Digest = hex.EncodeToString(h.Sum(nil))
	return compiled
}

// builtins describes the packages that ship inside the program; where only is given, none of
// another name.
func (s *Store) builtins(only ...models.Name) []*Model {
	var out []*Model
	for full := range s.builtin {
		n, err := models.ParseName(full)
		if err != nil || len(only) > 0 && !n.EqualFold(only[0]) {
			continue
		}
		files, digest, err := s.builtinFiles(full)
		if err != nil {
			continue
		}
		m := &Model{Name: n, Builtin: true, Files: files, Digest: digest, s: s, m: &manifest{Axle: &origin{Builtin: full}},
			ModifiedAt: programTime()}
		for _, f := range files {
			m.Size += f.Size
		}
		out = append(out, m)
	}
	return out
}

// builtinSum is what a built-in package consists of.
type builtinSum struct {
	files  []FileInfo
	digest string
}

// builtinFiles lists a built-in package's files with their hashes, which are made once: what is in
// the program does not change.
func (s *Store) builtinFiles(full string) (files []FileInfo, digest string, err error) {
	s.builtinMu.Lock()
	defer s.builtinMu.Unlock()
	if known, ok := s.builtinSums[full]; ok {
		return known.files, known.digest, nil
	}
	fsys, ok := s.builtin[full]
	if !ok {
		return nil, "", fmt.Errorf("models: this program has no built-in model %s", full)
	}
	err = fs.WalkDir(fsys, ".", func(p string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		data, err := fs.ReadFile(fsys, p)
		files = append(files, FileInfo{p, sum(data), int64(len(data))})
		return err
	})
	if err != nil {
		return nil, "", fmt.Errorf("models: %w", err)
	}
	digest = builtinDigest(files)
	s.builtinSums[full] = builtinSum{files, digest}
	return files, digest, nil
}

func builtinDigest(files []FileInfo) string {
	h := sha256.New()
	for _, f := range files {
		fmt.Fprintf(h, "%s\x00%s\x00", f.Name, f.Digest)
	}
	return hex.EncodeToString(h.Sum(nil))
}

// programTime is when the program was built or installed, as far as its file tells.
var programTime = sync.OnceValue(func() time.Time {
	if exe, err := os.Executable(); err == nil {
		if st, err := os.Stat(exe); err == nil {
			return st.ModTime()
		}
	}
	return time.Unix(0, 0).UTC()
})

// openBuiltin writes a built-in package to the store's cache, where libraries can open its files by
// path, and opens it there under the name that it has here.
func (s *Store) openBuiltin(full, name string) (models.Opened, error) {
	fsys, ok := s.builtin[full]
	if !ok {
		return nil, fmt.Errorf("models: this program has no built-in model %s", full)
	}
	cache := s.disk.Path("cache")
	if cache == "" {
		return models.OpenAs(fsys, name)
	}
	dir, err := models.Materialize(fsys, cache)
	if err != nil {
		return nil, err
	}
	return models.OpenAnyAs(dir, name)
}

// verifyOpened checks a package that has no manifest: against SHA256SUMS if it brings one, and by
// opening it.
func (m *Model) verifyOpened(ctx context.Context, report func(string, int64, error)) error {
	o, err := m.OpenAny()
	if kind := new(models.KindError); errors.As(err, &kind) {
		report(kind.Error(), m.Size, nil)
		return nil
	}
	if err != nil {
		report(m.Name.String(), m.Size, err)
		return err
	}
	defer o.Close()
	p, ok := o.(*models.Package)
	if !ok {
		report("the shapes of its net and its tokenizer", m.Size, nil)
		return nil
	}
	if m.m.Axle.Builtin != "" { // opening it compared every byte
		report("the same as inside the program", p.Size, nil)
		return nil
	}
	text, err := regular.Read(p.FS(), "SHA256SUMS", maxPlanFile)
	if err != nil {
		report("shapes and sizes; the package brings no hashes to compare with", p.Size, nil)
		return nil
	}
	var errs []error
	for name, want := range sums(string(text)) {
		size, err := sumFile(ctx, p.FS(), name, want)
		report(name, size, err)
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// sums reads what sha256sum writes: hash and name, a line each. What is no such line is passed
// over.
func sums(text string) iter.Seq2[string, models.Digest] {
	return func(yield func(string, models.Digest) bool) {
		for line := range strings.Lines(text) {
			hexsum, name, ok := strings.Cut(strings.TrimSpace(line), " ")
			name = path.Clean(strings.TrimLeft(name, " *"))
			want, err := models.ParseDigest("sha256:" + hexsum)
			if ok && err == nil && fs.ValidPath(name) && !yield(name, want) {
				return
			}
		}
	}
}

func sumFile(ctx context.Context, fsys fs.FS, name string, want models.Digest) (int64, error) {
	f, err := fsys.Open(name)
	if err != nil {
		return 0, fmt.Errorf("models: %w", err)
	}
	defer f.Close()
	h := sha256.New()
	size, err := copyCtx(ctx, h, f)
	if err != nil {
		return size, fmt.Errorf("models: %s: %w", name, err)
	}
	if got := models.Digest(h.Sum(nil)); got != want {
		return size, fmt.Errorf("models: %s: %w, expected %q, got %q", name, ErrMismatch, want, got)
	}
	return size, nil
}
