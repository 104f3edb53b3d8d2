package store

import (
	"encoding/json"
	"errors"
	"io/fs"
	"maps"
	"slices"

	"github.com/axle-llm/axle/models"
)

// hashedFile keeps what each blob looked like when it was last hashed and found sound: its size and
// time, by its name. It is written without a sync and may be lost: then the blobs are hashed once
// more.
const hashedFile = ".hashed"

// noteHashed notes what a blob looked like that was hashed just now. Where st is nil it could not
// be hashed, or is rotten: the next server hashes it again.
func (s *Store) noteHashed(d models.Digest, st fs.FileInfo) {
	stamp := ""
	if st != nil {
		stamp = stampOf(st)
	}
	s.checking.mu.Lock()
	defer s.checking.mu.Unlock()
	s.checking.seen[d.File()] = stamp
}

// hashed is what is known of blobs as they were hashed last, by any process.
func (s *Store) hashed() map[string]string {
	all := map[string]string{}
	if data, err := readAll(s.disk, hashedFile, maxManifest); err == nil && json.Unmarshal(data, &all) != nil {
		clear(all)
	}
	if all == nil { // the file says null
		all = map[string]string{}
	}
	s.checking.mu.Lock()
	defer s.checking.mu.Unlock()
	maps.Copy(all, s.checking.seen)
	return all
}

// keepHashed writes down what this process has hashed since, and forgets what is gone. It is called
// under locked.
func (s *Store) keepHashed() {
	s.checking.mu.Lock()
	news := maps.Clone(s.checking.seen)
	s.checking.mu.Unlock()
	if len(news) == 0 {
		return
	}
	all := s.hashed()
	maps.DeleteFunc(all, func(name, _ string) bool {
		_, err := s.disk.Stat("blobs/" + name)
		return errors.Is(err, fs.ErrNotExist)
	})
	data, err := json.Marshal(all)
	if err != nil {
		return
	}
	tmp := "blobs/tmp-" + randomName()
	if s.overwrite(tmp, data) != nil || s.disk.Rename(tmp, hashedFile) != nil {
		_ = s.disk.Remove(tmp)
		return
	}
	s.checking.mu.Lock()
	defer s.checking.mu.Unlock()
	maps.DeleteFunc(s.checking.seen, func(name, stamp string) bool { return news[name] == stamp })
}

// unhashed says whether a blob of a model is not as it was when it was last hashed. What is missing
// every load sees by itself.
func (s *Store) unhashed(m *Model, all map[string]string) bool {
	return slices.ContainsFunc(m.m.Layers, func(l descriptor) bool {
		st, err := s.disk.Stat(blobPath(l))
		return err == nil && stampOf(st) != all[l.Digest.File()]
	})
}

// hashIfChanged has a model hashed whose blobs are not as they were hashed last, if there is a
// server to do it.
func (s *Store) hashIfChanged(m *Model) {
	c := &s.checking
	c.mu.Lock()
	wake := c.wake
	c.mu.Unlock()
	if wake == nil || !s.unhashed(m, s.hashed()) {
		return
	}
	c.mu.Lock()
	if name := m.Name.Full(); !slices.Contains(c.pending, name) {
		c.pending = append(c.pending, name)
	}
	c.mu.Unlock()
	select {
	case wake <- struct{}{}:
	default:
	}
}
