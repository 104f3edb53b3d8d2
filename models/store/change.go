package store

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"strings"
	"time"

	"github.com/axle-llm/axle/internal/folder"
	"github.com/axle-llm/axle/internal/regular"
	"github.com/axle-llm/axle/models"
)

// Copy gives a model a second name; both share all files. The name is taken over if it exists.
// Errors as Get, and for dst models.ErrName and [ErrTaken].
func (s *Store) Copy(src, dst string) error {
	to, err := models.ParseName(dst)
	if err != nil {
		return err
	}
	from, err := models.ParseName(src)
	if err != nil {
		return err
	}
	return s.locked(func() error {
		m, err := s.get(from)
		if err != nil {
			return err
		}
		return s.commit(to, m.m)
	})
}

// Delete removes a model, sound or not, and every blob that no other model names. Errors:
// models.ErrName, [ErrNotFound], [ErrReadOnly] for packages in place and built-in ones, [ErrGGUF]
// and [ErrForeign] for Ollama's own, which stay, and the disk's.
func (s *Store) Delete(name string) error {
	n, err := models.ParseName(name)
	if err != nil {
		return err
	}
	return s.locked(func() error {
		p, err := s.find(n)
		if err != nil {
			return err
		}
		m, err := s.get(n)
		switch {
		case p != "" && (errors.Is(err, ErrGGUF) || errors.Is(err, ErrForeign)), p == "" && err != nil:
			return err
		case p == "" && m.Folder != "":
			return fmt.Errorf("models: %s is the folder %s, found in place and %w; delete the folder, or take it out of AXLE_MODEL_PATH",
				m.Name, m.Folder, ErrReadOnly)
		case p == "":
			return fmt.Errorf("models: %s ships inside the program and is %w", m.Name, ErrReadOnly)
		}
		return s.remove(p)
	})
}

// remove takes a manifest away for good before any blob goes: a power cut between the two leaves
// blobs that nothing names, never the reverse.
func (s *Store) remove(p string) error {
	refs := s.named(p)
	if err := s.disk.Remove(p); err != nil {
		return fmt.Errorf("models: %w", err)
	}
	dir := path.Dir(p)
	if err := s.disk.SyncDir(dir); err != nil {
		return fmt.Errorf("models: %w", err)
	}
	for ; dir != "manifests"; dir = path.Dir(dir) { // empty folders; the first that is not ends it
		if s.disk.Remove(dir) != nil {
			break
		}
	}
	return s.drop(refs)
}

// named are the blobs that the manifest at p names; none where it cannot be read.
func (s *Store) named(p string) []models.Digest {
	data, err := readAll(s.disk, p, maxManifest)
	if err != nil {
		return nil
	}
	_, refs, err := parseManifest(data)
	if err != nil {
		return nil
	}
	return refs
}

// drop removes those of the blobs that no manifest names any more.
func (s *Store) drop(refs []models.Digest) error {
	if len(refs) == 0 {
		return nil
	}
	used, _, err := s.references()
	if err != nil {
		return err
	}
	var errs []error
	for _, d := range refs {
		if !used[d] {
			used[d] = true // a manifest may name a blob twice
			if err := s.disk.Remove("blobs/" + d.File()); err != nil && !errors.Is(err, fs.ErrNotExist) {
				errs = append(errs, fmt.Errorf("models: %w", err))
			}
		}
	}
	return errors.Join(errs...)
}

// references lists every digest that some manifest names, and says whether every manifest could be
// read. It fails when the disk cannot be read: then nothing may be removed. A manifest that is gone
// from sight may be back after a power cut, if the sync after its removal failed, and its blobs
// would not: so all folders are synced first.
func (s *Store) references() (used map[models.Digest]bool, whole bool, err error) {
	//rule:G9 TestDiskErrors s.walk(s.disk.SyncDir) => s.manifests()
	paths, err := s.walk(s.disk.SyncDir)
	if err != nil {
		return nil, false, err
	}
	used, whole = map[models.Digest]bool{}, true
	for _, p := range paths {
		data, err := readAll(s.disk, p, maxManifest)
		if errors.Is(err, regular.ErrLarge) {
			whole = false // not one of ours
			continue
		}
		if err != nil {
			return nil, false, fmt.Errorf("models: %w", err)
		}
		_, refs, err := parseManifest(data)
		if err != nil {
			whole = false
			continue // damaged: it names a model that cannot be used anyway
		}
		for _, d := range refs {
			used[d] = true
		}
	}
	return used, whole, nil
}

const pullingPrefix = ".pulling-"

// announce makes a pull known to [Store.Prune] in every process until done is called or this
// process ends. Where the file system has no locks the pull is known by its files' times only.
func (s *Store) announce() (done func()) {
	name, release, err := s.mark(pullingPrefix)
	if err != nil {
		return func() {}
	}
	return func() {
		_ = s.disk.Remove(name)
		_ = release()
	}
}

// Prune removes blobs that no model names and downloads that were left, if untouched for the given
// time. It returns the bytes freed. Nothing is removed while some process pulls, and no whole blob
// while there is a manifest that cannot be read: it may be that one's.
func (s *Store) Prune(idle time.Duration) (freed int64, err error) {
	err = s.locked(func() error {
		if busy, _, err := s.marks(pullingPrefix); busy || err != nil {
			return err
		}
		used, whole, err := s.references()
		if err != nil {
			return err
		}
		list, err := s.disk.ReadDir("blobs")
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("models: %w", err)
		}
		limit := time.Now().Add(-idle)
		for _, e := range list {
			d, derr := models.ParseDigest(e.Name())
			ours := strings.HasPrefix(e.Name(), "tmp-") || strings.Contains(e.Name(), "-partial") &&
				strings.HasPrefix(e.Name(), "sha256-") || strings.HasPrefix(e.Name(), "git-")
			if derr == nil && (used[d] || !whole) || derr != nil && !ours {
				continue
			}
			st, err := e.Info()
			if err != nil || st.ModTime().After(limit) {
				continue
			}
			if s.disk.Remove("blobs/"+e.Name()) == nil {
				freed += st.Size()
			}
		}
		return nil
	})
	return freed, err
}

// locked runs f while nothing else of this or another process changes manifests or removes blobs.
func (s *Store) locked(f func() error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	unlock, err := s.disk.Lock()
	if err != nil {
		return fmt.Errorf("models: %w", err)
	}
	defer func() { _ = unlock() }()
	return f()
}

// errGone is what commit finds when a blob was removed, by another process's delete, while its
// model was being made.
type errGone struct{ d descriptor }

func (e *errGone) Error() string {
	return fmt.Sprintf("models: blob %s is missing or short", e.d.Digest)
}

// notForeign fails with ErrTaken, given what get said of a name, where the name is that of a model
// of Ollama's own: a manifest in its place would take that model's files.
func notForeign(n models.Name, got error) error {
	if errors.Is(got, ErrGGUF) || errors.Is(got, ErrForeign) {
		return fmt.Errorf("models: %s is %w in this folder and stays as it is; choose another name, or another folder with AXLE_MODELS", n,
			ErrTaken)
	}
	return nil
}

// commit makes m the manifest of name, after all its blobs are known to be there; what the name's
// old manifest alone named is removed. It is called under locked. Errors other than the disk's:
// ErrTaken, *errGone.
func (s *Store) commit(name models.Name, m *manifest) error {
	p, err := s.find(name)
	if err != nil {
		return err
	}
	if p != "" {
		_, err = s.load(p)
	}
	if err := notForeign(name, err); err != nil {
		return err
	}
	if p == "" {
		p = "manifests/" + name.Path()
	}
	for _, l := range m.Layers {
		st, err := s.disk.Stat(blobPath(l))
		if err != nil || st.Size() != l.Size {
			return &errGone{l}
		}
	}
	data, err := m.encode()
	if err != nil {
		return fmt.Errorf("models: %w", err)
	}
	refs := s.named(p)
	if err := mkdirs(s.disk, "blobs"); err != nil {
		return fmt.Errorf("models: %w", err)
	}
	if err := s.disk.SyncDir("blobs"); err != nil { // the pull that put a blob there may not have come to it
		return fmt.Errorf("models: %w", err)
	}
	if err := mkdirs(s.disk, path.Dir(p)); err != nil {
		return fmt.Errorf("models: %w", err)
	}
	//rule:G9 TestDiskErrors != "." => == "?"
	for dir := path.Dir(p); dir != "."; { // that a folder is there does not say that it lasts: the sync after its making may have failed
		dir = path.Dir(dir)
		if err := s.disk.SyncDir(dir); err != nil {
			return fmt.Errorf("models: %w", err)
		}
	}
	if err := folder.Write(s.disk, "blobs/tmp-"+randomName(), p, data); err != nil {
		return fmt.Errorf("models: %s: %w", s.where(p), err)
	}
	s.keepHashed()
	return s.drop(refs)
}
