package store

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"
	"time"
)

// packageFS shows the blobs of a manifest as the folder they were: names lead to blobs, and
// RealPath says where those lie. So a package needs no folder of links, which would have to be kept
// true to the manifest, and on file systems without links could not be.
type packageFS struct {
	disk   Disk
	files  map[string]descriptor
	dirs   map[string][]fs.DirEntry // sorted
	digest string
}

func newPackageFS(d Disk, files []descriptor) *packageFS {
	p := &packageFS{disk: d, files: map[string]descriptor{}, dirs: map[string][]fs.DirEntry{".": nil}}
	h := sha256.New()
	for _, f := range files {
		p.files[f.Name] = f
		fmt.Fprintf(h, "%s\x00%s\x00%d\x00", f.Name, f.Digest, f.Size)
		entry := fs.FileInfoToDirEntry(info{path.Base(f.Name), f.Size, false})
		for name := f.Name; ; {
			dir := path.Dir(name)
			_, known := p.dirs[dir]
			p.dirs[dir] = append(p.dirs[dir], entry)
			if known || dir == "." {
				break
			}
			name, entry = dir, fs.FileInfoToDirEntry(info{path.Base(dir), 0, true})
		}
	}
	p.digest = hex.EncodeToString(h.Sum(nil))
	for _, list := range p.dirs {
		slices.SortFunc(list, func(a, b fs.DirEntry) int { return strings.Compare(a.Name(), b.Name()) })
	}
	return p
}

func blobPath(d descriptor) string { return "blobs/" + d.Digest.File() }

// Open opens the blob behind a name. Folders are read with ReadDir alone.
func (p *packageFS) Open(name string) (fs.File, error) {
	if !fs.ValidPath(name) {
		return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrInvalid}
	}
	if f, ok := p.files[name]; ok {
		return p.disk.Open(blobPath(f))
	}
	return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrNotExist}
}

// ReadDir lists a folder of the package.
func (p *packageFS) ReadDir(name string) ([]fs.DirEntry, error) {
	list, ok := p.dirs[name]
	if !ok {
		return nil, &fs.PathError{Op: "readdir", Path: name, Err: fs.ErrNotExist}
	}
	return slices.Clone(list), nil
}

// Stat is the blob's own size and time: where they are not the manifest's, opening a model has
// already failed.
func (p *packageFS) Stat(name string) (fs.FileInfo, error) {
	if f, ok := p.files[name]; ok {
		return p.disk.Stat(blobPath(f))
	}
	if _, ok := p.dirs[name]; ok {
		return info{path.Base(name), 0, true}, nil
	}
	return nil, &fs.PathError{Op: "stat", Path: name, Err: fs.ErrNotExist}
}

// RealPath is where a file lies on disk.
func (p *packageFS) RealPath(name string) (string, bool) {
	f, ok := p.files[name]
	if !ok {
		return "", false
	}
	full := p.disk.Path(blobPath(f))
	return full, full != ""
}

// PackageDigest stands for all names and contents.
func (p *packageFS) PackageDigest() string { return p.digest }

// info describes a file or folder that exists only as an entry of a manifest.
type info struct {
	name string
	size int64
	dir  bool
}

func (i info) Name() string       { return i.name }
func (i info) Size() int64        { return i.size }
func (i info) IsDir() bool        { return i.dir }
func (i info) ModTime() time.Time { return time.Time{} }
func (i info) Sys() any           { return nil }
func (i info) Mode() fs.FileMode {
	if i.dir {
		return fs.ModeDir | 0o555
	}
	return 0o444
}
