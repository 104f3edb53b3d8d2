package store

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"path"
	"slices"
	"strings"
	"sync"
	"time"
)

// memDisk is a disk in memory that can fail at the n-th write, sync or rename, and that remembers
// what was synced, so that it can say what a power cut might have left. A file's sync that fails
// loses what was written since the last: as on Linux, it can be read until the power goes, and no
// later sync saves it. A folder's names stay unsynced and a later sync makes them last.
type memDisk struct {
	mu     sync.Mutex
	inodes []*inode
	names  map[string]int // path to inode; folders are −1
	log    []event
	keep   bool // log events

	ops    int // writes, syncs, renames, creates and removes so far
	failAt int // the operation that fails; 0: none
	fail   error
	sticky bool // all later ones fail too, as on a full or read-only disk
	fired  bool
	free   int64

	refuse func(name string, n int, grows bool) error // asked before every create and every write of n bytes
}

type inode struct {
	data []byte
	time time.Time
	held bool
}

type event struct {
	kind     byte // c create, w write, t truncate, s sync, f sync that failed, r rename, d remove, m mkdir, D sync folder
	inode    int
	name, to string
	off      int64
	data     []byte
}

func newMemDisk() *memDisk {
	return &memDisk{names: map[string]int{".": -1}, free: 1 << 40}
}

// step counts an operation that can fail.
func (d *memDisk) step() error {
	d.ops++
	if d.failAt > 0 && (d.ops == d.failAt || d.sticky && d.ops > d.failAt) {
		d.fired = true
		return d.fail
	}
	return nil
}

func (d *memDisk) note(e event) {
	if d.keep {
		d.log = append(d.log, e)
	}
}

func (d *memDisk) parent(name string) error {
	if i, ok := d.names[path.Dir(name)]; !ok || i != -1 {
		return &fs.PathError{Op: "open", Path: name, Err: fs.ErrNotExist}
	}
	return nil
}

func (d *memDisk) Open(name string) (File, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	i, ok := d.names[name]
	if !ok || i < 0 {
		return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrNotExist}
	}
	return &memFile{d: d, i: i, name: name}, nil
}

func (d *memDisk) Create(name string) (File, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := d.parent(name); err != nil {
		return nil, err
	}
	i, ok := d.names[name]
	if !ok {
		if d.refuse != nil {
			if err := d.refuse(name, 0, true); err != nil {
				return nil, &fs.PathError{Op: "create", Path: name, Err: err}
			}
		}
		if err := d.step(); err != nil {
			return nil, &fs.PathError{Op: "create", Path: name, Err: err}
		}
		i = len(d.inodes)
		d.inodes = append(d.inodes, &inode{time: time.Now()})
		d.names[name] = i
		d.note(event{kind: 'c', inode: i, name: name})
	}
	return &memFile{d: d, i: i, name: name}, nil
}

func (d *memDisk) Rename(old, new string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	i, ok := d.names[old]
	if !ok {
		return &fs.PathError{Op: "rename", Path: old, Err: fs.ErrNotExist}
	}
	if err := d.parent(new); err != nil {
		return err
	}
	if err := d.step(); err != nil {
		return &fs.PathError{Op: "rename", Path: old, Err: err}
	}
	delete(d.names, old)
	d.names[new] = i
	d.note(event{kind: 'r', inode: i, name: old, to: new})
	return nil
}

func (d *memDisk) Remove(name string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if _, ok := d.names[name]; !ok {
		return &fs.PathError{Op: "remove", Path: name, Err: fs.ErrNotExist}
	}
	for n := range d.names {
		if strings.HasPrefix(n, name+"/") {
			return &fs.PathError{Op: "remove", Path: name, Err: errors.New("not empty")}
		}
	}
	if err := d.step(); err != nil {
		return &fs.PathError{Op: "remove", Path: name, Err: err}
	}
	delete(d.names, name)
	d.note(event{kind: 'd', name: name})
	return nil
}

func (d *memDisk) Mkdir(name string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if _, ok := d.names[name]; ok {
		return nil
	}
	if err := d.parent(name); err != nil {
		return err
	}
	if err := d.step(); err != nil {
		return &fs.PathError{Op: "mkdir", Path: name, Err: err}
	}
	d.names[name] = -1
	d.note(event{kind: 'm', name: name})
	return nil
}

func (d *memDisk) SyncDir(name string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if i, ok := d.names[name]; !ok || i != -1 {
		return &fs.PathError{Op: "sync", Path: name, Err: fs.ErrNotExist}
	}
	if err := d.step(); err != nil {
		return &fs.PathError{Op: "sync", Path: name, Err: err}
	}
	d.note(event{kind: 'D', name: name})
	return nil
}

func (d *memDisk) Stat(name string) (fs.FileInfo, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.stat(name)
}

func (d *memDisk) stat(name string) (fs.FileInfo, error) {
	i, ok := d.names[name]
	if !ok {
		return nil, &fs.PathError{Op: "stat", Path: name, Err: fs.ErrNotExist}
	}
	if i < 0 {
		return info{path.Base(name), 0, true}, nil
	}
	return memInfo{info{path.Base(name), int64(len(d.inodes[i].data)), false}, d.inodes[i].time}, nil
}

type memInfo struct {
	info
	time time.Time
}

func (i memInfo) ModTime() time.Time { return i.time }

func (d *memDisk) ReadDir(name string) ([]fs.DirEntry, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if i, ok := d.names[name]; !ok || i != -1 {
		return nil, &fs.PathError{Op: "readdir", Path: name, Err: fs.ErrNotExist}
	}
	var out []fs.DirEntry
	for n := range d.names {
		if n != "." && path.Dir(n) == name {
			st, err := d.stat(n)
			if err != nil {
				return nil, err
			}
			out = append(out, fs.FileInfoToDirEntry(st))
		}
	}
	slices.SortFunc(out, func(a, b fs.DirEntry) int { return strings.Compare(a.Name(), b.Name()) })
	return out, nil
}

func (d *memDisk) Free() (int64, error)        { return d.free, nil }
func (d *memDisk) Lock() (func() error, error) { return func() error { return nil }, nil }

func (d *memDisk) Hold(name string, create bool) (func() error, bool, error) {
	open := d.Open
	if create {
		open = d.Create
	}
	f, err := open(name)
	if err != nil {
		return nil, false, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	n := d.inodes[f.(*memFile).i]
	if n.held {
		return nil, false, nil
	}
	n.held = true
	return func() error { d.mu.Lock(); n.held = false; d.mu.Unlock(); return nil }, true, nil
}

func (d *memDisk) Path(name string) string { return "/memory/" + name }
func (d *memDisk) Close() error            { return nil }

type memFile struct {
	d    *memDisk
	i    int
	name string
	at   int64
}

func (f *memFile) Close() error { return nil }

func (f *memFile) Stat() (fs.FileInfo, error) {
	f.d.mu.Lock()
	defer f.d.mu.Unlock()
	n := f.d.inodes[f.i]
	return memInfo{info{path.Base(f.name), int64(len(n.data)), false}, n.time}, nil
}

func (f *memFile) Read(p []byte) (int, error) {
	n, err := f.ReadAt(p, f.at)
	f.at += int64(n)
	if n > 0 {
		err = nil
	}
	return n, err
}

func (f *memFile) ReadAt(p []byte, off int64) (int, error) {
	f.d.mu.Lock()
	defer f.d.mu.Unlock()
	data := f.d.inodes[f.i].data
	if off >= int64(len(data)) {
		return 0, io.EOF
	}
	n := copy(p, data[off:])
	if n < len(p) {
		return n, io.EOF
	}
	return n, nil
}

func (f *memFile) Write(p []byte) (int, error) {
	n, err := f.WriteAt(p, f.at)
	f.at += int64(n)
	return n, err
}

func (f *memFile) WriteAt(p []byte, off int64) (int, error) {
	f.d.mu.Lock()
	defer f.d.mu.Unlock()
	if f.d.refuse != nil {
		if err := f.d.refuse(f.name, len(p), off+int64(len(p)) > int64(len(f.d.inodes[f.i].data))); err != nil {
			return 0, &fs.PathError{Op: "write", Path: f.name, Err: err}
		}
	}
	if err := f.d.step(); err != nil {
		return 0, &fs.PathError{Op: "write", Path: f.name, Err: err}
	}
	f.d.inodes[f.i].write(p, off)
	f.d.note(event{kind: 'w', inode: f.i, off: off, data: slices.Clone(p)})
	return len(p), nil
}

func (n *inode) write(p []byte, off int64) {
	if end := off + int64(len(p)); end > int64(len(n.data)) {
		n.data = append(n.data, make([]byte, end-int64(len(n.data)))...)
	}
	copy(n.data[off:], p)
}

func (n *inode) truncate(size int64) {
	if size <= int64(len(n.data)) {
		n.data = n.data[:size]
		return
	}
	n.data = append(n.data, make([]byte, size-int64(len(n.data)))...)
}

func (f *memFile) Truncate(size int64) error {
	f.d.mu.Lock()
	defer f.d.mu.Unlock()
	if err := f.d.step(); err != nil {
		return &fs.PathError{Op: "truncate", Path: f.name, Err: err}
	}
	f.d.inodes[f.i].truncate(size)
	f.d.note(event{kind: 't', inode: f.i, off: size})
	return nil
}

func (f *memFile) Sync() error {
	f.d.mu.Lock()
	defer f.d.mu.Unlock()
	if err := f.d.step(); err != nil {
		f.d.note(event{kind: 'f', inode: f.i})
		return &fs.PathError{Op: "sync", Path: f.name, Err: err}
	}
	f.d.note(event{kind: 's', inode: f.i})
	return nil
}

// luck says what of the unsynced reaches the disk before the power goes.
type luck struct {
	data func() bool     // a write
	torn func(n int) int // how many of a write's n bytes
	name func() bool     // a name made, changed or removed
}

// worst are the two ends: names reach the disk before the data they name, and nothing does.
func worst() []luck {
	never, always, all := func() bool { return false }, func() bool { return true }, func(n int) int { return n }
	return []luck{{never, all, always}, {never, all, never}}
}

func anyLuck(r *rand.Rand) luck {
	return luck{
		data: func() bool { return r.IntN(2) == 1 },
		torn: func(n int) int {
			if n > 0 && r.IntN(3) == 0 {
				return r.IntN(n)
			}
			return n
		},
		name: func() bool { return r.IntN(2) == 1 },
	}
}

// crash is what might be on disk if the power went after the first n events: what was synced is
// there; of the rest, every write may have reached the disk, in part or not at all, and every name
// may have been made, changed or removed, each by itself and in any order of arrival that keeps the
// order of what depends on each other.
func (d *memDisk) crash(n int, l luck) *memDisk {
	log := d.log[:n]
	fate := make([]byte, n)     // of each write: s, f, or 0 for neither
	next := map[int]byte{}      // inode to the fate of what is written before
	folders := map[string]int{} // folder to the event of its last sync
	for i := n - 1; i >= 0; i-- {
		switch e := log[i]; e.kind {
		case 's', 'f':
			next[e.inode] = e.kind
		case 'w', 't':
			fate[i] = next[e.inode]
		case 'D':
			if _, ok := folders[e.name]; !ok {
				folders[e.name] = i
			}
		}
	}
	out := newMemDisk()
	for _, i := range d.inodes {
		out.inodes = append(out.inodes, &inode{time: i.time})
	}
	reached := func(i int, name string) bool {
		at, ok := folders[path.Dir(name)]
		return ok && i < at || l.name()
	}
	for i, e := range log {
		switch e.kind {
		case 'w':
			switch {
			case fate[i] == 's':
				out.inodes[e.inode].write(e.data, e.off)
			case fate[i] == 0 && l.data():
				out.inodes[e.inode].write(e.data[:l.torn(len(e.data))], e.off)
			}
		case 't':
			if fate[i] == 's' || l.data() {
				out.inodes[e.inode].truncate(e.off)
			}
		case 'c', 'm':
			if !reached(i, e.name) {
				continue
			}
			if _, ok := out.names[path.Dir(e.name)]; ok {
				out.names[e.name] = e.inode
				if e.kind == 'm' {
					out.names[e.name] = -1
				}
			}
		case 'd':
			if reached(i, e.name) {
				delete(out.names, e.name)
			}
		case 'r':
			if !reached(i, e.to) {
				continue
			}
			delete(out.names, e.name)
			if _, ok := out.names[path.Dir(e.to)]; ok {
				out.names[e.to] = e.inode
			}
		}
	}
	return out
}

func (d *memDisk) String() string {
	var b strings.Builder
	var names []string
	for n := range d.names {
		names = append(names, n)
	}
	slices.Sort(names)
	for _, n := range names {
		if i := d.names[n]; i >= 0 {
			fmt.Fprintf(&b, "%s\t%d\n", n, len(d.inodes[i].data))
		}
	}
	return b.String()
}
