package store

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/axle-llm/axle/internal/regular"
)

// File is an open file of a [Disk].
type File interface {
	fs.File
	io.ReaderAt
	io.Writer
	io.WriterAt
	Sync() error
	Truncate(size int64) error
}

// Disk is every operation on files that the store does, so that a test can make each of them fail,
// or forget what was not synced. Names are slash paths inside one folder.
type Disk interface {
	Open(name string) (File, error)   // for reading
	Create(name string) (File, error) // for reading and writing; an existing file keeps its content
	Rename(old, new string) error
	Remove(name string) error
	Mkdir(name string) error   // no error when it exists
	SyncDir(name string) error // makes names created, renamed and removed in it last
	Stat(name string) (fs.FileInfo, error)
	ReadDir(name string) ([]fs.DirEntry, error)
	Free() (int64, error)        // bytes that can still be written; negative when unknown
	Lock() (func() error, error) // excludes other processes until the function is called; blocks
	// Hold locks a file until release is called or the process ends; ok is false where another
	// holds it.
	Hold(name string, create bool) (release func() error, ok bool, err error)
	Path(name string) string // the real path; empty when there is none
	Close() error
}

// rootDisk is a real folder. Nothing reaches outside it, by whatever links someone put there.
type rootDisk struct {
	root *os.Root
	dir  string
}

func openDisk(dir string) (Disk, error) {
	abs, err := filepath.Abs(dir)
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(abs, 0o755); err != nil {
		return nil, err
	}
	root, err := os.OpenRoot(abs)
	if err != nil {
		return nil, err
	}
	return &rootDisk{root, abs}, nil
}

func (d *rootDisk) Open(name string) (File, error) {
	//rule:T1 TestOddBlobs regular.Open(d.root, filepath.FromSlash(name)) => d.root.Open(filepath.FromSlash(name))
	f, err := regular.Open(d.root, filepath.FromSlash(name))
	if err != nil {
		return nil, err
	}
	return f, nil
}

func (d *rootDisk) Create(name string) (File, error) {
	if st, err := d.root.Stat(filepath.FromSlash(name)); err == nil && !st.Mode().IsRegular() {
		return nil, &fs.PathError{Op: "create", Path: name, Err: regular.ErrNot}
	}
	f, err := d.root.OpenFile(filepath.FromSlash(name), os.O_RDWR|os.O_CREATE|syscall.O_NONBLOCK, 0o644)
	if err != nil {
		return nil, err
	}
	return f, nil
}

func (d *rootDisk) Rename(old, new string) error {
	return d.root.Rename(filepath.FromSlash(old), filepath.FromSlash(new))
}

func (d *rootDisk) Remove(name string) error { return d.root.Remove(filepath.FromSlash(name)) }

func (d *rootDisk) Mkdir(name string) error {
	err := d.root.Mkdir(filepath.FromSlash(name), 0o755)
	if errors.Is(err, fs.ErrExist) {
		if st, serr := d.root.Stat(filepath.FromSlash(name)); serr == nil && st.IsDir() {
			return nil
		}
	}
	return err
}

func (d *rootDisk) SyncDir(name string) error {
	f, err := d.root.Open(filepath.FromSlash(name))
	if err != nil {
		return err
	}
	defer f.Close()
	// Some file systems (FUSE, SMB) cannot sync folders and say so; there is nothing better to do
	// there.
	if err := f.Sync(); err != nil && !errors.Is(err, syscall.EINVAL) && !errors.Is(err, syscall.ENOTSUP) {
		return err
	}
	return nil
}

func (d *rootDisk) Stat(name string) (fs.FileInfo, error) {
	return d.root.Stat(filepath.FromSlash(name))
}

func (d *rootDisk) ReadDir(name string) ([]fs.DirEntry, error) {
	return fs.ReadDir(d.root.FS(), name)
}

func (d *rootDisk) Free() (int64, error) {
	var st unix.Statfs_t
	if err := unix.Statfs(d.dir, &st); err != nil {
		return -1, err
	}
	return int64(st.Bavail) * int64(st.Bsize), nil // of different types on different processors
}

func (d *rootDisk) Lock() (func() error, error) {
	f, err := d.root.OpenFile(".lock", os.O_RDWR|os.O_CREATE, 0o644)
	if err != nil {
		return nil, err
	}
	for {
		if err = unix.Flock(int(f.Fd()), unix.LOCK_EX); err != unix.EINTR {
			break
		}
	}
	if err != nil && !errors.Is(err, unix.ENOTSUP) && !errors.Is(err, unix.ENOLCK) {
		// network file systems without locks: alone we are safe still
		f.Close()
		return nil, fmt.Errorf("lock: %w", err)
	}
	return f.Close, nil
}

func (d *rootDisk) Hold(name string, create bool) (release func() error, ok bool, err error) {
	flag := os.O_RDWR
	if create {
		flag |= os.O_CREATE
	}
	f, err := d.root.OpenFile(filepath.FromSlash(name), flag, 0o644)
	if err != nil {
		return nil, false, err
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		f.Close()
		if errors.Is(err, unix.EWOULDBLOCK) {
			return nil, false, nil
		}
		return nil, false, fmt.Errorf("lock %s: %w", name, err)
	}
	return f.Close, true, nil
}

func (d *rootDisk) Path(name string) string { return filepath.Join(d.dir, filepath.FromSlash(name)) }
func (d *rootDisk) Close() error            { return d.root.Close() }

// mkdirs makes a folder and those above it, each lasting before the next is made.
func mkdirs(d Disk, name string) error {
	if name == "." {
		return nil
	}
	if st, err := d.Stat(name); err == nil && st.IsDir() {
		return nil
	}
	parent := path.Dir(name)
	if err := mkdirs(d, parent); err != nil {
		return err
	}
	if err := d.Mkdir(name); err != nil {
		return err
	}
	return d.SyncDir(parent)
}
