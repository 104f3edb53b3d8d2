package store

import (
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"github.com/axle-llm/axle/models"
)

// This file remembers what Get found, for a server asks for the same few models at each request.
// What was found holds as long as every file that it was read from is the same file with the same
// times, and for a built-in model, which any manifest would hide, every folder of manifests.

// mostKnown bounds how many names are remembered; a client chooses how it spells them.
const mostKnown = 256

// settled is how old a change must be for its time to tell it from the next one: file systems count
// as coarsely as this.
const settled = 2500 * time.Millisecond

// stamp tells a file or folder from what was at its path before; the zero stamp is nothing.
type stamp struct {
	dir          bool
	dev, ino     uint64
	size         int64
	mtime, ctime time.Time
}

// stampAt is what is at a path now. It says nothing of whether the path stays inside a folder.
func stampAt(path string) (stamp, error) {
	var st unix.Stat_t
	switch err := unix.Stat(path, &st); err {
	case nil:
		//nolint:unconvert // of different types on different processors
		return stamp{st.Mode&unix.S_IFMT == unix.S_IFDIR, uint64(st.Dev), st.Ino, st.Size, time.Unix(st.Mtim.Unix()),
			time.Unix(st.Ctim.Unix())}, nil
	case unix.ENOENT:
		return stamp{}, nil
	default:
		return stamp{}, err
	}
}

// seen is what was at the paths that something was read from, which began at that time.
type seen struct {
	began time.Time
	at    map[string]stamp
	young bool // a path could not be looked at, or changed so lately that the next change might look the same
}

// look notes what is at a path before it is read.
func (s *seen) look(path string) stamp {
	st, err := stampAt(path)
	s.at[path] = st
	s.young = s.young || err != nil || s.began.Sub(st.mtime) < settled
	return st
}

// holds says whether all is as it was.
func (s *seen) holds() bool {
	if s.young {
		return false
	}
	for path, was := range s.at {
		if now, err := stampAt(path); err != nil || now != was {
			return false
		}
	}
	return true
}

// known is a model that Get found.
type known struct {
	seen
	model *Model
}

// look is seen's look at a file of the store. Anyone can give a file an old time, but cannot hide
// when that was done.
func (k *known) look(s *Store, name string) {
	st := k.seen.look(s.disk.Path(name))
	k.young = k.young || k.began.Sub(st.ctime) < settled
}

// recall is the model that Get found by that name, if it would find it again; nil otherwise.
func (s *Store) recall(n models.Name) *Model {
	v, ok := s.known.Load(n)
	if !ok {
		return nil
	}
	if k := v.(*known); k.holds() && (k.model.path != "" || !s.hidden(n)) {
		return k.model
	}
	return nil
}

// remember keeps what Get found, if it can be told later whether it still holds. began is when Get
// began.
func (s *Store) remember(n models.Name, m *Model, began time.Time) {
	if _, real := s.disk.(rootDisk); !real || m.Folder != "" { // what is in folders of others is looked at each time
		return
	}
	k := &known{model: m, seen: seen{began: began, at: map[string]stamp{}}}
	switch exact := "manifests/" + n.Path(); {
	case m.path == exact:
		k.look(s, exact)
		for _, l := range m.m.Layers {
			if l.MediaType != mediaFile {
				k.look(s, blobPath(l))
			}
		}
	case m.path == "" && m.Builtin:
		k.look(s, "manifests")
		if _, err := s.walk(func(dir string) error { k.look(s, dir); return nil }); err != nil {
			return
		}
	default: // of another spelling
		return
	}
	if k.young {
		return
	}
	if _, known := s.known.Swap(n, k); !known && s.names.Add(1) > mostKnown {
		s.known.Clear()
		s.names.Store(0)
	}
}

// hidden says whether a package in place has a name, which goes before a built-in one.
func (s *Store) hidden(n models.Name) bool {
	return slices.ContainsFunc(s.allFound(), func(f found) bool { return f.name.EqualFold(n) })
}
