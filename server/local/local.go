// Package local is the server's view of the models on this machine: it puts store entries into the
// server's terms, and loads them on a card.
//
// [Models] and a [Loader] may be used from any goroutine. The models do not own their store; the
// loader owns the card it opens, and Close releases it after the models that use it are closed.
package local

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/axle-llm/axle/ask"
	"github.com/axle-llm/axle/engine/hosthead"
	"github.com/axle-llm/axle/internal/ranked"
	"github.com/axle-llm/axle/models"
	"github.com/axle-llm/axle/models/rows"
	"github.com/axle-llm/axle/models/store"
	"github.com/axle-llm/axle/server/catalog"
	"github.com/axle-llm/axle/tokenizer/chat"
)

// About is what a package tells of itself.
type About struct {
	Info      models.Info
	Caps      chat.Capabilities
	Embedding bool
	Template  string // as text
}

// Options change how packages are looked at.
type Options struct {
	// Describe stands in for opening a model's package; ok false leaves it to [Models].
	Describe func(m *store.Model) (a About, ok bool)
	// Rows is the folder where rows are kept. A deleted model's rows are deleted with it. Empty:
	// there is no such folder.
	Rows string
	// Heads is the folder where LM heads for this machine's processor are kept, likewise.
	Heads string
}

// Models is a catalog.Store over a store. Methods that it does not define are the store's own.
type Models struct {
	*store.Store
	o Options

	mu    ranked.Mutex[ranked.Local]
	about map[string]About                // by digest of the entry
	known map[*store.Model]*catalog.Entry // of models that the store gives again as long as nothing changed
}

// New makes Models.
func New(s *store.Store, o Options) *Models {
	return &Models{Store: s, o: o, about: map[string]About{}, known: map[*store.Model]*catalog.Entry{}}
}

// List implements catalog.Store. Models whose package cannot be opened are listed all the same, so
// that people can remove them.
func (s *Models) List(ctx context.Context) ([]*catalog.Entry, error) {
	list, err := s.Store.List(ctx)
	if err != nil {
		return nil, err
	}
	out := make([]*catalog.Entry, 0, len(list))
	for _, m := range list {
		e, err := s.entry(m)
		if err != nil {
			e = s.bare(m)
			e.Broken = err
		}
		out = append(out, e)
	}
	for _, e := range slices.Clone(out) {
		for _, a := range adapters(e) {
			if !slices.ContainsFunc(out, func(e *catalog.Entry) bool { return e.Name.EqualFold(a.Name) }) {
				out = append(out, a)
			}
		}
	}
	return out, nil
}

// Get implements catalog.Store.
func (s *Models) Get(name models.Name) (*catalog.Entry, error) {
	e, err := s.stored(name)
	if errors.Is(err, store.ErrNotFound) {
		if a := s.adapter(name); a != nil {
			return a, nil
		}
	}
	return e, err
}

// stored is Get of the store's own models.
func (s *Models) stored(name models.Name) (*catalog.Entry, error) {
	m, err := s.Store.Named(name)
	if err != nil {
		return nil, err
	}
	if m.Folder != "" || m.Rotten() != nil { // what is loaded of it depends on more than the store's answer
		return s.entry(m)
	}
	s.mu.Lock()
	e := s.known[m]
	s.mu.Unlock()
	if e != nil {
		return e, nil
	}
	if e, err = s.entry(m); err == nil {
		s.mu.Lock()
		if len(s.known) >= 256 {
			clear(s.known)
		}
		s.known[m] = e
		s.mu.Unlock()
	}
	return e, err
}

// Copy implements catalog.Store.
func (s *Models) Copy(src, dst models.Name) error { return s.Store.Copy(src.Full(), dst.Full()) }

// Delete implements catalog.Store. What conversations with the model left on disk goes with it,
// unless another model has the same package.
func (s *Models) Delete(name models.Name) error {
	digest := s.alone(name)
	if err := s.Store.Delete(name.Full()); err != nil || digest == "" {
		return err
	}
	if s.o.Heads != "" {
		if _, err := hosthead.Clear(s.o.Heads, digest); err != nil {
			return fmt.Errorf("models: %s is deleted, but the copy of its LM head in %s is not: %w", name, s.o.Heads, err)
		}
	}
	if s.o.Rows == "" {
		return nil
	}
	if _, err := rows.Clear(s.o.Rows, func(u rows.Usage) bool { return u.Of(digest) }); err != nil {
		return fmt.Errorf("models: %s is deleted, but what conversations left of it in %s is not: %w; axle cache clear removes it",
			name, s.o.Rows, err)
	}
	return nil
}

// alone is the digest of a model's package where something is kept of it and no other model has
// that package; else it is empty.
func (s *Models) alone(name models.Name) string {
	if s.o.Rows == "" && s.o.Heads == "" {
		return ""
	}
	m, err := s.Store.Get(name.Full())
	if err != nil {
		return ""
	}
	list, err := s.Store.List(context.Background())
	if err != nil {
		return ""
	}
	for _, other := range list {
		if other.Name != m.Name && slices.Equal(other.Files, m.Files) {
			return ""
		}
	}
	p, err := m.Open()
	if err != nil {
		return ""
	}
	defer p.Close()
	return p.Digest()
}

// bare is an entry with what the manifest alone tells.
func (s *Models) bare(m *store.Model) *catalog.Entry {
	e := &catalog.Entry{Name: m.Name, Digest: m.Digest, Place: place(m), Size: m.Size, Modified: m.ModifiedAt, Parent: m.From,
		System: m.System, Params: m.Params, License: m.License, Model: m}
	for _, msg := range m.Messages {
		e.Messages = append(e.Messages, ask.Message{Role: msg.Role, Content: msg.Content})
	}
	return e
}

// place is where a model's package lies: a folder, the program, or the files of its manifest.
func place(m *store.Model) string {
	switch {
	case m.Folder != "":
		return filepath.Clean(m.Folder)
	case m.Builtin:
		return "builtin:" + m.BuiltinName()
	}
	var files []string
	for _, f := range m.Files {
		files = append(files, f.Name+"="+f.Digest.Hex())
	}
	slices.Sort(files)
	return strings.Join(files, "\n")
}

// stamp tells a folder's content from what it was before, by names, sizes and times.
func stamp(dir string) string {
	h := sha256.New()
	_ = filepath.WalkDir(dir, func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return nil
		}
		if st, err := os.Stat(p); err == nil && st.Mode().IsRegular() {
			fmt.Fprintf(h, "%s\x00%d\x00%d\x00", p, st.Size(), st.ModTime().UnixNano())
		}
		return nil
	})
	return hex.EncodeToString(h.Sum(nil))
}

func (s *Models) entry(m *store.Model) (*catalog.Entry, error) {
	e := s.bare(m)
	a, err := s.look(m)
	if err != nil {
		return nil, err
	}
	e.Info, e.Caps, e.Embedding, e.Template = a.Info, a.Caps, a.Embedding, a.Template
	// Models that share a package share what is loaded; a package that changed is another.
	e.Key = e.Place
	if m.Folder != "" {
		e.Key += "@" + stamp(e.Place)
	}
	if m.Rotten() != nil {
		e.Key += "!" // what is loaded from it serves no new request, and another load is refused
	}
	if m.Template != "" {
		t, err := chat.NewGo(m.Template)
		if err != nil {
			return nil, err
		}
		caps := t.Capabilities()
		caps.Vision = a.Caps.Vision
		e.Custom, e.Template, e.Caps = ask.Template{Text: m.Template}, m.Template, caps
	}
	if m.Folder == "" && !m.Builtin {
		e.Place = m.Name.Full() // a pull or create over the name replaces what is loaded
	}
	return e, nil
}

// look opens a model's package once for each content.
func (s *Models) look(m *store.Model) (About, error) {
	if s.o.Describe != nil {
		if a, ok := s.o.Describe(m); ok {
			return a, nil
		}
	}
	info, err := m.Info()
	if err != nil {
		return About{}, err
	}
	if info.Says != "" || info.Kind != "" { // which has no template
		return About{Info: info, Embedding: slices.Contains(info.Capabilities, "embedding"),
			Caps: chat.Capabilities{Vision: slices.Contains(info.Capabilities, "vision"),
				Audio:  slices.Contains(info.Capabilities, "audio"),
				Speech: slices.Contains(info.Capabilities, "speech"), Detection: slices.Contains(info.Capabilities, "detection"),
				Drawing: slices.Contains(info.Capabilities, "image"), Faces: slices.Contains(info.Capabilities, "faces")}}, nil
	}
	key := m.Digest + info.Digest
	s.mu.Lock()
	a, ok := s.about[key]
	s.mu.Unlock()
	if ok {
		return a, nil
	}
	a = About{Info: info, Embedding: slices.Contains(info.Capabilities, "embedding"), Caps: chat.Capabilities{
		Tools: slices.Contains(info.Capabilities, "tools"), Thinking: slices.Contains(info.Capabilities, "thinking"),
		Insert: slices.Contains(info.Capabilities, "insert"), Vision: slices.Contains(info.Capabilities, "vision"), System: true}}
	p, err := m.Open()
	if err != nil {
		return About{}, err
	}
	defer p.Close()
	if t, err := p.Template(); err == nil {
		a.Template = t.Source()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.about) > 4096 {
		clear(s.about)
	}
	s.about[key] = a
	return a, nil
}
