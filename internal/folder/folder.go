// Package folder keeps files in one folder so that a kill or a power cut leaves all of a file or
// none. [Write] makes such a file. [Root] is a real folder: nothing reaches outside it, whatever
// links somebody put there, and only regular files are opened.
//
// All functions may be called from any goroutine. The caller that opens a Root or a file closes it.
package folder

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"sync/atomic"
	"syscall"
	"time"

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

// Disk is what can be done with the files of a folder. It is an interface so that a test can make
// each operation fail, or forget what was not synced. Names are slash paths inside the folder.
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
	Lock() (func() error, error) // excludes other processes until the function is called
	Close() error
}

// Write makes a file that is there whole or not at all, once it returns without an error. temp is
// its name until then, in a folder of the same file system.
func Write(d Disk, temp, name string, parts ...[]byte) error {
	f, err := d.Create(temp)
	if err != nil {
		return err
	}
	for _, p := range parts {
		if err == nil {
			_, err = f.Write(p)
		}
	}
	if err == nil {
		//rule:D13 ./models/rows TestRowsLast f.Sync() => nil
		//rule:G9 ./models/store TestCrashImages f.Sync() => nil
		err = f.Sync()
	}
	err = cmp.Or(err, f.Close())
	if err == nil {
		err = d.Rename(temp, name)
	}
	if err != nil {
		_ = d.Remove(temp)
		return err
	}
	//rule:D13 ./models/rows TestRowsLast return d.SyncDir(path.Dir(name)) => _ = path.Dir; return nil
	return d.SyncDir(path.Dir(name))
}

// ErrHeld is a lock that another process did not let go in time.
var ErrHeld = errors.New("another process holds the lock")

// Root is a real folder: a [Disk] but for the lock.
type Root struct {
	root atomic.Pointer[os.Root]
	dir  string
	perm fs.FileMode
}

// Open opens a folder. New files get perm, new folders the same and the right to enter.
func Open(dir string, perm fs.FileMode) (*Root, error) {
	abs, err := filepath.Abs(dir)
	if err != nil {
		return nil, err
	}
	root, err := os.OpenRoot(abs)
	if err != nil {
		return nil, err
	}
	r := &Root{dir: abs, perm: perm}
	r.root.Store(root)
	return r, nil
}

// Reopen opens the folder anew by its path, for handles that a file server no longer knows. Calls
// at work end as they would; the system closes what they used once none does.
func (r *Root) Reopen() error {
	root, err := os.OpenRoot(r.dir)
	if err == nil {
		r.root.Store(root)
	}
	return err
}

func (r *Root) at() *os.Root { return r.root.Load() }

// Open opens a regular file for reading.
func (r *Root) Open(name string) (File, error) {
	//rule:T1 ./models/store TestOddBlobs regular.Open(r.at(), name) => r.at().Open(name)
	f, err := regular.Open(r.at(), name)
	if err != nil {
		return nil, err
	}
	return f, nil
}

// Create opens a file for reading and writing, and makes it where it is not there.
func (r *Root) Create(name string) (File, error) {
	if st, err := r.at().Stat(name); err == nil && !st.Mode().IsRegular() {
		return nil, &fs.PathError{Op: "create", Path: name, Err: regular.ErrNot}
	}
	f, err := r.at().OpenFile(name, os.O_RDWR|os.O_CREATE|syscall.O_NONBLOCK, r.perm)
	if err != nil {
		return nil, err
	}
	return f, nil
}

func (r *Root) Rename(old, new string) error               { return r.at().Rename(old, new) }
func (r *Root) Remove(name string) error                   { return r.at().Remove(name) }
func (r *Root) Stat(name string) (fs.FileInfo, error)      { return r.at().Stat(name) }
func (r *Root) ReadDir(name string) ([]fs.DirEntry, error) { return fs.ReadDir(r.at().FS(), name) }
func (r *Root) Close() error                               { return r.at().Close() }

// Touch sets a file's time.
func (r *Root) Touch(name string, at time.Time) error { return r.at().Chtimes(name, at, at) }

// Path is the real path of a file.
func (r *Root) Path(name string) string { return filepath.Join(r.dir, name) }

// Mkdir makes a folder. It is no error when it exists.
func (r *Root) Mkdir(name string) error {
	err := r.at().Mkdir(name, r.perm|r.perm>>2&0o111)
	if st, serr := r.at().Stat(name); errors.Is(err, fs.ErrExist) && serr == nil && st.IsDir() {
		return nil
	}
	return err
}

// SyncDir makes last what was created, renamed or removed in a folder.
func (r *Root) SyncDir(name string) error {
	f, err := r.at().Open(name)
	if err != nil {
		return err
	}
	defer f.Close()
	// Some file systems (FUSE, SMB) cannot sync folders and say so. There is nothing better to do
	// there.
	if err := f.Sync(); err != nil && !errors.Is(err, syscall.EINVAL) && !errors.Is(err, syscall.ENOTSUP) {
		return err
	}
	return nil
}

// Free is how many bytes can still be written.
func (r *Root) Free() (int64, error) {
	var st unix.Statfs_t
	if err := unix.Statfs(r.dir, &st); err != nil {
		return -1, err
	}
	return int64(st.Bavail) * int64(st.Bsize), nil // of different types on different processors
}

// Lock locks a file, which is made where create is set, until it is closed. It waits while another
// process has it: until the time end, or for ever where that is zero. It fails with [ErrHeld], with
// errors.ErrUnsupported where the file system has no locks, and as opening a file does.
func (r *Root) Lock(name string, create bool, end time.Time) (*os.File, error) {
	flag, how := os.O_RDWR, unix.LOCK_EX
	if create {
		flag |= os.O_CREATE
	}
	if !end.IsZero() {
		how |= unix.LOCK_NB
	}
	f, err := r.at().OpenFile(name, flag, r.perm)
	if err != nil {
		return nil, err
	}
	for ; ; <-time.After(5 * time.Millisecond) {
		switch err = unix.Flock(int(f.Fd()), how); {
		case err == nil:
			return f, nil
		case err == unix.EWOULDBLOCK && time.Now().After(end):
			err = ErrHeld
		case err == unix.EINTR, err == unix.EWOULDBLOCK:
			continue
		case errors.Is(err, unix.ENOTSUP), errors.Is(err, unix.ENOLCK):
			err = errors.ErrUnsupported
		}
		_ = f.Close()
		return nil, fmt.Errorf("lock %s: %w", r.Path(name), err)
	}
}
