package store

import (
	"errors"
	"os"
	"path"
	"time"

	"github.com/axle-llm/axle/internal/folder"
)

// File is an open file of a [Disk].
type File = folder.File

// Disk is every operation on files that the store does, so that a test can make each of them fail,
// or forget what was not synced. Lock waits for as long as it takes.
type Disk interface {
	folder.Disk
	// Hold locks a file until release is called or the process ends; ok is false where another
	// holds it.
	Hold(name string, create bool) (release func() error, ok bool, err error)
	Path(name string) string // the real path; empty when there is none
}

// rootDisk is a real folder.
type rootDisk struct{ *folder.Root }

func openDisk(dir string) (Disk, error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	root, err := folder.Open(dir, 0o644)
	if err != nil {
		return nil, err
	}
	return rootDisk{root}, nil
}

func (d rootDisk) Lock() (func() error, error) {
	f, err := d.Root.Lock(".lock", true, time.Time{})
	if errors.Is(err, errors.ErrUnsupported) { // network file systems without locks: alone we are safe still
		return func() error { return nil }, nil
	}
	if err != nil {
		return nil, err
	}
	return f.Close, nil
}

func (d rootDisk) Hold(name string, create bool) (release func() error, ok bool, err error) {
	f, err := d.Root.Lock(name, create, time.Now())
	if errors.Is(err, folder.ErrHeld) {
		return nil, false, nil
	}
	if err != nil {
		return nil, false, err
	}
	return f.Close, true, nil
}

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
