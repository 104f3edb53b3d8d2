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

// memDisk is a disk in memory that can fail at the n-th write, sync or rename, and that remembers what was synced, so that it can say what a
// power cut might have left.
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
	kind     byte // c create, w write, t truncate, s sync, r rename, d remove, m mkdir, D sync folder
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
		return &fs.PathError{Op: "sync", Path: f.name, Err: err}
	}
	f.d.note(event{kind: 's', inode: f.i})
	return nil
}

// crash is what might be on disk if the power went after the first n events: what was synced is there; of the rest, every write may have
// reached the disk, in part or not at all, and every name may have been made, changed or removed, each by itself and in any order of arrival
// that keeps the order of what depends on each other.
func (d *memDisk) crash(n int, r *rand.Rand) *memDisk {
	log := d.log[:n]
	synced := map[int]int{}     // inode to the event of its last sync
	folders := map[string]int{} // folder to the event of its last sync
	for i, e := range log {
		switch e.kind {
		case 's':
			synced[e.inode] = i
		case 'D':
			folders[e.name] = i
		}
	}
	out := newMemDisk()
	for _, i := range d.inodes {
		out.inodes = append(out.inodes, &inode{time: i.time})
	}
	lasts := func(i int, name string) bool {
		at, ok := folders[path.Dir(name)]
		return ok && i < at
	}
	for i, e := range log {
		switch e.kind {
		case 'w', 't':
			at, ok := synced[e.inode]
			sure := ok && i < at
			if !sure && r.IntN(2) == 0 {
				continue
			}
			data := e.data
			if !sure && len(data) > 0 && r.IntN(3) == 0 { // torn
				data = data[:r.IntN(len(data))]
			}
			if e.kind == 't' {
				out.inodes[e.inode].truncate(e.off)
			} else {
				out.inodes[e.inode].write(data, e.off)
			}
		case 'c', 'm':
			if !lasts(i, e.name) && r.IntN(2) == 0 {
				continue
			}
			if _, ok := out.names[path.Dir(e.name)]; ok {
				out.names[e.name] = e.inode
				if e.kind == 'm' {
					out.names[e.name] = -1
				}
			}
		case 'd':
			if !lasts(i, e.name) && r.IntN(2) == 0 {
				continue
			}
			delete(out.names, e.name)
		case 'r':
			if !lasts(i, e.to) && r.IntN(2) == 0 {
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
