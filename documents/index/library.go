package index

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"strings"
	"sync"
	"time"

	"github.com/axle-llm/axle/internal/folder"
)

// Library keeps files, their texts, and the indexes of collections in a folder of mode 0700, a
// folder within for each owner. Each file there is written whole or not at all, so a kill or a
// power cut at any moment leaves what was answered for.
type Library struct {
	Limits
	disk   folder.Disk
	unlock func() error
	memory *memory

	mu      sync.Mutex
	closed  bool
	shelves map[string]*Shelf // by the folder's name
}

// rooted is a real folder as a folder.Disk.
type rooted struct{ *folder.Root }

func (r rooted) Lock() (func() error, error) {
	f, err := r.Root.Lock(lockFile, true, time.Now())
	if errors.Is(err, errors.ErrUnsupported) {
		return func() error { return nil }, nil
	}
	if err != nil {
		return nil, err
	}
	return f.Close, nil
}

// OpenLibrary opens a folder, which is made where it is not there. One process may have it open. A
// folder with anything else in it is refused, and left as it is: what a Library does not know in
// its folders, it removes. Errors: the file system's, folder.ErrHeld.
func OpenLibrary(dir string, l Limits) (*Library, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("index: %w", err)
	}
	if err := own(dir); err != nil {
		return nil, err
	}
	if err := os.Chmod(dir, 0o700); err != nil {
		return nil, fmt.Errorf("index: the folder of documents must be private: %w", err)
	}
	root, err := folder.Open(dir, 0o600)
	if err != nil {
		return nil, fmt.Errorf("index: %w", err)
	}
	return newLibrary(rooted{root}, l)
}

// own refuses a folder of other things: one that no Library had open, and that has more than what
// a new disk has.
func own(dir string) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return fmt.Errorf("index: %w", err)
	}
	other := ""
	for _, e := range entries {
		switch name := e.Name(); {
		case name == lockFile:
			return nil
		case !isShelf(e) && name != "lost+found" && !strings.HasPrefix(name, "."):
			other = name
		}
	}
	if other != "" {
		return fmt.Errorf("index: the folder has other files (%q): name an empty one, or one that is not there yet", other)
	}
	return nil
}

// isShelf says whether an entry of a Library's folder may be an owner's folder, as Of names them.
func isShelf(e fs.DirEntry) bool {
	b, err := hex.DecodeString(e.Name())
	return e.IsDir() && err == nil && len(b) == shelfName
}

func newLibrary(d folder.Disk, l Limits) (*Library, error) {
	unlock, err := d.Lock()
	if err != nil {
		return nil, errors.Join(fmt.Errorf("index: %w", err), d.Close())
	}
	l = l.filled()
	return &Library{Limits: l, disk: d, unlock: unlock, memory: newMemory(l.Memory), shelves: map[string]*Shelf{}}, nil
}

// Close closes the folder. What is asked afterwards fails with ErrClosed, or as the folder does.
func (l *Library) Close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return ErrClosed
	}
	l.closed = true
	return errors.Join(l.unlock(), l.disk.Close())
}

// Of is the shelf of an owner, whose name is kept as its hash only. Errors: ErrClosed, the file
// system's.
func (l *Library) Of(owner string) (*Shelf, error) {
	sum := sha256.Sum256([]byte("axle: documents of " + owner))
	return l.shelf(hex.EncodeToString(sum[:shelfName]))
}

func (l *Library) shelf(name string) (*Shelf, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return nil, ErrClosed
	}
	s := l.shelves[name]
	if s == nil {
		s = &Shelf{lib: l, dir: name}
		if err := s.load(); err != nil {
			return nil, fmt.Errorf("index: %w", err)
		}
		l.shelves[name] = s
	}
	return s, nil
}

// All are the shelves of all owners, for what goes on after a start. What cannot be read is left
// out, and its error is one of those returned.
func (l *Library) All() (list []*Shelf, err error) {
	entries, err := l.disk.ReadDir(".")
	for _, e := range entries {
		if !isShelf(e) {
			continue
		}
		s, serr := l.shelf(e.Name())
		if serr != nil {
			err = errors.Join(err, serr)
			continue
		}
		list = append(list, s)
	}
	return list, err
}

// Shelf is what one owner has.
type Shelf struct {
	lib *Library
	dir string

	mu          sync.Mutex
	used        int64
	files       map[string]*File
	collections map[string]*collection
}

// collection is a Collection with its files.
type collection struct {
	Collection
	entries map[string]*Entry
}

const (
	lockFile   = ".lock"
	shelfName  = 16 // bytes of the hash that a shelf's folder is named by
	aboutFile  = "about.json"
	fileSuffix = ".json"
	dataSuffix = ".data"
	textSuffix = ".text"
	tempSuffix = ".part"
	indexExt   = ".index"
	vectorExt  = ".vectors"
)

func (s *Shelf) at(parts ...string) string { return path.Join(append([]string{s.dir}, parts...)...) }

// load reads what the folder has, and removes what was left by a kill: parts of files, and files
// without what says whose they are.
func (s *Shelf) load() error {
	s.files, s.collections, s.used = map[string]*File{}, map[string]*collection{}, 0
	entries, err := s.lib.disk.ReadDir(s.dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	for _, e := range entries {
		name := e.Name()
		if id, ok := strings.CutSuffix(name, fileSuffix); ok && !e.IsDir() {
			f := new(File)
			if err := s.read(f, name); err == nil && f.ID == id {
				s.files[id] = f
			} else if !errors.Is(err, errRecord) && err != nil {
				return err
			}
		}
	}
	for _, e := range entries {
		name := e.Name()
		id, kind := strings.TrimSuffix(name, path.Ext(name)), path.Ext(name)
		switch {
		case e.IsDir():
			err = s.loadCollection(name)
		case s.files[id] == nil || kind == tempSuffix:
			err = s.lib.disk.Remove(s.at(name))
		default:
			s.used += s.size(name)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (s *Shelf) loadCollection(id string) error {
	entries, err := s.lib.disk.ReadDir(s.at(id))
	if err != nil {
		return err
	}
	c := &collection{entries: map[string]*Entry{}}
	if err := s.read(&c.Collection, id, aboutFile); err != nil || c.ID != id {
		if err != nil && !errors.Is(err, errRecord) {
			return err
		}
		for _, e := range entries { // removing takes them off
			s.used += s.size(id, e.Name())
		}
		return s.removeDir(id)
	}
	for _, e := range entries {
		if file, ok := strings.CutSuffix(e.Name(), fileSuffix); ok && e.Name() != aboutFile {
			entry := new(Entry)
			if err := s.read(entry, id, e.Name()); err == nil && entry.File == file && s.files[file] != nil {
				c.entries[file] = entry
			} else if err != nil && !errors.Is(err, errRecord) {
				return err
			}
		}
	}
	for _, e := range entries {
		file := strings.TrimSuffix(e.Name(), path.Ext(e.Name()))
		if e.Name() != aboutFile && (c.entries[file] == nil || path.Ext(e.Name()) == tempSuffix) {
			if err := s.lib.disk.Remove(s.at(id, e.Name())); err != nil {
				return err
			}
			continue
		}
		s.used += s.size(id, e.Name())
	}
	for _, e := range c.entries {
		if e.Status == Completed { // what is gone or was never finished is made anew
			if _, err := s.lib.disk.Stat(s.at(id, e.File+indexExt)); err != nil {
				e.Status = InProgress
			}
		}
	}
	s.collections[id] = c
	return nil
}

// errRecord is a record that is not there or cannot be read as one.
var errRecord = errors.New("no record")

const maxRecord = 1 << 20

func (s *Shelf) read(to any, parts ...string) error {
	f, err := s.lib.disk.Open(s.at(parts...))
	if errors.Is(err, fs.ErrNotExist) {
		return errRecord
	}
	if err != nil {
		return err
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, maxRecord))
	if err != nil {
		return err
	}
	if json.Unmarshal(b, to) != nil {
		return errRecord
	}
	return nil
}

func (s *Shelf) size(parts ...string) int64 {
	if st, err := s.lib.disk.Stat(s.at(parts...)); err == nil {
		return st.Size()
	}
	return 0
}

// record writes a record. s.mu is held.
func (s *Shelf) record(of any, parts ...string) error {
	b, err := json.Marshal(of)
	if err != nil {
		return err
	}
	return s.write(parts, b)
}

// write writes a file whole, and counts it. s.mu is held.
func (s *Shelf) write(name []string, parts ...[]byte) error {
	size := int64(0)
	for _, p := range parts {
		size += int64(len(p))
	}
	before := s.size(name...)
	//rule:D13 TestLibraryFull false
	if s.used+size-before > s.lib.Bytes && size > before {
		return full("the documents of this key take %d MiB, and may take %d MiB: delete some, or raise --documents-size", s.used>>20,
			s.lib.Bytes>>20)
	}
	at := s.at(name...)
	if err := folder.Write(s.lib.disk, at+tempSuffix, at, parts...); err != nil {
		return fmt.Errorf("index: %w", err)
	}
	s.used += size - before
	return nil
}

// remove removes a file, and counts it. One that is not there is removed already. s.mu is held.
func (s *Shelf) remove(parts ...string) error {
	size := s.size(parts...)
	err := s.lib.disk.Remove(s.at(parts...))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err == nil {
		s.used -= size
	}
	return err
}

// removeDir removes a collection's folder, what says that it is one first.
func (s *Shelf) removeDir(id string) error {
	if err := s.remove(id, aboutFile); err != nil {
		return err
	}
	entries, err := s.lib.disk.ReadDir(s.at(id))
	for _, e := range entries {
		err = errors.Join(err, s.remove(id, e.Name()))
	}
	if err != nil {
		return err
	}
	if err := s.lib.disk.Remove(s.at(id)); err != nil {
		return err
	}
	return s.lib.disk.SyncDir(s.dir)
}

// newID is a name that cannot be guessed.
func newID(prefix string) string {
	var b [12]byte
	_, _ = rand.Read(b[:])
	return prefix + hex.EncodeToString(b[:])
}

func now() int64 { return time.Now().Unix() }

// memory keeps indexes that were used last.
type memory struct {
	mu   sync.Mutex
	most int64
	have int64
	tick int64
	by   map[string]*kept
}

type kept struct {
	*Segment
	used int64
}

func newMemory(most int64) *memory { return &memory{most: most, by: map[string]*kept{}} }

// get gives the index of a name, which read reads where it is not here.
func (m *memory) get(name string, read func() ([]byte, error)) (*Segment, error) {
	m.mu.Lock()
	m.tick++
	if k := m.by[name]; k != nil {
		k.used = m.tick
		m.mu.Unlock()
		return k.Segment, nil
	}
	m.mu.Unlock()
	b, err := read()
	if err != nil {
		return nil, err
	}
	s, err := Open(b)
	if err != nil {
		return nil, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.drop(name)
	m.by[name] = &kept{s, m.tick}
	for m.have += s.Bytes(); m.have > m.most; {
		oldest := ""
		for name, k := range m.by {
			if oldest == "" || k.used < m.by[oldest].used {
				oldest = name
			}
		}
		m.drop(oldest)
	}
	return s, nil
}

// drop forgets an index. m.mu is held.
func (m *memory) drop(name string) {
	if k := m.by[name]; k != nil {
		m.have -= k.Bytes()
		delete(m.by, name)
	}
}

// forget forgets the indexes whose names begin so.
func (m *memory) forget(prefix string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for name := range m.by {
		if strings.HasPrefix(name, prefix) {
			m.drop(name)
		}
	}
}
