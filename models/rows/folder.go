package rows

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	_ "github.com/axle-llm/axle/internal/plain" // says which machines this cannot be built for
	"github.com/axle-llm/axle/internal/regular"
)

var errFull = syscall.ENOSPC

// How long a change waits for another process's, and how often it looks. A server does not listen,
// nor end, while it waits: whoever holds the lock for longer does not make room, it hangs or was
// stopped.
const (
	lockWait = 2 * time.Second
	lockLook = 5 * time.Millisecond
)

// ErrHeld is a lock file that another process has held for two seconds.
var ErrHeld = errors.New("another process holds the lock, and has not let go for two seconds")

// file is an open file of a [disk].
type file interface {
	io.ReadWriteCloser
	Stat() (fs.FileInfo, error)
	Sync() error
}

// disk is every operation on files that is done here, so that a test can make each of them fail, or
// forget what was not synced.
type disk interface {
	Open(name string) (file, error)
	Create(name string) (file, error) // a new one, for its owner only
	Rename(old, new string) error
	Remove(name string) error
	Mkdir(name string) error
	SyncDir(name string) error
	Stat(name string) (fs.FileInfo, error)
	ReadDir(name string) ([]fs.DirEntry, error)
	Touch(name string, at time.Time) error
	Free() (int64, error) // negative: unknown
	Lock() (func() error, error)
	Close() error
}

// folder is a real one. Nothing reaches outside it, by whatever links someone put there.
type folder struct {
	root *os.Root
	dir  string
	wait time.Duration // for the lock
}

func openFolder(dir string, create bool) (disk, error) {
	if create {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return nil, err
		}
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	return &folder{root, dir, lockWait}, nil
}

func (d *folder) Open(name string) (file, error) {
	f, err := regular.Open(d.root, name)
	if err != nil {
		return nil, err
	}
	return f, nil
}

func (d *folder) Create(name string) (file, error) {
	f, err := d.root.OpenFile(name, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return nil, err
	}
	return f, nil
}

func (d *folder) Rename(old, new string) error               { return d.root.Rename(old, new) }
func (d *folder) Remove(name string) error                   { return d.root.Remove(name) }
func (d *folder) Mkdir(name string) error                    { return d.root.Mkdir(name, 0o700) }
func (d *folder) Stat(name string) (fs.FileInfo, error)      { return d.root.Lstat(name) }
func (d *folder) ReadDir(name string) ([]fs.DirEntry, error) { return fs.ReadDir(d.root.FS(), name) }
func (d *folder) Touch(name string, at time.Time) error      { return d.root.Chtimes(name, at, at) }
func (d *folder) Close() error                               { return d.root.Close() }

func (d *folder) SyncDir(name string) error {
	f, err := d.root.Open(name)
	if err != nil {
		return err
	}
	defer f.Close()
	// Some file systems cannot sync folders and say so; there is nothing better to do there.
	if err := f.Sync(); err != nil && !errors.Is(err, syscall.EINVAL) && !errors.Is(err, syscall.ENOTSUP) {
		return err
	}
	return nil
}

func (d *folder) Free() (int64, error) {
	var st unix.Statfs_t
	if err := unix.Statfs(d.dir, &st); err != nil {
		return -1, err
	}
	return int64(st.Bavail) * int64(st.Bsize), nil // of different types on different processors
}

// Lock waits in turn: who holds the lock and wants it again comes after the one that waits for it.
// Without .turn, a server that keeps many blocks one after the other would leave another only the
// moments in between.
func (d *folder) Lock() (func() error, error) {
	end := time.Now().Add(d.wait)
	turn, err := d.flock(".turn", end)
	if err != nil {
		return nil, err
	}
	f, err := d.flock(".lock", end)
	if err = errors.Join(err, turn.Close()); err != nil {
		return nil, err
	}
	return f.Close, nil
}

// flock waits for the lock of a file, which closing it gives back.
func (d *folder) flock(name string, end time.Time) (*os.File, error) {
	f, err := d.root.OpenFile(name, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	for ; ; <-time.After(lockLook) {
		err = unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		if err != unix.EINTR && err != unix.EWOULDBLOCK {
			break
		}
		if err == unix.EWOULDBLOCK && time.Now().After(end) {
			_ = f.Close()
			return nil, fmt.Errorf("%s: %w", path.Join(d.dir, name), ErrHeld)
		}
	}
	if err != nil && !errors.Is(err, unix.ENOTSUP) && !errors.Is(err, unix.ENOLCK) {
		// network file systems without locks: alone we are safe still
		_ = f.Close()
		return nil, fmt.Errorf("lock: %w", err)
	}
	return f, nil
}

func locked(d disk, f func() error) error {
	unlock, err := d.Lock()
	if err != nil {
		return err
	}
	return errors.Join(f(), unlock())
}
