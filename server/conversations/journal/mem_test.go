package journal

import (
	"bytes"
	"io"
	"io/fs"
	"math/rand/v2"
	"path"
	"slices"
	"strings"
	"syscall"
	"time"

	folders "github.com/axle-llm/axle/internal/folder"
)

// mem is a disk in memory that can fail at any operation, and whose power can be cut: what was not
// synced may then be there, or not, or in part.
type mem struct {
	names  map[string]*inode // as programs see it
	synced map[string]*inode // as a power cut leaves it at the least
	dirs   map[string]bool
	ops    int
	failAt int  // the operation that fails, from 1; 0: none
	dead   bool // and all after it
	free   int64
	locked bool
}

type inode struct{ data, stable []byte }

func newMem() *mem {
	return &mem{names: map[string]*inode{}, synced: map[string]*inode{}, dirs: map[string]bool{".": true}, free: -1}
}

func (m *mem) op() error {
	if m.ops++; m.ops == m.failAt || m.dead && m.failAt > 0 && m.ops > m.failAt {
		return syscall.EIO
	}
	return nil
}

// cut is what a power cut may leave. Folders that were made last: Mkdir is journalled.
func (m *mem) cut(rng *rand.Rand) *mem {
	out := newMem()
	out.dirs = m.dirs
	pick := func(name string, i *inode) {
		data := slices.Clone(i.stable)
		if !bytes.Equal(i.stable, i.data) {
			// Of what was written after the last sync a part is there, whose end may be empty.
			from := len(i.stable)
			if from > len(i.data) || !bytes.Equal(i.stable, i.data[:from]) {
				from = 0
			}
			data = slices.Clone(i.data[:from+rng.IntN(len(i.data)-from+1)])
			if n := len(data) - from; n > 0 && rng.IntN(2) == 0 {
				clear(data[from+rng.IntN(n):])
			}
		}
		at := &inode{data, slices.Clone(data)}
		out.names[name], out.synced[name] = at, at
	}
	for name, i := range m.synced {
		now := m.names[name]
		switch {
		case now == i || rng.IntN(2) == 0:
			pick(name, i)
		case now != nil: // a rename over it lasted: there is always one or the other
			pick(name, now)
		}
	}
	for name, i := range m.names {
		if m.synced[name] == nil && rng.IntN(2) == 0 {
			pick(name, i)
		}
	}
	return out
}

// holds reports whether some file has these bytes.
func (m *mem) holds(b string) bool {
	for _, i := range m.names {
		if bytes.Contains(i.data, []byte(b)) {
			return true
		}
	}
	return false
}

type memFile struct {
	folders.File // what is not done here
	m            *mem
	name         string
	i            *inode
	at           int
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

func (f *memFile) ReadAt(b []byte, off int64) (int, error) {
	if err := f.m.op(); err != nil {
		return 0, err
	}
	if off >= int64(len(f.i.data)) {
		return 0, io.EOF
	}
	if n := copy(b, f.i.data[off:]); n < len(b) {
		return n, io.EOF
	}
	return len(b), nil
}

func (f *memFile) Write(b []byte) (int, error) {
	n, err := f.WriteAt(b, int64(f.at))
	f.at += n
	return n, err
}

func (f *memFile) WriteAt(b []byte, off int64) (int, error) {
	err := f.m.op()
	if err != nil {
		b = b[:len(b)/2]
	}
	for int64(len(f.i.data)) < off+int64(len(b)) {
		f.i.data = append(f.i.data, 0)
	}
	copy(f.i.data[off:], b)
	return len(b), err
}

func (f *memFile) Sync() error {
	if err := f.m.op(); err != nil {
		return err
	}
	f.i.stable = slices.Clone(f.i.data)
	return nil
}

func (f *memFile) Close() error { return f.m.op() }

type memInfo struct {
	name string
	i    *inode
	dir  bool
}

func (i memInfo) Name() string       { return path.Base(i.name) }
func (i memInfo) Size() int64        { return int64(len(i.i.data)) }
func (i memInfo) IsDir() bool        { return i.dir }
func (i memInfo) Sys() any           { return nil }
func (i memInfo) ModTime() time.Time { return time.Time{} }
func (i memInfo) Mode() fs.FileMode {
	if i.dir {
		return fs.ModeDir | 0o700
	}
	return 0o600
}

func (m *mem) Open(name string) (folders.File, error) {
	if err := m.op(); err != nil {
		return nil, err
	}
	if m.names[name] == nil {
		return nil, fs.ErrNotExist
	}
	return &memFile{m: m, name: name, i: m.names[name]}, nil
}

func (m *mem) Create(name string) (folders.File, error) {
	if err := m.op(); err != nil {
		return nil, err
	}
	if !m.dirs[path.Dir(name)] {
		return nil, fs.ErrNotExist
	}
	if m.names[name] == nil {
		m.names[name] = &inode{}
	}
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
	if i := m.names[name]; i != nil {
		return memInfo{name, i, false}, nil
	}
	return nil, fs.ErrNotExist
}

func (m *mem) ReadDir(dir string) (all []fs.DirEntry, err error) {
	if err := m.op(); err != nil {
		return nil, err
	}
	for name, i := range m.names {
		if strings.HasPrefix(name, dir+"/") {
			all = append(all, fs.FileInfoToDirEntry(memInfo{name, i, false}))
		}
	}
	slices.SortFunc(all, func(a, b fs.DirEntry) int { return strings.Compare(a.Name(), b.Name()) })
	return all, nil
}

func (m *mem) Free() (int64, error) { return m.free, m.op() }

func (m *mem) Lock() (func() error, error) {
	if m.locked {
		return nil, folders.ErrHeld
	}
	m.locked = true
	return func() error { m.locked = false; return nil }, m.op()
}

func (m *mem) Close() error { return nil }
