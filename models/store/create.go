package store

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"time"

	"github.com/axle-llm/axle/models"
)

// CreateRequest describes a derived model. Exactly one of From, Files and Folder says what it is
// derived from. A nil Template, System, Messages or Params keeps the parent's; Params adds to the
// parent's by key; License adds.
type CreateRequest struct {
	Name     string
	From     string                   // a model of the store
	Files    map[string]models.Digest // a package made of uploaded blobs: file name to digest
	Folder   string                   // a package in place; only callers that trust who asks set this
	Template *string
	System   *string
	License  []string
	Params   map[string]any
	Messages []Message
}

// ErrNoBase is Create without anything to derive from.
var ErrNoBase = errors.New("neither 'from' or 'files' was specified")

// ErrRequest is Create of files that cannot be: a name that is no path, a blob that was not
// uploaded.
var ErrRequest = errors.New("not what a package can be made of")

// Create makes a model that shares its parent's files. status gets Ollama's lines and may be nil.
// Errors: models.ErrName, [ErrTaken], [ErrNoBase], [ErrRequest], [ErrNotFound] for the parent
// (which the caller may pull), [ErrGGUF] and [ErrForeign] for one of Ollama's own, those of
// models.Open when uploaded files are no package, and the disk's.
func (s *Store) Create(ctx context.Context, r CreateRequest, status func(string)) error {
	if status == nil {
		status = func(string) {}
	}
	name, err := models.ParseName(r.Name)
	if err != nil {
		return err
	}
	_, err = s.Get(r.Name)
	if err := notForeign(name, err); err != nil {
		return err
	}
	for range remakes {
		if err = s.create(ctx, name, r, status); err == nil {
			status("success")
			return nil
		}
		var gone *errGone
		if !errors.As(err, &gone) {
			return err
		}
	}
	return err
}

// remakes is how often a model is made once more because deletes took a blob of it between making
// and committing. Each round needs another delete at the right moment.
const remakes = 30

func (s *Store) create(ctx context.Context, name models.Name, r CreateRequest, status func(string)) error {
	m, base, err := s.base(r)
	if err != nil {
		return err
	}
	made := map[models.Digest]bool{}
	add := func(media string, data []byte, keep bool) error {
		d := sum(data)
		if _, ok, err := s.HasBlob(d); err != nil {
			return err
		} else if !ok {
			if _, _, err := s.put(ctx, &d, bytes.NewReader(data)); err != nil {
				return err
			}
			made[d] = true
		}
		l := descriptor{MediaType: media, Digest: d, Size: int64(len(data))}
		if keep {
			if !slices.Contains(m.Layers, l) {
				m.Layers = append(m.Layers, l)
			}
			return nil
		}
		m.set(media, &l)
		return nil
	}
	text := func(media string, s *string) error {
		if s == nil {
			return nil
		}
		if *s == "" {
			m.set(media, nil)
			return nil
		}
		return add(media, []byte(*s), false)
	}
	if err := text(mediaTemplate, r.Template); err != nil {
		return err
	}
	if err := text(mediaSystem, r.System); err != nil {
		return err
	}
	for _, l := range r.License {
		if err := add(mediaLicense, []byte(l), true); err != nil {
			return err
		}
	}
	if len(r.Params) > 0 {
		params := maps.Clone(base.Params)
		if params == nil {
			params = map[string]any{}
		}
		maps.Copy(params, r.Params)
		data, err := json.Marshal(params)
		if err != nil {
			return fmt.Errorf("models: parameters: %w", err)
		}
		if err := add(mediaParams, data, false); err != nil {
			return err
		}
	}
	if len(r.Messages) > 0 {
		data, err := json.Marshal(r.Messages)
		if err != nil {
			return fmt.Errorf("models: messages: %w", err)
		}
		if err := add(mediaMessages, data, false); err != nil {
			return err
		}
	}
	// Every layer is told, the parent's that stay too, as in Ollama.
	for _, l := range m.Layers {
		how := "using existing layer "
		if made[l.Digest] {
			how = "creating new layer "
		}
		status(how + l.Digest.String())
	}
	m.Axle.Created = time.Now().UTC()
	status("writing manifest")
	return s.locked(func() error { return s.commit(name, m) })
}

// base is the manifest to start from, and the parent as a model.
func (s *Store) base(r CreateRequest) (*manifest, *Model, error) {
	switch {
	case r.From != "":
		parent, err := s.Get(r.From)
		if err != nil {
			return nil, nil, err
		}
		o := *parent.m.Axle
		o.From = parent.Name.String()
		return &manifest{Layers: slices.Clone(parent.m.Layers), Axle: &o}, parent, nil
	case len(r.Files) > 0:
		m := &manifest{Axle: &origin{}}
		for name, d := range r.Files {
			if !fs.ValidPath(name) || name == "." {
				return nil, nil, fmt.Errorf("models: a package file may not be called %.200q: %w", name, ErrRequest)
			}
			size, ok, err := s.HasBlob(d)
			if err != nil {
				return nil, nil, err
			}
			if !ok {
				return nil, nil, fmt.Errorf("models: blob %s for %s was not uploaded: send it to /api/blobs/%s first: %w", d, name, d,
					ErrRequest)
			}
			m.Layers = append(m.Layers, descriptor{mediaFile, d, size, name})
		}
		slices.SortFunc(m.Layers, func(a, b descriptor) int { return bytes.Compare([]byte(a.Name), []byte(b.Name)) })
		p, err := models.OpenFS(newPackageFS(s.disk, m.Layers), ".")
		if err != nil {
			return nil, nil, err
		}
		return m, &Model{}, p.Close()
	case r.Folder != "":
		p, err := models.Open(r.Folder)
		if err != nil {
			return nil, nil, err
		}
		return &manifest{Axle: &origin{Folder: p.Dir}}, &Model{}, p.Close()
	}
	return nil, nil, ErrNoBase
}
