package store

import (
	"bytes"
	"encoding/json"
	"errors"
	"io/fs"
	"strconv"

	"github.com/axle-llm/axle/models/hub"
)

// This file is what the disk knows of a download that is not at its end: which parts of it are
// there.

// alone lets one download of a file run at a time in this process; the next one finds the result.
// Between processes two may write the same bytes to the same places, which does no harm.
func (s *Store) alone(key string) (done func()) {
	for {
		ch := make(chan struct{})
		other, busy := s.fetching.LoadOrStore(key, ch)
		if !busy {
			return func() { s.fetching.Delete(key); close(ch) }
		}
		<-other.(chan struct{})
	}
}

// forget removes the state of a download whose sync failed. Until that succeeds the state on disk
// claims what is not there.
func (s *Store) forget(key string) error {
	if _, ok := s.unsynced.Load(key); !ok {
		return nil
	}
	if err := s.disk.Remove(key + ".parts"); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	s.unsynced.Delete(key)
	return nil
}

func (s *Store) readState(key string, size int64) *hub.State {
	data, err := readAll(s.disk, key+".parts", 1<<20)
	if _, doubtful := s.unsynced.Load(key); err != nil || doubtful {
		return nil
	}
	st := new(hub.State)
	if json.Unmarshal(data, st) != nil || !st.Valid(size) {
		return nil
	}
	return st
}

// writeState is best effort: without it a pull starts the file anew. The file is replaced whole;
// where there is no room for a second one it is written over, which its padding makes possible: a
// full disk is when the state is wanted most.
func (s *Store) writeState(key string, st *hub.State) {
	st.Lock()
	data, err := json.Marshal(st)
	room := len(data)
	for _, p := range st.Parts {
		room += len(strconv.FormatInt(p.End-p.Start, 10))
	}
	st.Unlock()
	if err != nil {
		return
	}
	padded := append(data, bytes.Repeat([]byte(" "), room-len(data))...)
	name, tmp := key+".parts", key+".parts-"+randomName()[:6]
	if s.overwrite(tmp, padded) == nil && s.disk.Rename(tmp, name) == nil {
		return
	}
	_ = s.disk.Remove(tmp)
	if info, err := s.disk.Stat(name); err == nil && info.Size() >= int64(len(data)) {
		_ = s.overwrite(name, append(data, bytes.Repeat([]byte(" "), int(info.Size())-len(data))...))
	}
}

func (s *Store) overwrite(name string, data []byte) error {
	f, err := s.disk.Create(name)
	if err != nil {
		return err
	}
	_, err = f.WriteAt(data, 0)
	return errors.Join(err, f.Close())
}
