package store

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/axle-llm/axle/models"
)

// Errors for errors.Is, besides models.ErrName and models.ErrDigest.
var (
	ErrNotFound = errors.New("model not found")
	ErrGGUF     = errors.New("a GGUF model, which this chip cannot run")
	ErrReadOnly = errors.New("not kept in the store")
	ErrMismatch = errors.New("digest mismatch")
)

// Options say where models are. The zero Options are a store in the default folder with nothing in place and nothing built in.
type Options struct {
	Dir     string           // the store's folder; empty: [DefaultDir]
	Paths   []string         // folders that hold packages, or are one: each is a model, nothing is copied
	Builtin map[string]fs.FS // packages that ship inside the program, by name
	Disk    Disk             // instead of Dir, for tests
}

// FromEnv reads AXLE_MODELS or OLLAMA_MODELS (the folder) and AXLE_MODEL_PATH (a list separated as PATH is).
func FromEnv() Options {
	return Options{
		Dir:   cmp.Or(os.Getenv("AXLE_MODELS"), os.Getenv("OLLAMA_MODELS")),
		Paths: filepath.SplitList(os.Getenv("AXLE_MODEL_PATH")),
	}
}

// DefaultDir is ~/.axle/models, or a folder for temporary files where there is no home.
func DefaultDir() string {
	home, err := os.UserHomeDir()
	if err != nil || home == "" {
		home = os.TempDir()
	}
	return filepath.Join(home, ".axle", "models")
}

// Store is all models this machine has. See the package comment.
type Store struct {
	disk    Disk
	paths   []string
	builtin map[string]fs.FS // by full name

	mu sync.RWMutex // held for writing while manifests or blobs go; the lock file does the same between processes

	fetching sync.Map // partial file to a channel closed when its download ends

	infoMu sync.Mutex
	infos  map[string]models.Info // by package digest
}

// Open opens the store, making its folder where there is none. Folders of Paths that do not exist are passed over.
func Open(o Options) (*Store, error) {
	s := &Store{disk: o.Disk, builtin: map[string]fs.FS{}, infos: map[string]models.Info{}}
	for _, p := range o.Paths {
		if p = strings.TrimSpace(p); p != "" {
			s.paths = append(s.paths, p)
		}
	}
	for name, fsys := range o.Builtin {
		n, err := models.ParseName(name)
		if err != nil {
			return nil, fmt.Errorf("models: built-in %q: %w", name, err)
		}
		s.builtin[n.Full()] = fsys
	}
	if s.disk == nil {
		d, err := openDisk(cmp.Or(o.Dir, DefaultDir()))
		if err != nil {
			return nil, fmt.Errorf("models: the store's folder cannot be opened; set AXLE_MODELS to one that can: %w", err)
		}
		s.disk = d
	}
	return s, nil
}

// Close releases the folder. Models that are open stay open.
func (s *Store) Close() error { return s.disk.Close() }

// Dir is the store's folder; empty for a store that is not on a real disk.
func (s *Store) Dir() string { return s.disk.Path(".") }

// Message is one turn that a Modelfile gives.
type Message struct {
	Role    string `json:"role"`
	Content string `json:"content"`
}

// FileInfo is one file of a model.
type FileInfo struct {
	Name   string
	Digest models.Digest // zero for a file in place
	Size   int64
}

// Model is one entry of the store: a package, and what a Modelfile adds to it.
type Model struct {
	Name       models.Name
	Digest     string // 64 hex, changes with anything in the model
	Size       int64
	ModifiedAt time.Time

	From    string // the model it was created from; may be empty
	Folder  string // the package's folder, for one in place
	Builtin bool   // ships inside the program
	Hub     string // repository@commit; may be empty
	Files   []FileInfo

	Template string // an Ollama template; empty: the package's own
	System   string
	Params   map[string]any // as in Ollama's Modelfiles; stop is a list of strings
	Messages []Message
	License  []string

	s    *Store
	m    *manifest
	path string // of the manifest; empty for a package in place that has none
}

// BuiltinName is the full name of the built-in package this model is, or was made from; empty for any other.
func (m *Model) BuiltinName() string { return m.m.Axle.Builtin }

// Managed says whether the model can be deleted: packages found in place and built-in ones cannot.
func (m *Model) Managed() bool { return m.path != "" }

// List returns all models, newest first. What cannot be read is passed over: a manifest of Ollama's for a GGUF model, a damaged one.
func (s *Store) List(ctx context.Context) ([]*Model, error) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	paths, err := s.manifests()
	if err != nil {
		return nil, err
	}
	var out []*Model
	seen := map[string]bool{}
	for _, p := range paths {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		m, err := s.load(p)
		if err != nil {
			continue
		}
		seen[strings.ToLower(m.Name.Full())] = true
		out = append(out, m)
	}
	for _, m := range append(s.inPlace(), s.builtins()...) {
		if key := strings.ToLower(m.Name.Full()); !seen[key] {
			seen[key] = true
			out = append(out, m)
		}
	}
	slices.SortStableFunc(out, func(a, b *Model) int {
		return cmp.Or(b.ModifiedAt.Compare(a.ModifiedAt), cmp.Compare(a.Name.String(), b.Name.String()))
	})
	return out, nil
}

// Get finds a model by name, letters of either case being the same as in Ollama. It fails with models.ErrName, [ErrNotFound] or [ErrGGUF].
func (s *Store) Get(name string) (*Model, error) {
	n, err := models.ParseName(name)
	if err != nil {
		return nil, err
	}
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.get(n)
}

func (s *Store) get(n models.Name) (*Model, error) {
	m, err := s.load("manifests/" + n.Path())
	if err == nil || !errors.Is(err, fs.ErrNotExist) {
		return m, err
	}
	paths, err := s.manifests()
	if err != nil {
		return nil, err
	}
	for _, p := range paths {
		if o, err := models.NameFromPath(strings.TrimPrefix(p, "manifests/")); err == nil && o.EqualFold(n) {
			return s.load(p)
		}
	}
	for _, m := range append(s.inPlace(), s.builtins()...) {
		if m.Name.EqualFold(n) {
			return m, nil
		}
	}
	return nil, fmt.Errorf("%w: %s", ErrNotFound, n)
}

// manifests lists the paths of all manifests whose names are valid.
func (s *Store) manifests() ([]string, error) {
	var out []string
	var walk func(dir string, depth int) error
	walk = func(dir string, depth int) error {
		list, err := s.disk.ReadDir(dir)
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("models: %w", err)
		}
		for _, e := range list {
			name := path.Join(dir, e.Name())
			switch {
			case depth < 4 && e.IsDir():
				if err := walk(name, depth+1); err != nil {
					return err
				}
			case depth == 4 && e.Type().IsRegular():
				if _, err := models.NameFromPath(strings.TrimPrefix(name, "manifests/")); err == nil {
					out = append(out, name)
				}
			}
		}
		return nil
	}
	return out, walk("manifests", 1)
}

// load reads the model whose manifest lies at p.
func (s *Store) load(p string) (*Model, error) {
	n, err := models.NameFromPath(strings.TrimPrefix(p, "manifests/"))
	if err != nil {
		return nil, err
	}
	data, err := readAll(s.disk, p, maxManifest)
	if err != nil {
		return nil, fmt.Errorf("models: %s: %w", n, err)
	}
	man, _, err := parseManifest(data)
	if err != nil {
		return nil, fmt.Errorf("models: the manifest of %s is damaged (%w); pull or create it again", n, err)
	}
	if man.Axle == nil {
		if slices.ContainsFunc(man.Layers, func(l descriptor) bool { return l.MediaType == mediaGGUF }) {
			return nil, fmt.Errorf("models: %s: %w", n, ErrGGUF)
		}
		man.Axle = &origin{}
	}
	m := &Model{Name: n, Digest: hexOf(data), s: s, m: man, path: p, From: man.Axle.From, Folder: man.Axle.Folder, Builtin: man.Axle.Builtin != "", Hub: man.Axle.Hub}
	if st, err := s.disk.Stat(p); err == nil {
		m.ModifiedAt = st.ModTime()
	}
	for _, l := range man.Layers {
		m.Size += l.Size
		if l.MediaType == mediaFile {
			m.Files = append(m.Files, FileInfo{l.Name, l.Digest, l.Size})
			continue
		}
		if err := m.take(l); err != nil {
			return nil, fmt.Errorf("models: %s: %w", n, err)
		}
	}
	return m, nil
}

// take reads one layer of a Modelfile.
func (m *Model) take(l descriptor) error {
	var into any
	switch l.MediaType {
	case mediaParams:
		into = &m.Params
	case mediaMessages:
		into = &m.Messages
	case mediaTemplate, mediaSystem, mediaLicense:
	default:
		return nil
	}
	data, err := readAll(m.s.disk, blobPath(l), maxSmall)
	if err != nil {
		return err
	}
	switch l.MediaType {
	case mediaTemplate:
		m.Template = string(data)
	case mediaSystem:
		m.System = string(data)
	case mediaLicense:
		m.License = append(m.License, string(data))
	default:
		if err := json.Unmarshal(data, into); err != nil {
			return fmt.Errorf("%s: %w", l.Digest, err)
		}
	}
	return nil
}

// Open opens the model's package; the caller closes it. Every file is first checked for being there with its size (promise D12); the error
// names the one that is not. Derived models open the package they share: it has the same digest.
func (m *Model) Open() (*models.Package, error) {
	switch {
	case m.m.Axle.Folder != "":
		return models.Open(m.m.Axle.Folder)
	case m.m.Axle.Builtin != "":
		return m.s.openBuiltin(m.m.Axle.Builtin)
	}
	fsys, err := m.fs()
	if err != nil {
		return nil, err
	}
	p, err := models.OpenFS(fsys, ".")
	if err != nil {
		return nil, fmt.Errorf("models: %s: %w", m.Name, err)
	}
	if p.Config.ModelName == "" {
		p.Name = m.Name.String()
	}
	return p, nil
}

func (m *Model) fs() (*packageFS, error) {
	files := m.m.files()
	if len(files) == 0 {
		return nil, fmt.Errorf("models: %s has no package; pull or create it again", m.Name)
	}
	for _, f := range files {
		st, err := m.s.disk.Stat(blobPath(f))
		if err != nil {
			return nil, &models.Error{Path: m.s.where(blobPath(f)), What: fmt.Sprintf("%s of %s is missing", f.Name, m.Name), Fix: "pull the model again", Err: models.ErrMissing}
		}
		if st.Size() != f.Size {
			return nil, &models.Error{Path: m.s.where(blobPath(f)), What: fmt.Sprintf("%s of %s has %d bytes, want %d", f.Name, m.Name, st.Size(), f.Size), Fix: "delete this file and pull the model again", Err: models.ErrSize}
		}
	}
	return newPackageFS(m.s.disk, files), nil
}

func (s *Store) where(name string) string { return cmp.Or(s.disk.Path(name), name) }

// Info describes the model's package; it opens it once for each content and remembers the answer.
func (m *Model) Info() (models.Info, error) {
	key := m.Digest
	m.s.infoMu.Lock()
	i, ok := m.s.infos[key]
	m.s.infoMu.Unlock()
	if ok {
		return i, nil
	}
	p, err := m.Open()
	if err != nil {
		return models.Info{}, err
	}
	defer p.Close()
	i = p.Info()
	m.s.infoMu.Lock()
	defer m.s.infoMu.Unlock()
	if len(m.s.infos) > 4096 { // a folder in place that changes for ever
		clear(m.s.infos)
	}
	m.s.infos[key] = i
	return i, nil
}

// Copy gives a model a second name; both share all files. The name is taken over if it exists. Errors as Get, and models.ErrName for dst.
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

// Delete removes a model and every blob that no other model names. Packages in place and built-in ones give [ErrReadOnly].
func (s *Store) Delete(name string) error {
	n, err := models.ParseName(name)
	if err != nil {
		return err
	}
	return s.locked(func() error {
		m, err := s.get(n)
		if errors.Is(err, ErrNotFound) || errors.Is(err, models.ErrName) {
			return err
		}
		p := "manifests/" + n.Path()
		if err == nil {
			switch {
			case m.path == "" && m.Folder != "":
				return fmt.Errorf("models: %s is the folder %s, found in place and %w; delete the folder, or take it out of AXLE_MODEL_PATH", m.Name, m.Folder, ErrReadOnly)
			case m.path == "":
				return fmt.Errorf("models: %s ships inside the program and is %w", m.Name, ErrReadOnly)
			}
			p = m.path
		}
		return s.remove(p)
	})
}

// remove takes a manifest away for good before any blob goes: a power cut between the two leaves blobs that nothing names, never the reverse.
func (s *Store) remove(p string) error {
	var refs []models.Digest
	if data, err := readAll(s.disk, p, maxManifest); err == nil {
		if _, refs, err = parseManifest(data); err != nil {
			refs = nil
		}
	}
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

// drop removes those of the blobs that no manifest names any more.
func (s *Store) drop(refs []models.Digest) error {
	if len(refs) == 0 {
		return nil
	}
	used, err := s.references()
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

// references lists every digest that some manifest names. It fails when the disk cannot be read: then nothing may be removed.
func (s *Store) references() (map[models.Digest]bool, error) {
	paths, err := s.manifests()
	if err != nil {
		return nil, err
	}
	used := map[models.Digest]bool{}
	for _, p := range paths {
		data, err := readAll(s.disk, p, maxManifest)
		if err != nil {
			return nil, fmt.Errorf("models: %w", err)
		}
		_, refs, err := parseManifest(data)
		if err != nil {
			continue // damaged: it names a model that cannot be used anyway
		}
		for _, d := range refs {
			used[d] = true
		}
	}
	return used, nil
}

// Prune removes blobs that no model names and downloads that were left, if untouched for the given time. It returns the bytes freed.
func (s *Store) Prune(idle time.Duration) (freed int64, err error) {
	err = s.locked(func() error {
		used, err := s.references()
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
			ours := strings.HasPrefix(e.Name(), "tmp-") || strings.Contains(e.Name(), "-partial") && strings.HasPrefix(e.Name(), "sha256-") || strings.HasPrefix(e.Name(), "git-")
			if derr == nil && used[d] || derr != nil && !ours {
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

// errGone is what commit finds when a blob was removed, by another process's delete, while its model was being made.
type errGone struct{ d descriptor }

func (e *errGone) Error() string {
	return fmt.Sprintf("models: blob %s is missing or short", e.d.Digest)
}

// commit makes m the manifest of name, after all its blobs are known to be there; what the name's old manifest alone named is removed. It is
// called under locked.
func (s *Store) commit(name models.Name, m *manifest) error {
	for _, l := range m.Layers {
		st, err := s.disk.Stat(blobPath(l))
		if err != nil || st.Size() != l.Size {
			return &errGone{l}
		}
	}
	p := "manifests/" + name.Path()
	if old, err := s.get(name); err == nil && old.path != "" {
		p = old.path // the name as it is spelled there
	}
	data, err := m.encode()
	if err != nil {
		return fmt.Errorf("models: %w", err)
	}
	var refs []models.Digest
	if old, err := readAll(s.disk, p, maxManifest); err == nil {
		if _, refs, err = parseManifest(old); err != nil {
			refs = nil
		}
	}
	if err := mkdirs(s.disk, "blobs"); err != nil {
		return fmt.Errorf("models: %w", err)
	}
	if err := s.disk.SyncDir("blobs"); err != nil { // whoever put a blob there may not have come to it
		return fmt.Errorf("models: %w", err)
	}
	if err := mkdirs(s.disk, path.Dir(p)); err != nil {
		return fmt.Errorf("models: %w", err)
	}
	tmp := "blobs/tmp-" + randomName()
	if err := s.writeSynced(tmp, data); err != nil {
		return err
	}
	if err := s.disk.Rename(tmp, p); err != nil {
		_ = s.disk.Remove(tmp)
		return fmt.Errorf("models: %w", err)
	}
	if err := s.disk.SyncDir(path.Dir(p)); err != nil {
		return fmt.Errorf("models: %w", err)
	}
	return s.drop(refs)
}

func (s *Store) writeSynced(name string, data []byte) error {
	f, err := s.disk.Create(name)
	if err != nil {
		return fmt.Errorf("models: %w", err)
	}
	_, err = f.Write(data)
	if err == nil {
		err = f.Sync()
	}
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	if err != nil {
		_ = s.disk.Remove(name)
		return fmt.Errorf("models: %s: %w", s.where(name), err)
	}
	return nil
}

// copyCtx is io.Copy that ends with ctx.
func copyCtx(ctx context.Context, w io.Writer, r io.Reader) (int64, error) {
	buf := make([]byte, 128<<10)
	var n int64
	for {
		if err := ctx.Err(); err != nil {
			return n, err
		}
		k, err := r.Read(buf)
		if k > 0 {
			if _, werr := w.Write(buf[:k]); werr != nil {
				return n, werr
			}
			n += int64(k)
		}
		if err == io.EOF {
			return n, nil
		}
		if err != nil {
			return n, err
		}
	}
}
