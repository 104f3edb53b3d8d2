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
	"sync/atomic"
	"time"

	"golang.org/x/sync/semaphore"

	"github.com/axle-llm/axle/internal/ranked"
	"github.com/axle-llm/axle/internal/regular"
	"github.com/axle-llm/axle/models"
)

// Errors for errors.Is, in addition to models.ErrName and models.ErrDigest.
var (
	ErrNotFound = errors.New("model not found")
	ErrGGUF     = errors.New("a GGUF model, which this chip cannot run")
	ErrForeign  = errors.New("Ollama's own model, which axle cannot run") // of safetensors, or in Ollama's cloud
	ErrTaken    = errors.New("the name of a model of Ollama's own")
	ErrReadOnly = errors.New("not kept in the store")
	ErrMismatch = errors.New("digest mismatch")
)

// Options say where models are. The zero Options are a store in the default folder with nothing in
// place and nothing built in.
type Options struct {
	Dir     string           // the store's folder; empty: [DefaultDir]
	Paths   []string         // folders that hold packages, or are one: each is a model, nothing is copied
	Builtin map[string]fs.FS // packages that ship inside the program, by name
	Disk    Disk             // instead of Dir, for tests
}

// FromEnv reads AXLE_MODELS or OLLAMA_MODELS (the folder) and AXLE_MODEL_PATH (a list separated as
// PATH is).
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

	mu ranked.RWMutex[ranked.Store] // held for writing while manifests or blobs go; the lock file does the same between processes

	fetching sync.Map            // partial file to a channel closed when its download ends
	pulls    *semaphore.Weighted // how many pulls may be at work
	found    sync.Map            // folders of packages to *walk
	known    sync.Map            // names to *known
	names    atomic.Int64        // how many of them
	uploads  atomic.Int64        // bytes that uploads may write before they ask again
	gives    atomic.Pointer[func(int64) int64]
	unsynced sync.Map // partial files whose sync failed and whose state may still claim them

	builtinMu   ranked.Mutex[ranked.Builtin]
	builtinSums map[string]builtinSum // by full name

	infoMu ranked.Mutex[ranked.StoreInfo]
	infos  map[string]models.Info // by package digest

	checking checking // what is known of files' soundness after a server did not end in order
}

// Open opens the store, making its folder where there is none. Folders of Paths that do not exist
// are passed over.
func Open(o Options) (*Store, error) {
	s := &Store{disk: o.Disk, pulls: semaphore.NewWeighted(maxPulls), builtin: map[string]fs.FS{}, infos: map[string]models.Info{},
		builtinSums: map[string]builtinSum{}, checking: checking{seen: map[string]string{}, rotten: map[string]rotFound{}}}
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

// Paths are the folders that packages in place are looked for in.
func (s *Store) Paths() []string { return slices.Clone(s.paths) }

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

// BuiltinName is the full name of the built-in package this model is, or was made from; empty for
// any other.
func (m *Model) BuiltinName() string { return m.m.Axle.Builtin }

// List returns all models, newest first. What cannot be read is passed over: a manifest of Ollama's
// own, a damaged one.
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

// Get finds a model by name, letters of either case being the same as in Ollama. It fails with
// models.ErrName, [ErrNotFound], [ErrGGUF] or [ErrForeign]. As long as nothing on disk changed it
// may give the same Model again: it is never changed.
func (s *Store) Get(name string) (*Model, error) {
	n, err := models.ParseName(name)
	if err != nil {
		return nil, err
	}
	return s.Named(n)
}

// Named is [Store.Get] of a name that was read before.
func (s *Store) Named(n models.Name) (*Model, error) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if m := s.recall(n); m != nil {
		return m, nil
	}
	began := time.Now()
	m, err := s.get(n)
	if err == nil {
		s.remember(n, m, began)
	}
	return m, err
}

func (s *Store) get(n models.Name) (*Model, error) {
	p, err := s.find(n)
	if err != nil {
		return nil, err
	}
	if p != "" {
		return s.load(p)
	}
	for _, m := range append(s.inPlace(n), s.builtins(n)...) {
		if m.Name.EqualFold(n) {
			return m, nil
		}
	}
	return nil, fmt.Errorf("%w: %s", ErrNotFound, n)
}

// find is the path of a name's manifest, as the name is spelled there; empty where there is none.
func (s *Store) find(n models.Name) (string, error) {
	p := "manifests/" + n.Path()
	if _, err := s.disk.Stat(p); err == nil || !errors.Is(err, fs.ErrNotExist) {
		return p, nil // reading it says what else is wrong
	}
	paths, err := s.manifests()
	if err != nil {
		return "", err
	}
	for _, p := range paths {
		if o, err := models.NameFromPath(strings.TrimPrefix(p, "manifests/")); err == nil && o.EqualFold(n) {
			return p, nil
		}
	}
	return "", nil
}

// manifests lists the paths of all manifests whose names are valid.
func (s *Store) manifests() ([]string, error) {
	return s.walk(func(string) error { return nil })
}

// walk is manifests, calling folder for each folder on the way.
func (s *Store) walk(folder func(dir string) error) ([]string, error) {
	var out []string
	var walk func(dir string, depth int) error
	walk = func(dir string, depth int) error {
		list, err := s.disk.ReadDir(dir)
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err == nil {
			err = folder(dir)
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
	if errors.Is(err, regular.ErrLarge) {
		err = ErrForeign // ours stay below
	}
	if err == nil {
		err = foreign(data)
	}
	if err != nil {
		return nil, fmt.Errorf("models: %s: %w", n, err)
	}
	man, _, err := parseManifest(data)
	if err != nil {
		return nil, fmt.Errorf("models: the manifest of %s is damaged (%w); pull or create it again", n, err)
	}
	m := &Model{Name: n, Digest: hexOf(data), s: s, m: man, path: p, From: man.Axle.From, Folder: man.Axle.Folder,
		Builtin: man.Axle.Builtin != "", Hub: man.Axle.Hub}
	if st, err := s.disk.Stat(p); err == nil {
		m.ModifiedAt = st.ModTime()
	}
	switch { // a package that is not in blobs counts all the same, and its changes are the model's
	case m.Folder != "":
		f := &Model{Folder: m.Folder}
		f.listing()
		m.Files, m.Size = f.Files, f.Size
		m.Digest = hexOf([]byte(m.Digest + f.Digest))
	case m.Builtin:
		if files, digest, err := s.builtinFiles(man.Axle.Builtin); err == nil {
			m.Files = files
			for _, f := range files {
				m.Size += f.Size
			}
			m.Digest = hexOf([]byte(m.Digest + digest))
		}
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
	if !slices.Contains([]string{mediaParams, mediaMessages, mediaTemplate, mediaSystem, mediaLicense}, l.MediaType) {
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
	case mediaParams:
		err = json.Unmarshal(data, &m.Params)
	case mediaMessages:
		err = json.Unmarshal(data, &m.Messages)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", l.Digest, err)
	}
	return nil
}

// Open opens the model's package; the caller closes it. Every file is first checked for being there
// with its size, and for not having been found rotten (promise D12); the error names the one that
// is not as it was. One with another time than when it was last hashed is hashed in the background,
// where there is a server (see [Store.Guard]). Derived models open the package they share: it has
// the same digest.
func (m *Model) Open() (*models.Package, error) {
	return models.LanguageModel(m.OpenAny())
}

// OpenAny is Open for a package of any kind that axle runs.
func (m *Model) OpenAny() (models.Opened, error) {
	m.s.hashFirst(m.Name)
	switch {
	case m.m.Axle.Folder != "":
		if err := m.s.sound(m.Folder, m.Digest); err != nil {
			return nil, err
		}
		return models.OpenAny(m.m.Axle.Folder)
	case m.m.Axle.Builtin != "":
		return m.s.openBuiltin(m.m.Axle.Builtin, m.Name.String())
	}
	fsys, err := m.fs()
	if err != nil {
		return nil, err
	}
	o, err := models.OpenAs(fsys, m.Name.String())
	if err != nil {
		return nil, fmt.Errorf("models: %s: %w", m.Name, err)
	}
	return o, nil
}

func (m *Model) fs() (*packageFS, error) {
	files := m.m.files()
	if len(files) == 0 {
		return nil, fmt.Errorf("models: %s has no package; pull or create it again", m.Name)
	}
	for _, f := range files {
		st, err := m.s.disk.Stat(blobPath(f))
		if err != nil {
			return nil, &models.Error{Path: m.s.where(blobPath(f)), What: fmt.Sprintf("%s of %s is missing", f.Name, m.Name),
				Fix: "pull the model again", Err: models.ErrMissing}
		}
		if st.Size() != f.Size {
			return nil, &models.Error{Path: m.s.where(blobPath(f)), What: fmt.Sprintf("%s of %s has %d bytes, want %d", f.Name, m.Name,
				st.Size(), f.Size), Fix: "delete this file and pull the model again", Err: models.ErrSize}
		}
		//rule:D12 TestGuard$ false
		if err := m.s.soundBlob(blobPath(f), st); err != nil {
			return nil, err
		}
	}
	m.s.hashIfChanged(m)
	return newPackageFS(m.s.disk, files), nil
}

func (s *Store) where(name string) string { return cmp.Or(s.disk.Path(name), name) }

// Info describes the model's package; it opens it once for each content and remembers the answer. A
// package of another kind than a language model's is described too ([models.Info.Says]), though
// [Model.Open] fails with its [models.KindError].
func (m *Model) Info() (models.Info, error) {
	key := m.Digest
	m.s.infoMu.Lock()
	i, ok := m.s.infos[key]
	m.s.infoMu.Unlock()
	if ok {
		return i, nil
	}
	p, err := m.OpenAny()
	if kind := new(models.KindError); errors.As(err, &kind) {
		i = kind.Info
	} else if err != nil {
		return models.Info{}, err
	} else {
		defer p.Close()
		i = p.Info()
	}
	m.s.infoMu.Lock()
	defer m.s.infoMu.Unlock()
	if len(m.s.infos) > 4096 { // a folder in place that changes for ever
		clear(m.s.infos)
	}
	m.s.infos[key] = i
	return i, nil
}

// A copy in the background rests restFactor times as long as it has worked, after every workTime. A
// thread of low priority would leave more to others, but a process is gone when its last thread is:
// one that gets no processor, since others are busy, holds up the end of a server that lost its
// card by seconds (promise D7).
const (
	workTime   = 10 * time.Millisecond
	restFactor = 3
)

type restsKey struct{}

// withRests makes copies under ctx rest.
func withRests(ctx context.Context) context.Context { return context.WithValue(ctx, restsKey{}, true) }

// copyCtx is io.Copy that ends with ctx.
func copyCtx(ctx context.Context, w io.Writer, r io.Reader) (int64, error) {
	return io.CopyBuffer(w, &ctxReader{ctx, r, time.Now()}, make([]byte, 128<<10))
}

// ctxReader reads until ctx ends, and rests where ctx says so.
type ctxReader struct {
	ctx   context.Context
	r     io.Reader
	begun time.Time // the work since the last rest
}

func (r *ctxReader) Read(p []byte) (int, error) {
	//rule:D7 TestRests workTime => time.Hour
	if d := time.Since(r.begun); d >= workTime && r.ctx.Value(restsKey{}) != nil {
		select {
		case <-r.ctx.Done():
		case <-time.After(restFactor * d):
		}
		r.begun = time.Now()
	}
	if err := r.ctx.Err(); err != nil {
		return 0, err
	}
	return r.r.Read(p)
}
