package store

import (
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"github.com/axle-llm/axle/models"
)

// This file remembers what Get found, for a server asks for the same few models at each request.
// What was found holds as long as every file that it was read from is the same file with the same
// times, and for a built-in model, which any manifest would hide, every folder of manifests.

// mostKnown bounds how many names are remembered; a client chooses how it spells them.
const mostKnown = 256

// stamp tells a file or folder from what was at its path before; the zero stamp is nothing.
type stamp struct {
	dev, ino     uint64
	size         int64
	mtime, ctime time.Time
}

// stamper is a [Disk] that can say in one call whether a file is the one it was.
type stamper interface {
	// stamp is what is at a path now. It says nothing of whether the path stays inside the disk:
	// what is read is read through Open.
	stamp(name string) (s stamp, err error)
}

func (d rootDisk) stamp(name string) (stamp, error) {
	var st unix.Stat_t
	switch err := unix.Stat(d.Path(name), &st); err {
	case nil:
		//nolint:unconvert // of different types on different processors
		return stamp{uint64(st.Dev), st.Ino, st.Size, time.Unix(st.Mtim.Unix()), time.Unix(st.Ctim.Unix())}, nil
	case unix.ENOENT:
		return stamp{}, nil
	default:
		return stamp{}, err
	}
}

// known is a model that Get found.
type known struct {
	model *Model
	began time.Time
	seen  []seen
}

// seen is what was at a path.
type seen struct {
	name string
	stamp
}

// look notes what is at a path; false where that cannot be told, or changed so lately that the next
// change might look the same.
func (k *known) look(on stamper, name string) bool {
	s, err := on.stamp(name)
	k.seen = append(k.seen, seen{name, s})
	return err == nil && k.began.Sub(s.mtime) >= settled && k.began.Sub(s.ctime) >= settled
}

// holds says whether all is as it was.
func (k *known) holds(on stamper) bool {
	for _, was := range k.seen {
		if now, err := on.stamp(was.name); err != nil || now != was.stamp {
			return false
		}
	}
	return true
}

// recall is the model that Get found by that name, if it would find it again; nil otherwise.
func (s *Store) recall(n models.Name) *Model {
	on, ok := s.disk.(stamper)
	if !ok {
		return nil
	}
	v, ok := s.known.Load(n)
	if !ok {
		return nil
	}
	if k := v.(*known); k.holds(on) && (k.model.path != "" || !s.hidden(n)) {
		return k.model
	}
	return nil
}

// remember keeps what Get found, if it can be told later whether it still holds. began is when Get
// began.
func (s *Store) remember(n models.Name, m *Model, began time.Time) {
	on, ok := s.disk.(stamper)
	if !ok || m.Folder != "" { // what is in folders of others is looked at each time
		return
	}
	k := &known{model: m, began: began}
	switch exact := "manifests/" + n.Path(); {
	case m.path == exact:
		ok = k.look(on, exact)
		for _, l := range m.m.Layers {
			if ok && l.MediaType != mediaFile {
				ok = k.look(on, blobPath(l))
			}
		}
	case m.path == "" && m.Builtin:
		ok = k.look(on, "manifests")
		_, err := s.walk(func(dir string) error {
			ok = ok && k.look(on, dir)
			return nil
		})
		ok = ok && err == nil
	default: // of another spelling
		return
	}
	if !ok {
		return
	}
	if _, known := s.known.Swap(n, k); !known && s.names.Add(1) > mostKnown {
		s.known.Clear()
		s.names.Store(0)
	}
}

// hidden says whether a package in place has a name, which goes before a built-in one.
func (s *Store) hidden(n models.Name) bool {
	for _, p := range s.paths {
		abs, err := filepath.Abs(p)
		if err != nil {
			continue
		}
		list, _ := s.packages(abs)
		for _, f := range list {
			if f.name.EqualFold(n) {
				return true
			}
		}
	}
	return false
}
