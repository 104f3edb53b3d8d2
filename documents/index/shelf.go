package index

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"

	"github.com/axle-llm/axle/internal/folder"
)

// Used is how many bytes the owner's documents take.
func (s *Shelf) Used() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.used
}

// AddFile takes a file in. It is there once this returns without an error. purpose is asked for
// when all has come. Errors: ErrTooLarge, ErrFull, those of from and purpose, the file system's.
func (s *Shelf) AddFile(name string, from io.Reader, purpose func() (string, error)) (File, error) {
	f := File{ID: newID("file-"), Name: clip(name, 255), Created: now()}
	s.mu.Lock()
	if len(s.files) >= s.lib.Files {
		s.mu.Unlock()
		return f, full("this key has %d files, and may have no more: delete some", s.lib.Files)
	}
	room := s.lib.Bytes - s.used
	err := s.lib.disk.Mkdir(s.dir)
	s.mu.Unlock()
	if err != nil {
		return f, fmt.Errorf("index: %w", err)
	}
	temp, at := s.at(f.ID+tempSuffix), s.at(f.ID+dataSuffix)
	if f.Bytes, err = s.receive(temp, from, room); err == nil {
		f.Purpose, err = purpose()
	}
	if err == nil {
		err = s.lib.disk.Rename(temp, at)
	}
	if err != nil {
		_ = s.lib.disk.Remove(temp)
		return f, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.used += f.Bytes
	//rule:T7 TestLibraryFull s.used > s.lib.Bytes => false
	if s.used > s.lib.Bytes { // others came meanwhile
		err = full("the documents of this key may take %d MiB: delete some, or raise --documents-size", s.lib.Bytes>>20)
	} else {
		err = s.record(f, f.ID+fileSuffix)
	}
	if err != nil {
		return f, errors.Join(err, s.remove(f.ID+dataSuffix))
	}
	s.files[f.ID] = &f
	return f, nil
}

// receive writes what comes to a file, and no more than may come.
func (s *Shelf) receive(temp string, from io.Reader, room int64) (n int64, err error) {
	w, err := s.lib.disk.Create(temp)
	if err != nil {
		return 0, fmt.Errorf("index: %w", err)
	}
	n, err = io.Copy(w, io.LimitReader(from, min(s.lib.File, max(room, 0))+1))
	if err == nil {
		err = w.Sync()
	}
	err = errors.Join(err, w.Close())
	switch {
	case err != nil:
	case n > s.lib.File:
		err = fmt.Errorf("%w: a file may have %d MiB", ErrTooLarge, s.lib.File>>20)
	case n > room:
		err = full("the documents of this key may take %d MiB: delete some, or raise --documents-size", s.lib.Bytes>>20)
	}
	return n, err
}

// File is a file. Error: ErrNotFound.
func (s *Shelf) File(id string) (File, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if f := s.files[id]; f != nil {
		return *f, nil
	}
	return File{}, ErrNotFound
}

// Files are all files, the newest first.
func (s *Shelf) Files() (list []File) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, f := range s.files {
		list = append(list, *f)
	}
	return newest(list, func(f File) (int64, string) { return f.Created, f.ID })
}

// Content opens what a file was, which the caller closes.
func (s *Shelf) Content(id string) (folder.File, int64, error) {
	f, err := s.File(id)
	if err != nil {
		return nil, 0, err
	}
	r, err := s.lib.disk.Open(s.at(id + dataSuffix))
	return r, f.Bytes, err
}

// DeleteFile removes a file, and takes it out of every collection. Error: ErrNotFound.
func (s *Shelf) DeleteFile(id string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.files[id] == nil {
		return ErrNotFound
	}
	for _, c := range s.collections {
		if err := s.detach(c, id); err != nil {
			return err
		}
	}
	for _, suffix := range []string{fileSuffix, dataSuffix, textSuffix} {
		if err := s.remove(id + suffix); err != nil {
			return err
		}
		delete(s.files, id)
	}
	return s.lib.disk.SyncDir(s.dir)
}

// Create makes a collection; its id and times are made here. Errors: ErrFull, the file system's.
func (s *Shelf) Create(c Collection) (Collection, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.collections) >= s.lib.Collections {
		return c, full("this key has %d vector stores, and may have no more: delete some", s.lib.Collections)
	}
	c.ID, c.Created = newID("vs_"), now()
	c.Active = c.Created
	err := s.lib.disk.Mkdir(s.dir)
	if err == nil {
		err = s.lib.disk.Mkdir(s.at(c.ID))
	}
	if err == nil {
		err = s.record(c, c.ID, aboutFile)
	}
	if err == nil {
		err = s.lib.disk.SyncDir(s.dir)
	}
	if err != nil {
		_ = s.lib.disk.Remove(s.at(c.ID)) // where nothing is in it: else each try leaves one until the next start
		return c, fmt.Errorf("index: %w", err)
	}
	s.collections[c.ID] = &collection{c, map[string]*Entry{}}
	return c, nil
}

// find is a collection that has not expired. s.mu is held.
func (s *Shelf) find(id string) (*collection, error) {
	c := s.collections[id]
	if c == nil {
		return nil, ErrNotFound
	}
	if at := c.Expires(); at > 0 && now() >= at {
		if err := s.drop(id); err != nil {
			return nil, err
		}
		return nil, ErrNotFound
	}
	return c, nil
}

// Collection is a collection, and how far its files are. Errors: ErrNotFound, the file system's.
func (s *Shelf) Collection(id string) (Collection, Counts, int64, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	c, err := s.find(id)
	if err != nil {
		return Collection{}, Counts{}, 0, err
	}
	n, bytes := c.counts()
	return c.Collection, n, bytes, nil
}

func (c *collection) counts() (n Counts, bytes int64) {
	for _, e := range c.entries {
		bytes += e.Bytes
		switch e.Status {
		case Completed:
			n.Completed++
		case Failed:
			n.Failed++
		default:
			n.InProgress++
		}
	}
	return n, bytes
}

// Collections are the ids of all, the newest first.
func (s *Shelf) Collections() (ids []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var list []Collection
	for _, c := range s.collections {
		list = append(list, c.Collection)
	}
	for _, c := range newest(list, func(c Collection) (int64, string) { return c.Created, c.ID }) {
		if _, err := s.find(c.ID); err == nil {
			ids = append(ids, c.ID)
		}
	}
	return ids
}

// Update changes a collection's name, days and metadata. Errors: ErrNotFound, the file system's.
func (s *Shelf) Update(id string, change func(*Collection)) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	c, err := s.find(id)
	if err != nil {
		return err
	}
	next := c.Collection
	change(&next)
	next.ID, next.Created = c.ID, c.Created
	if err := s.record(next, id, aboutFile); err != nil {
		return err
	}
	c.Collection = next
	return nil
}

// usedEach is how often the time of a collection's last use is written down.
const usedEach = 60 * 60

// use notes that a collection is used. s.mu is held.
func (s *Shelf) use(c *collection) {
	if t := now(); t-c.Active >= usedEach {
		c.Active = t
		_ = s.record(c.Collection, c.ID, aboutFile) // it is counted from the use before, else
	}
}

// Delete removes a collection with its indexes. Its files stay. Errors: ErrNotFound, the file
// system's.
func (s *Shelf) Delete(id string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.collections[id] == nil {
		return ErrNotFound
	}
	return s.drop(id)
}

func (s *Shelf) drop(id string) error {
	delete(s.collections, id)
	s.lib.memory.forget(s.at(id) + "/")
	return s.removeDir(id)
}

// Attach puts a file into a collection, where Index then makes it searchable; one that is there
// begins anew. Errors: ErrNotFound, ErrFull, the file system's.
func (s *Shelf) Attach(id, file string, attributes map[string]any, c Cutting) (Entry, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	col, err := s.find(id)
	if err != nil {
		return Entry{}, err
	}
	if s.files[file] == nil {
		return Entry{}, ErrNotFound
	}
	e := &Entry{File: file, Created: now(), Status: InProgress, Attributes: maps.Clone(attributes), Cutting: c}
	if err := s.detach(col, file); err != nil {
		return Entry{}, err
	}
	if err := s.record(e, id, file+fileSuffix); err != nil {
		return Entry{}, err
	}
	col.entries[file] = e
	s.use(col)
	return e.copy(), nil
}

// Detach takes a file out of a collection. Errors: ErrNotFound, the file system's.
func (s *Shelf) Detach(id, file string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	c, err := s.find(id)
	if err != nil {
		return err
	}
	if c.entries[file] == nil {
		return ErrNotFound
	}
	return s.detach(c, file)
}

// detach takes a file out of a collection that may have it. s.mu is held.
func (s *Shelf) detach(c *collection, file string) error {
	if c.entries[file] == nil {
		return nil
	}
	delete(c.entries, file)
	s.lib.memory.forget(s.at(c.ID, file) + ".")
	for _, suffix := range []string{fileSuffix, indexExt, vectorExt} {
		if err := s.remove(c.ID, file+suffix); err != nil {
			return err
		}
	}
	return s.lib.disk.SyncDir(s.at(c.ID))
}

// Entry is a file of a collection. Error: ErrNotFound.
func (s *Shelf) Entry(id, file string) (Entry, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	c, err := s.find(id)
	if err != nil {
		return Entry{}, err
	}
	if e := c.entries[file]; e != nil {
		return e.copy(), nil
	}
	return Entry{}, ErrNotFound
}

// Entries are the files of a collection, the newest first. Error: ErrNotFound.
func (s *Shelf) Entries(id string) (list []Entry, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	c, err := s.find(id)
	if err != nil {
		return nil, err
	}
	for _, e := range c.entries {
		list = append(list, e.copy())
	}
	return newest(list, func(e Entry) (int64, string) { return e.Created, e.File }), nil
}

// SetAttributes replaces a file's attributes in a collection. Errors: ErrNotFound, the file
// system's.
func (s *Shelf) SetAttributes(id, file string, attributes map[string]any) (Entry, error) {
	return s.change(id, file, func(e *Entry) { e.Attributes = maps.Clone(attributes) })
}

// Fail notes why a file of a collection cannot be searched. Where there is no room to write that
// down, it is told until the next start, which tries again. Errors: ErrNotFound, ErrFull, the file
// system's.
func (s *Shelf) Fail(id, file, code, message string) error {
	fail := func(e *Entry) { e.Status, e.Code, e.Message = Failed, code, clip(message, 500) }
	_, err := s.change(id, file, fail)
	if err == nil || errors.Is(err, ErrNotFound) {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if c := s.collections[id]; c != nil && c.entries[file] != nil {
		fail(c.entries[file])
	}
	return err
}

// change changes an entry and writes it down.
func (s *Shelf) change(id, file string, f func(*Entry)) (Entry, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	c, err := s.find(id)
	if err != nil {
		return Entry{}, err
	}
	e := c.entries[file]
	if e == nil {
		return Entry{}, ErrNotFound
	}
	next := e.copy()
	f(&next)
	if err := s.record(next, id, file+fileSuffix); err != nil {
		return Entry{}, err
	}
	*e = next
	return next.copy(), nil
}

// Reader makes a document of a file.
type Reader func(ctx context.Context, name string, data io.ReaderAt, size int64) (*Document, error)

// Index makes a file of a collection searchable: it reads its text, unless that was done, cuts it,
// and writes its index. Errors: ErrNotFound (it was deleted meanwhile), ErrFull, those of read, of
// ctx and of the file system.
func (s *Shelf) Index(ctx context.Context, id, file string, read Reader) error {
	e, err := s.Entry(id, file)
	if err != nil {
		return err
	}
	d, err := s.Document(file)
	if errors.Is(err, ErrNotFound) || errors.Is(err, ErrDamaged) {
		d, err = s.extract(ctx, file, read)
	}
	if err != nil {
		return err
	}
	passages := Cut(d, e.Cutting)
	b, err := Build(d, passages)
	if err != nil {
		return err
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	c, err := s.find(id)
	if err != nil {
		return err
	}
	now := c.entries[file]
	//rule:T17 TestDeletedMeanwhile now == nil || now.Created != e.Created => false
	if now == nil || now.Created != e.Created {
		return ErrNotFound
	}
	if err := s.write([]string{id, file + indexExt}, b); err != nil {
		return err
	}
	s.lib.memory.forget(s.at(id, file) + ".")
	next := now.copy()
	next.Status, next.Code, next.Message, next.Passages, next.Bytes = Completed, "", "", len(passages), int64(len(b))
	if err := s.record(next, id, file+fileSuffix); err != nil {
		return err
	}
	*now = next
	return nil
}

// extract reads a file's text and keeps it.
func (s *Shelf) extract(ctx context.Context, file string, read Reader) (*Document, error) {
	f, err := s.File(file)
	if err != nil {
		return nil, err
	}
	data, size, err := s.Content(file)
	if err != nil {
		return nil, fmt.Errorf("index: %w", err)
	}
	defer data.Close()
	d, err := read(ctx, f.Name, data, size)
	if err != nil {
		return nil, err
	}
	parts, err := writeText(d)
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.files[file] == nil {
		return nil, ErrNotFound
	}
	return d, s.write([]string{file + textSuffix}, parts...)
}
