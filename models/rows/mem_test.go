package rows

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"math/rand/v2"
	"path"
	"slices"
	"strings"
	"syscall"
	"time"
)

// mem is a disk in memory that can fail at any operation, and whose power can be cut: what was not
// synced may then be there, or not, or be something else.
type mem struct {
	names  map[string]*inode // as programs see it
	synced map[string]*inode // as a power cut leaves it at the least
	dirs   map[string]bool
	ops    int
	failAt int  // the operation that fails, from 1; 0: none
	dead   bool // and all after it
	err    error
	free   int64
}

type inode struct {
	data   []byte
	stable []byte // what was synced; nil: nothing
	at     time.Time
}

// now is what a caller is told of it: it may change after.
func (i *inode) now() *inode { return &inode{data: i.data, at: i.at} }

func newMem() *mem {
	return &mem{names: map[string]*inode{}, synced: map[string]*inode{}, dirs: map[string]bool{".": true}, free: -1}
}

func (m *mem) op() error {
	if m.ops++; m.ops == m.failAt || m.dead && m.ops > m.failAt {
		return m.err
	}
	return nil
}

// cut is what a power cut may leave.
func (m *mem) cut(rng *rand.Rand) *mem {
	out := newMem()
	out.dirs = map[string]bool{}
	for d := range m.dirs {
		out.dirs[d] = true
	}
	pick := func(name string, i *inode) {
		data := i.stable
		if data == nil || !bytes.Equal(data, i.data) {
			data = slices.Clone(i.data[:rng.IntN(len(i.data)+1)]) // in part, with a page of nothing in it
			if n := len(data); n > 0 && rng.IntN(2) == 0 {
				clear(data[rng.IntN(n):])
			}
		}
		at := &inode{data: data, stable: data, at: i.at}
		out.names[name], out.synced[name] = at, at
	}
	for name, i := range m.synced {
		if m.names[name] != i && rng.IntN(2) == 0 {
			continue // its removal, or what took its place, lasted
		}
		pick(name, i)
	}
	for name, i := range m.names {
		if m.synced[name] != i && rng.IntN(2) == 0 {
			pick(name, i)
		}
	}
	return out
}

type memFile struct {
	file // what is not done here
	m    *mem
	name string
	i    *inode
	at   int
}

func (f *memFile) Read(b []byte) (int, error) {
	if err := f.m.op(); err != nil {
		return 0, err
	}
	if f.at >= len(f.i.data) {
		return 0, io.EOF
	}
	n := copy(b, f.i.data[f.at:])
	f.at += n
	return n, nil
}

func (f *memFile) Write(b []byte) (int, error) {
	if err := f.m.op(); err != nil {
		f.i.data = append(f.i.data, b[:len(b)/2]...)
		return len(b) / 2, err
	}
	f.i.data = append(f.i.data, b...)
	return len(b), nil
}

func (f *memFile) Sync() error {
	if err := f.m.op(); err != nil {
		return err
	}
	f.i.stable = slices.Clone(f.i.data)
	return nil
}

func (f *memFile) Close() error               { return f.m.op() }
func (f *memFile) Stat() (fs.FileInfo, error) { return memInfo{f.name, f.i.now(), false}, f.m.op() }

type memInfo struct {
	name string
	i    *inode
	dir  bool
}

func (i memInfo) Name() string { return path.Base(i.name) }
func (i memInfo) Size() int64  { return int64(len(i.i.data)) }
func (i memInfo) IsDir() bool  { return i.dir }
func (i memInfo) Sys() any     { return nil }
func (i memInfo) Mode() fs.FileMode {
	if i.dir {
		return fs.ModeDir | 0o700
	}
	return 0o600
}
func (i memInfo) ModTime() time.Time { return i.i.at }

func (m *mem) Open(name string) (file, error) {
	if err := m.op(); err != nil {
		return nil, err
	}
	i := m.names[name]
	if i == nil {
		return nil, fs.ErrNotExist
	}
	return &memFile{m: m, name: name, i: i}, nil
}

func (m *mem) Create(name string) (file, error) {
	if err := m.op(); err != nil {
		return nil, err
	}
	if m.names[name] != nil || !m.dirs[path.Dir(name)] {
		return nil, fs.ErrInvalid
	}
	m.names[name] = &inode{}
	return &memFile{m: m, name: name, i: m.names[name]}, nil
}

func (m *mem) Rename(old, new string) error {
	if err := m.op(); err != nil {
		return err
	}
	if m.names[old] == nil {
		return fs.ErrNotExist
	}
	m.names[new] = m.names[old]
	delete(m.names, old)
	return nil
}

func (m *mem) Remove(name string) error {
	if err := m.op(); err != nil {
		return err
	}
	if m.dirs[name] {
		delete(m.dirs, name)
		return nil
	}
	if m.names[name] == nil {
		return fs.ErrNotExist
	}
	delete(m.names, name)
	return nil
}

func (m *mem) Mkdir(name string) error {
	if err := m.op(); err != nil {
		return err
	}
	m.dirs[name] = true
	return nil
}

func (m *mem) SyncDir(dir string) error {
	if err := m.op(); err != nil {
		return err
	}
	for name := range m.synced {
		if path.Dir(name) == dir && m.names[name] == nil {
			delete(m.synced, name)
		}
	}
	for name, i := range m.names {
		if path.Dir(name) == dir {
			m.synced[name] = i
		}
	}
	return nil
}

func (m *mem) Stat(name string) (fs.FileInfo, error) {
	if err := m.op(); err != nil {
		return nil, err
	}
	if m.dirs[name] {
		return memInfo{name, &inode{}, true}, nil
	}
	if i := m.names[name]; i != nil {
		return memInfo{name, i.now(), false}, nil
	}
	return nil, fs.ErrNotExist
}

func (m *mem) ReadDir(dir string) (all []fs.DirEntry, err error) {
	if err := m.op(); err != nil {
		return nil, err
	}
	for name, i := range m.names {
		if dir == "." && !strings.Contains(name, "/") || strings.HasPrefix(name, dir+"/") {
			all = append(all, fs.FileInfoToDirEntry(memInfo{name, i.now(), false}))
		}
	}
	for name := range m.dirs {
		if name != "." && dir == "." {
			all = append(all, fs.FileInfoToDirEntry(memInfo{name, &inode{}, true}))
		}
	}
	if m.failAt > 0 { // faults are counted: the order must be the same each time
		slices.SortFunc(all, func(a, b fs.DirEntry) int { return strings.Compare(a.Name(), b.Name()) })
	}
	return all, nil
}

func (m *mem) Touch(name string, at time.Time) error {
	if err := m.op(); err != nil {
		return err
	}
	if m.names[name] == nil {
		return fs.ErrNotExist
	}
	m.names[name].at = at
	return nil
}

func (m *mem) Free() (int64, error) { return m.free, m.op() }

func (m *mem) Lock() (func() error, error) { return func() error { return nil }, m.op() }

func (m *mem) Reopen() error { return m.op() }

func (m *mem) Close() error { return nil }

var errIO = errors.Join(syscall.EIO)
