package models

import (
	"cmp"
	"errors"
	"io"
	"io/fs"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/axle-llm/axle/axcl"
)

// Opened is a package of a kind that axle runs: a *Package is a language model, and the other types
// say what they are. Package engine says how each kind is put on a card.
type Opened interface {
	// Info is what there is to say of it.
	Info() Info
	Close() error
}

// OpenAny is [Open] for a package of any kind that axle runs.
func OpenAny(dir string) (Opened, error) { return OpenAnyAs(dir, "") }

// OpenAnyAs is [OpenAny] for a folder that does not tell what the package is called, as one of a
// cache. name is that, unless the package's configuration has a name; empty: the folder's.
func OpenAnyAs(dir, name string) (Opened, error) {
	d, err := openDir(dir)
	if err != nil {
		return nil, &Error{Path: dir, What: cause(err), Fix: "name a folder that holds an .axmodel package",
			Err: errors.Join(ErrNotPackage, err)}
	}
	o, err := openAny(d, dir, cmp.Or(name, filepath.Base(d.dir)))
	if err != nil {
		_ = d.Close()
		return nil, err
	}
	switch o := o.(type) {
	case *Package:
		o.closer, o.Dir = d, d.dir
	case other:
		o.self().closer, o.self().info.Path = d, d.dir
	}
	return o, nil
}

// OpenAnyFS is [OpenFS] for a package of any kind that axle runs.
func OpenAnyFS(fsys fs.FS, name string) (Opened, error) {
	if name != "." && name != "" {
		sub, err := subFS(fsys, name)
		if err != nil {
			return nil, &Error{Path: name, What: cause(err), Err: errors.Join(ErrNotPackage, err)}
		}
		fsys = sub
	}
	return openAny(fsys, "", path.Base(name))
}

// OpenAs is [OpenAnyFS] for the root of a file system that does not tell what the package is
// called, as a store's. name is what errors call it, unless its configuration has a name.
func OpenAs(fsys fs.FS, name string) (Opened, error) { return openAny(fsys, "", name) }

// LanguageModel is what [OpenAny] gave, if that is a language model. A package of another kind is
// closed, and the error is its [KindError].
func LanguageModel(o Opened, err error) (*Package, error) {
	if e, ok := o.(other); ok {
		_ = e.Close()
		return nil, e.self().kind
	}
	p, _ := o.(*Package)
	return p, err
}

// openAny opens a package of any kind that runs.
func openAny(fsys fs.FS, label, name string) (Opened, error) {
	p, err := open(fsys, label, name)
	if err == nil {
		return p, nil
	}
	var k *KindError
	if !errors.As(err, &k) || k.opened == nil {
		return nil, err
	}
	k.opened.self().kind = err
	return k.opened, nil
}

// other is a package that is no language model. Every kind of them embeds a base.
type other interface {
	Opened
	self() *base
}

// base is what all kinds but language models have.
type base struct {
	info   Info
	kind   error // what [Open] says of the package
	closer io.Closer
}

// Info is what there is to say of the package.
func (b *base) Info() Info { return b.info }

// Close closes the package.
func (b *base) Close() error {
	if b.closer == nil {
		return nil
	}
	return b.closer.Close()
}

func (b *base) self() *base { return b }

// NetFile is the file of a net, and the tensors that it says it has.
type NetFile struct {
	Path    string // its real path; its name in the package where there is none
	Size    int64  // bytes; 0: not noted
	In, Out []axcl.Tensor
}

// memory notes what a package's nets take on a card: their weights are the files but for little.
func (b *base) memory(files []int64, buffers ...axcl.Tensor) {
	m := &b.info.Memory
	for _, size := range files {
		m.Layers += pages(size)
	}
	for _, t := range buffers {
		m.IO += pages(int64(t.Size))
	}
	m.Card = m.Layers + m.IO
	m.Load = max(m.Card, m.Layers+pages(slices.Max(files))) // the library holds a file beside what it loads
}

// spokenLanguage is an ISO code without its region: en of en-US.
func spokenLanguage(code string) string {
	code, _, _ = strings.Cut(strings.ToLower(code), "-")
	return code
}
