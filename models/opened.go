package models

import (
	"errors"
	"io/fs"
	"path"
	"path/filepath"
)

// Opened is a package of a kind that axle runs. A *Package is a language model, a *TextEncoder
// gives vectors. Package engine says how each kind is put on a card.
type Opened interface {
	// Info is what there is to say of it.
	Info() Info
	Close() error
}

// OpenAny is [Open] for a package of any kind that axle runs.
func OpenAny(dir string) (Opened, error) {
	d, err := openDir(dir)
	if err != nil {
		return nil, &Error{Path: dir, What: cause(err), Fix: "name a folder that holds an .axmodel package",
			Err: errors.Join(ErrNotPackage, err)}
	}
	o, err := openAny(d, dir, filepath.Base(d.dir))
	if err != nil {
		_ = d.Close()
		return nil, err
	}
	switch o := o.(type) {
	case *Package:
		o.closer, o.Dir = d, d.dir
	case *TextEncoder:
		o.closer, o.info.Path = d, d.dir
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

// LanguageModel is what [OpenAny] gave, if that is a language model. A package of another kind is
// closed, and the error is its [KindError].
func LanguageModel(o Opened, err error) (*Package, error) {
	if e, ok := o.(*TextEncoder); ok {
		_ = e.Close()
		return nil, e.kind
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
	k.opened.kind = err
	return k.opened, nil
}
