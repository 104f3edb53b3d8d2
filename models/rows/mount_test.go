package rows

import (
	"io"
	"io/fs"
	"sync"
	"time"
)

// mount is a disk of a server of files: several may show one. What fault is told may wait, and
// fails where it gives an error; torn reads end early or bring something else.
type mount struct {
	disk
	server   *server
	fault    func(op, name string) error
	torn     func() bool
	reopened int
}

// server is what mounts share.
type server struct {
	mu   sync.Mutex
	lock chan struct{}
}

func newMounts(n int) (all []*mount) {
	m, s := newMem(), &server{lock: make(chan struct{}, 1)}
	for range n {
		all = append(all, &mount{disk: m, server: s})
	}
	return all
}

// on runs an operation.
func on[T any](m *mount, op, name string, f func() (T, error)) (got T, err error) {
	if m.fault != nil {
		if err := m.fault(op, name); err != nil {
			return got, err
		}
	}
	m.server.mu.Lock()
	defer m.server.mu.Unlock()
	return f()
}

func (m *mount) Stat(name string) (fs.FileInfo, error) {
	return on(m, "stat", name, func() (fs.FileInfo, error) { return m.disk.Stat(name) })
}

func (m *mount) Open(name string) (file, error) {
	f, err := on(m, "open", name, func() (file, error) { return m.disk.Open(name) })
	if err != nil {
		return nil, err
	}
	return &mounted{f, m, name}, nil
}

func (m *mount) Create(name string) (file, error) {
	f, err := on(m, "create", name, func() (file, error) { return m.disk.Create(name) })
	if err != nil {
		return nil, err
	}
	return &mounted{f, m, name}, nil
}

func (m *mount) change(op, name string, f func() error) error {
	_, err := on(m, op, name, func() (struct{}, error) { return struct{}{}, f() })
	return err
}

func (m *mount) Rename(old, new string) error {
	return m.change("rename", old, func() error { return m.disk.Rename(old, new) })
}
func (m *mount) Remove(name string) error {
	return m.change("remove", name, func() error { return m.disk.Remove(name) })
}
func (m *mount) Mkdir(name string) error {
	return m.change("mkdir", name, func() error { return m.disk.Mkdir(name) })
}
func (m *mount) SyncDir(name string) error {
	return m.change("syncdir", name, func() error { return m.disk.SyncDir(name) })
}
func (m *mount) Touch(name string, at time.Time) error {
	return m.change("touch", name, func() error { return m.disk.Touch(name, at) })
}
func (m *mount) ReadDir(name string) ([]fs.DirEntry, error) {
	return on(m, "readdir", name, func() ([]fs.DirEntry, error) { return m.disk.ReadDir(name) })
}
func (m *mount) Free() (int64, error) {
	return on(m, "free", "", func() (int64, error) { return m.disk.Free() })
}

func (m *mount) Reopen() error {
	m.server.mu.Lock()
	defer m.server.mu.Unlock()
	m.reopened++
	return nil
}

func (m *mount) Lock() (func() error, error) {
	m.server.lock <- struct{}{}
	return func() error { <-m.server.lock; return nil }, nil
}

// mounted is an open file of a mount.
type mounted struct {
	file
	m    *mount
	name string
}

func (f *mounted) Read(b []byte) (int, error) {
	n, err := on(f.m, "read", f.name, func() (int, error) { return f.file.Read(b) })
	if f.m.torn != nil && f.m.torn() {
		if n%2 == 0 {
			return 0, io.EOF
		}
		clear(b[n/2 : n])
	}
	return n, err
}

func (f *mounted) Write(b []byte) (int, error) {
	return on(f.m, "write", f.name, func() (int, error) { return f.file.Write(b) })
}
func (f *mounted) Sync() error { return f.m.change("sync", f.name, f.file.Sync) }
func (f *mounted) Stat() (fs.FileInfo, error) {
	return on(f.m, "fstat", f.name, f.file.Stat)
}
func (f *mounted) Close() error { return f.m.change("close", f.name, f.file.Close) }
