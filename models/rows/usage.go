package rows

import (
	"cmp"
	"errors"
	"io/fs"
	"path"
	"slices"
	"time"

	"github.com/axle-llm/axle/internal/regular"
)

// Usage is what one package has in a folder.
type Usage struct {
	Model  string // as it was called when rows were kept first; empty when unknown
	Blocks int    // of rows
	States int
	Bytes  int64     // all its files
	Used   time.Time // when one of either was used last
	dir    string
}

// Look lists what the packages in dir have there, the last used first, without changing anything. A
// folder that is not there holds nothing.
func Look(dir string) ([]Usage, error) {
	d, err := openFolder(dir, false)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer d.Close()
	return look(d)
}

func look(d disk) ([]Usage, error) {
	all, err := list(d)
	if err != nil {
		return nil, err
	}
	by := map[string]*Usage{}
	for _, e := range all {
		dir := path.Dir(e.name)
		u := by[dir]
		if u == nil {
			u = &Usage{dir: dir}
			by[dir] = u
		}
		u.Bytes += e.size
		switch {
		case e.label():
			u.Model = label(d, e.name)
		case !e.unfinished():
			if isState(e.name) {
				u.States++
			} else {
				u.Blocks++
			}
			if e.at.After(u.Used) {
				u.Used = e.at
			}
		}
	}
	var out []Usage
	for _, u := range by {
		out = append(out, *u)
	}
	slices.SortFunc(out, func(a, b Usage) int { return cmp.Or(b.Used.Compare(a.Used), cmp.Compare(a.dir, b.dir)) })
	return out, nil
}

func label(d disk, name string) string {
	f, err := d.Open(name)
	if err != nil {
		return ""
	}
	b, _ := regular.All(f, name, maxName)
	return string(b)
}

// Clear removes what packages have in dir for which want says so, of everybody and every key, and
// gives how many bytes that were; a nil want removes all. Servers at work find nothing there from
// then on, and may keep new rows. A folder that is not there is clear.
func Clear(dir string, want func(Usage) bool) (freed int64, err error) {
	d, err := openFolder(dir, false)
	if errors.Is(err, fs.ErrNotExist) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	defer d.Close()
	err = locked(d, func() error {
		all, err := look(d)
		if err != nil {
			return err
		}
		for _, u := range all {
			if want != nil && !want(u) {
				continue
			}
			n, err := empty(d, u.dir)
			freed += n
			if err != nil {
				return err
			}
		}
		return d.SyncDir(".")
	})
	return freed, err
}

// empty removes a package's folder.
func empty(d disk, dir string) (freed int64, err error) {
	files, err := d.ReadDir(dir)
	if err != nil {
		return 0, err
	}
	for _, f := range files {
		name := dir + "/" + f.Name()
		st, err := d.Stat(name)
		if err == nil {
			err = d.Remove(name)
		}
		if err != nil {
			return freed, err
		}
		freed += st.Size()
	}
	return freed, d.Remove(dir)
}

// Of reports whether the usage is the package's, by its digest.
func (u Usage) Of(digest string) bool { return u.dir == packageDir(digest) }

// Stats tells what happened so far.
func (d *Disk) Stats() Stats {
	return Stats{d.hits.Load(), d.misses.Load(), d.saved.Load(), d.damaged.Load(), d.read.Load(), d.written.Load(),
		d.fetched.Load(), d.sent.Load(), d.off.Load(), d.full.Load()}
}
