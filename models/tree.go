package models

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/axle-llm/axle/internal/regular"
)

// RealPather is what a file system has whose files lie on disk under names that the vendor's
// library can open.
type RealPather interface {
	RealPath(name string) (string, bool)
}

// dirFS is a folder opened so that nothing in it leads out of it, and nothing but folders and
// regular files is opened.
type dirFS struct {
	root *os.Root
	asked
	dir string
}

// asked is what tells a file's kind without opening it: were it hidden, package fs would open a
// pipe to ask.
type asked interface {
	fs.ReadDirFS
	fs.StatFS
	fs.ReadLinkFS
}

func openDir(dir string) (*dirFS, error) {
	abs, err := filepath.Abs(dir)
	if err != nil {
		return nil, err
	}
	root, err := os.OpenRoot(abs)
	if err != nil {
		return nil, err
	}
	return &dirFS{root: root, asked: regular.FS(root).(asked), dir: abs}, nil
}

// RealPath resolves symbolic links before it vouches for a path: the library that opens it later
// knows no root.
func (d *dirFS) RealPath(name string) (string, bool) {
	full, err := filepath.EvalSymlinks(filepath.Join(d.dir, filepath.FromSlash(name)))
	if err != nil {
		return "", false
	}
	base, err := filepath.EvalSymlinks(d.dir)
	if err != nil {
		return "", false
	}
	rel, err := filepath.Rel(base, full)
	return full, err == nil && filepath.IsLocal(rel)
}

func (d *dirFS) Close() error { return d.root.Close() }

// realPath is what the vendor's library will be given, or the name itself where there is no real
// path.
func (t *tree) realPath(name string) (full string, real bool, err error) {
	r, ok := t.fsys.(RealPather)
	if !ok {
		return name, false, nil
	}
	full, ok = r.RealPath(name)
	if !ok {
		return "", false, &Error{Path: t.where(name), What: "is a link that leaves the package", Fix: "put the file itself there",
			Err: ErrEscape}
	}
	return full, true, nil
}

// tree is the listing of a package: every regular file under it, by slash path, with its size.
type tree struct {
	fsys   fs.FS
	label  string // how errors name the folder
	files  map[string]int64
	names  []string          // sorted
	broken map[string]string // links that lead nowhere or outside, and why
	odd    map[string]string // what is no regular file: pipes, sockets, devices
	listed bool              // of a hub: few of the files can be read, and each reading is a request
}

const (
	maxEntries = 20000
	maxFolders = 6 // levels
)

func scan(fsys fs.FS, label string) (*tree, error) {
	t := &tree{fsys: fsys, label: label, files: map[string]int64{}, broken: map[string]string{}, odd: map[string]string{}}
	seen := 0
	err := fs.WalkDir(fsys, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			if name == "." {
				return err
			}
			t.broken[name] = err.Error()
			if d != nil && d.IsDir() {
				return fs.SkipDir
			}
			return nil
		}
		if seen++; seen > maxEntries {
			return fmt.Errorf("more than %d entries", maxEntries)
		}
		if d.IsDir() {
			if name != "." && (strings.HasPrefix(d.Name(), ".") || strings.Count(name, "/")+1 > maxFolders) {
				return fs.SkipDir
			}
			return nil
		}
		info, err := d.Info()
		if err == nil && info.Mode()&fs.ModeSymlink != 0 {
			info, err = fs.Stat(fsys, name) // under os.Root this fails where the link leaves the package
		}
		switch {
		case err != nil:
			t.broken[name] = cause(err)
		case info.Mode().IsRegular():
			t.files[name] = info.Size()
			t.names = append(t.names, name)
		default:
			t.odd[name] = info.Mode().Type().String()
		}
		return nil
	})
	if err != nil {
		return nil, &Error{Path: label, What: cause(err), Fix: "name a folder that holds one model", Err: ErrNotPackage}
	}
	return t, nil
}

// cause is the innermost text of an error about a file, without the paths that callers print
// themselves.
func cause(err error) string {
	var pe *fs.PathError
	if errors.As(err, &pe) {
		return pe.Err.Error()
	}
	return err.Error()
}

func (t *tree) has(name string) bool { _, ok := t.files[name]; return ok }

// where is how an error names a file of the package. The folder of one that has no path, as in a
// store, has no name.
func (t *tree) where(name string) string {
	switch {
	case t.label == "" && name == ".":
		return ""
	case t.label == "":
		return name
	}
	return filepath.Join(t.label, filepath.FromSlash(name))
}

// read returns a small file whole; a pointer file of Git LFS is an error, whatever was expected.
func (t *tree) read(name string, limit int64) ([]byte, error) {
	size, ok := t.files[name]
	if !ok {
		return nil, t.missing(name, "")
	}
	if size > limit {
		return nil, &Error{Path: t.where(name), What: fmt.Sprintf("%d bytes, limit %d", size, limit), Err: ErrMalformed}
	}
	f, err := t.fsys.Open(name)
	if err != nil {
		return nil, &Error{Path: t.where(name), What: cause(err), Err: err}
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, limit+1))
	if err != nil {
		return nil, &Error{Path: t.where(name), What: cause(err), Err: err}
	}
	if isPointer(data) {
		return nil, t.pointer(name)
	}
	return data, nil
}

// fileAt is a file that can be read at an offset.
type fileAt interface {
	fs.File
	io.ReaderAt
}

func (t *tree) openAt(name string) (fileAt, error) {
	f, err := t.fsys.Open(name)
	if err != nil {
		return nil, &Error{Path: t.where(name), What: cause(err), Err: err}
	}
	at, ok := f.(fileAt)
	if !ok {
		_ = f.Close()
		return nil, &Error{Path: t.where(name), What: "its file system cannot read at an offset", Err: ErrMalformed}
	}
	return at, nil
}

const pointerHead = "version https://git-lfs.github.com/spec"

func isPointer(data []byte) bool {
	return len(data) < 1024 && strings.HasPrefix(string(data), pointerHead)
}

func (t *tree) pointer(name string) *Error {
	return &Error{Path: t.where(name), What: "is a Git LFS pointer, not the file itself",
		Fix: "fetch the real files with `git lfs pull` in the folder, or with `axle pull`", Err: ErrPointer}
}

// checkPointer fails when a file that should be large is a pointer.
func (t *tree) checkPointer(name string) error {
	if size := t.files[name]; size > 1024 || size < int64(len(pointerHead)) {
		return nil
	}
	_, err := t.read(name, 1024)
	return err
}

func (t *tree) missing(name, fix string) *Error {
	if why, ok := t.broken[name]; ok {
		e := &Error{Path: t.where(name), What: "a link that cannot be followed inside the package: " + why,
			Fix: "put the file itself there", Err: ErrMissing}
		if strings.Contains(why, "escapes") {
			e.Err = ErrEscape
		}
		return e
	}
	if kind, ok := t.odd[name]; ok {
		return &Error{Path: t.where(name), What: "is no regular file (" + kind + ")", Fix: "put the file itself there", Err: ErrMissing}
	}
	return &Error{Path: t.where(name), What: "missing", Fix: cmp.Or(fix, "fetch it again, e.g. with `axle pull`"), Err: ErrMissing}
}

// resolve finds a path that a configuration in folder base names. The vendor's runtime takes it
// relative to the configuration or to the working directory, which people had set to the package or
// to the folder above it: all are tried, nothing outside the package is. found is false when no
// such file or folder exists; name is then where it was looked for first.
func (t *tree) resolve(base, p string) (name string, found bool, err error) {
	p = strings.ReplaceAll(strings.TrimSpace(p), `\`, "/")
	if path.IsAbs(p) || strings.ContainsRune(p, 0) || len(p) > 2 && p[1] == ':' {
		return "", false, &Error{Path: t.where(base), What: fmt.Sprintf("names %.200q, which is not inside the package", p),
			Fix: "use a path relative to the folder", Err: ErrEscape}
	}
	tries := []string{path.Join(base, p), path.Clean(p)}
	if _, rest, ok := strings.Cut(path.Clean(p), "/"); ok {
		tries = append(tries, rest) // the working directory was the folder above
	}
	first := ""
	for _, name := range tries {
		if name == ".." || strings.HasPrefix(name, "../") {
			continue
		}
		if first == "" {
			first = name
		}
		if t.exists(name) {
			return name, true, nil
		}
	}
	if first == "" {
		return "", false, &Error{Path: t.where(base), What: fmt.Sprintf("names %.200q, which is outside the package", p),
			Fix: "name the folder that holds all files of the model, perhaps the one above", Err: ErrEscape}
	}
	return first, false, nil
}

// exists says whether name, which may be a layer template, is a file, a folder with files, or a
// link that was seen.
func (t *tree) exists(name string) bool {
	name = strings.ReplaceAll(name, "%d", "0")
	if t.has(name) || t.broken[name] != "" || t.odd[name] != "" {
		return true
	}
	return slices.ContainsFunc(t.names, func(f string) bool { return strings.HasPrefix(f, name+"/") })
}

// highest is the file that lies highest in the package of those whose names fit; empty: none.
func (t *tree) highest(fits func(base string) bool) (at string) {
	for _, n := range t.names {
		if fits(path.Base(n)) && (at == "" || strings.Count(n, "/") < strings.Count(at, "/")) {
			at = n
		}
	}
	return at
}

// named is the file of that name that lies highest in the package; empty: there is none.
func (t *tree) named(name string) string {
	return t.highest(func(base string) bool { return base == name })
}

// ending is the package's file of that name, or the highest whose name ends so; empty: none.
func (t *tree) ending(name string) (at string) {
	return t.highest(func(base string) bool {
		return base == name || strings.HasSuffix(base, "-"+name) || strings.HasSuffix(base, "_"+name)
	})
}

// only reads the file of that name that lies highest in the package, if it is no larger than limit.
func (t *tree) only(name string, limit int64) (at string, b []byte, err error) {
	if at = t.named(name); at == "" {
		return name, nil, t.missing(name, "fetch the whole package")
	}
	b, err = t.read(at, limit)
	return at, b, err
}

// in lists the files directly inside folder.
func (t *tree) in(folder string) []string {
	return slices.DeleteFunc(slices.Clone(t.names), func(f string) bool { return path.Dir(f) != folder })
}
