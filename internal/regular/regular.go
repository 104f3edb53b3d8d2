// Package regular opens files that others put into a package, a store or a checkpoint, and replaces
// files whole. It opens regular files only, and never waits; what is read whole has a limit. A
// named pipe would wait for a writer, and reading a device may have effects or never end. Private
// says whether others can read a file of secrets.
//
// Functions are safe for concurrent use. The caller that opens a file closes it.
package regular

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
)

// ErrNot is a name that is no regular file: a folder, a pipe, a socket, a device.
var ErrNot = errors.New("is no regular file")

// ErrLarge is a file that is larger than it may be.
var ErrLarge = errors.New("is too large")

// Open opens a regular file below root. Errors are *fs.PathError: ErrNot, the file system's.
func Open(root *os.Root, name string) (*os.File, error) {
	return open(name, root.Stat, func(name string) (*os.File, error) { return root.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0) })
}

// OpenPath is Open for a path, whose links are followed wherever they lead.
func OpenPath(name string) (*os.File, error) {
	return open(name, os.Stat, func(name string) (*os.File, error) { return os.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0) })
}

// open asks before it opens, since that alone wakes some devices, and after, since the file may be
// another by then.
func open(name string, stat func(string) (fs.FileInfo, error), open func(string) (*os.File, error)) (*os.File, error) {
	st, err := stat(name)
	if err != nil {
		return nil, err
	}
	if !st.Mode().IsRegular() {
		return nil, &fs.PathError{Op: "open", Path: name, Err: ErrNot}
	}
	f, err := open(name)
	if err != nil {
		return nil, err
	}
	if st, err = f.Stat(); err == nil && !st.Mode().IsRegular() {
		err = &fs.PathError{Op: "open", Path: name, Err: ErrNot}
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// FS is root's file system. Its Open gives folders and regular files, and nothing else.
func FS(root *os.Root) fs.FS {
	return &rootFS{root.FS().(asked), root}
}

// asked is what tells a file's kind without opening it, which io/fs does where these methods are
// hidden.
type asked interface {
	fs.ReadDirFS
	fs.StatFS
	fs.ReadLinkFS
}

type rootFS struct {
	asked
	root *os.Root
}

func (f *rootFS) Open(name string) (fs.File, error) {
	if !fs.ValidPath(name) {
		return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrInvalid}
	}
	path := filepath.FromSlash(name)
	if st, err := f.root.Stat(path); err == nil && st.IsDir() {
		return f.root.Open(path + string(filepath.Separator)) // which only a folder answers to
	}
	//rule:T1 ./models/store TestOddSwap Open(f.root, path) => f.root.Open(path)
	file, err := Open(f.root, path)
	if err != nil {
		return nil, err // not a nil *os.File in an interface
	}
	return file, nil
}

// Read reads a file whole, which is not asked to be more than limit bytes. Errors: ErrNot,
// ErrLarge, the file system's.
func Read(fsys fs.FS, name string, limit int64) ([]byte, error) {
	st, err := fs.Stat(fsys, name)
	if err == nil && !st.Mode().IsRegular() {
		err = &fs.PathError{Op: "open", Path: name, Err: ErrNot}
	}
	if err != nil {
		return nil, err
	}
	f, err := fsys.Open(name)
	if err != nil {
		return nil, err
	}
	return All(f, name, limit)
}

// ReadPath is Read for a path, whose links are followed wherever they lead.
func ReadPath(name string, limit int64) ([]byte, error) {
	f, err := OpenPath(name)
	if err != nil {
		return nil, err
	}
	return All(f, name, limit)
}

// All reads an open file whole, and closes it. Errors: ErrLarge, the file system's.
func All(f fs.File, name string, limit int64) ([]byte, error) {
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, limit+1))
	if err == nil && int64(len(b)) > limit {
		err = &fs.PathError{Op: "read", Path: name, Err: fmt.Errorf("%w: the limit is %d bytes", ErrLarge, limit)}
	}
	if err != nil {
		return nil, err
	}
	return b, nil
}

// Private is nil for a file of secrets that only its owner can read. A file of root's may be its
// group's to read as well, for a process of another user: so Kubernetes and systemd hand a secret
// over.
func Private(path string, st fs.FileInfo) error { return private(path, st, os.Geteuid()) }

func private(path string, st fs.FileInfo, user int) error {
	others := fs.FileMode(0o077)
	if own, ok := st.Sys().(*syscall.Stat_t); ok && own.Uid == 0 && user != 0 {
		others = 0o037
	}
	if m := st.Mode().Perm(); m&others != 0 {
		return fmt.Errorf("others can read %s (mode %#o): chmod 600 it", path, m)
	}
	return nil
}

// Replace makes the file at path hold b. The file is there whole or not at all: b is written beside
// it, synced, and renamed. also may do more with the new file before that. Errors: the file
// system's, and also's; the former file stays then.
func Replace(path string, mode fs.FileMode, b []byte, also ...func(*os.File) error) error {
	f, err := os.CreateTemp(filepath.Dir(path), ".new-*")
	if err != nil {
		return err
	}
	_, err = f.Write(b)
	err = errors.Join(err, f.Chmod(mode))
	for _, do := range also {
		err = errors.Join(err, do(f))
	}
	if err = errors.Join(err, f.Sync(), f.Close()); err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		_ = os.Remove(f.Name())
	}
	return err
}
