package rows

import (
	"crypto/rand"
	"errors"
	"io/fs"
	"os"
	"path"
	"syscall"
	"time"

	folders "github.com/axle-llm/axle/internal/folder"
	_ "github.com/axle-llm/axle/internal/plain" // says which machines this cannot be built for
)

var errFull = syscall.ENOSPC

// lockWait is how long a change waits for another process's. A server does not listen, nor end,
// while it waits. A process that holds the lock for longer does not make room: it hangs or was
// stopped.
const lockWait = 2 * time.Second

// ErrHeld is a lock file that another process has held for two seconds.
var ErrHeld = folders.ErrHeld

// file is an open file of a [disk].
type file = folders.File

// disk is every operation on files that is done here, so that a test can make each of them fail, or
// forget what was not synced.
type disk interface {
	folders.Disk
	Touch(name string, at time.Time) error
	Reopen() error // by its path: the handle is stale
}

// folder is a real one, whose files are for their owner only.
type folder struct {
	*folders.Root
	wait time.Duration // for the lock
}

func openFolder(dir string, create bool) (disk, error) {
	if create {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return nil, err
		}
	}
	root, err := folders.Open(dir, 0o600)
	if err != nil {
		return nil, err
	}
	return &folder{root, lockWait}, nil
}

// Lock waits in turn: a process that holds the lock and wants it again comes after the one that
// waits for it. Without .turn, a server that keeps many blocks one after the other would leave
// another only the moments in between.
func (d *folder) Lock() (func() error, error) {
	end := time.Now().Add(d.wait)
	turn, err := d.Root.Lock(".turn", true, end)
	if errors.Is(err, errors.ErrUnsupported) { // network file systems without locks: alone we are safe still
		return func() error { return nil }, nil
	}
	if err != nil {
		return nil, err
	}
	f, err := d.Root.Lock(".lock", true, end)
	if err = errors.Join(err, turn.Close()); err != nil {
		return nil, err
	}
	return f.Close, nil
}

func locked(d disk, f func() error) error {
	unlock, err := d.Lock()
	if err != nil {
		return err
	}
	return errors.Join(f(), unlock())
}

// remove removes a file. It is no error when it is gone already.
func remove(d disk, name string) error {
	if err := d.Remove(name); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// write makes a file that is there whole or not at all.
func write(d disk, name string, parts ...[]byte) error {
	return folders.Write(d, path.Join(path.Dir(name), ".new-"+rand.Text()[:12]), name, parts...)
}
