package store

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"time"

	"github.com/axle-llm/axle/internal/regular"
	"github.com/axle-llm/axle/models"
)

// Media types of a manifest's layers. A package's files have ours; what a Modelfile adds has
// Ollama's.
const (
	mediaManifest = "application/vnd.docker.distribution.manifest.v2+json"
	mediaFile     = "application/vnd.axle.file"
	mediaTemplate = "application/vnd.ollama.image.template"
	mediaSystem   = "application/vnd.ollama.image.system"
	mediaParams   = "application/vnd.ollama.image.params"
	mediaMessages = "application/vnd.ollama.image.messages"
	mediaLicense  = "application/vnd.ollama.image.license"
	mediaGGUF     = "application/vnd.ollama.image.model"
)

const (
	maxManifest = 8 << 20
	maxLayers   = 20000
	maxSmall    = 4 << 20 // template, system, messages, licence
)

type descriptor struct {
	MediaType string        `json:"mediaType"`
	Digest    models.Digest `json:"digest"`
	Size      int64         `json:"size"`
	Name      string        `json:"name,omitempty"` // a package file's path
}

// origin says what a model's files are, beyond the manifest's own layers.
type origin struct {
	From    string    `json:"from,omitempty"`    // the model it was created from
	Folder  string    `json:"folder,omitempty"`  // a package in place
	Builtin string    `json:"builtin,omitempty"` // a package that ships inside the program
	Hub     string    `json:"hub,omitempty"`     // repository@commit it was pulled from
	Created time.Time `json:"created,omitzero"`
}

type manifest struct {
	SchemaVersion int          `json:"schemaVersion"`
	MediaType     string       `json:"mediaType"`
	Layers        []descriptor `json:"layers"`
	Axle          *origin      `json:"axle,omitempty"` // nil in a manifest of Ollama's own
}

// foreignManifest reads what Ollama writes in addition: its config counts as a reference, so that
// we never remove it.
type foreignManifest struct {
	manifest
	Config *struct {
		Digest string `json:"digest"`
	} `json:"config,omitempty"`
	Layers []struct {
		MediaType string `json:"mediaType"`
		Digest    string `json:"digest"`
		Size      int64  `json:"size"`
		Name      string `json:"name,omitempty"`
	} `json:"layers"`
}

// foreign is [ErrGGUF] or [ErrForeign] for a manifest of Ollama's own: of GGUF files, of
// safetensors, of a model in its cloud. All of ours have the key axle. A manifest that is no JSON
// is damaged, and no error here.
func foreign(data []byte) error {
	var m struct {
		Axle   any `json:"axle"`
		Layers []struct {
			MediaType string `json:"mediaType"`
		} `json:"layers"`
	}
	var typed *json.UnmarshalTypeError
	switch err := json.Unmarshal(data, &m); {
	case err != nil && !errors.As(err, &typed), m.Axle != nil:
		return nil
	}
	for _, l := range m.Layers {
		if l.MediaType == mediaGGUF {
			return ErrGGUF
		}
	}
	return ErrForeign
}

// parseManifest reads and checks a manifest. refs are all digests in it, also of manifests that are
// not ours.
func parseManifest(data []byte) (m *manifest, refs []models.Digest, err error) {
	if len(data) > maxManifest {
		return nil, nil, fmt.Errorf("a manifest of %d bytes, limit %d", len(data), maxManifest)
	}
	var f foreignManifest
	if err := json.Unmarshal(data, &f); err != nil {
		return nil, nil, err
	}
	if len(f.Layers) > maxLayers {
		return nil, nil, fmt.Errorf("a manifest of %d layers, limit %d", len(f.Layers), maxLayers)
	}
	m = &f.manifest
	if f.Config != nil {
		if d, err := models.ParseDigest(f.Config.Digest); err == nil {
			refs = append(refs, d)
		}
	}
	seen := map[string]bool{}
	for _, l := range f.Layers {
		d, err := models.ParseDigest(l.Digest)
		if err != nil {
			return nil, nil, err
		}
		refs = append(refs, d)
		if l.MediaType == mediaFile && (!fs.ValidPath(l.Name) || l.Name == "." || seen[l.Name]) {
			return nil, nil, fmt.Errorf("a package file may not be called %.200q", l.Name)
		}
		if l.Size < 0 {
			return nil, nil, fmt.Errorf("a layer of %d bytes", l.Size)
		}
		seen[l.Name] = true
		m.Layers = append(m.Layers, descriptor{l.MediaType, d, l.Size, l.Name})
	}
	if m.Axle != nil && m.Axle.Folder != "" && strings.ContainsRune(m.Axle.Folder, 0) {
		return nil, nil, errors.New("a folder with a zero byte in its name")
	}
	return m, refs, nil
}

func (m *manifest) encode() ([]byte, error) {
	m.SchemaVersion, m.MediaType = 2, mediaManifest
	if m.Layers == nil {
		m.Layers = []descriptor{}
	}
	return json.Marshal(m)
}

// files are the package's own files, in the order of their names.
func (m *manifest) files() []descriptor {
	var out []descriptor
	for _, l := range m.Layers {
		if l.MediaType == mediaFile {
			out = append(out, l)
		}
	}
	slices.SortFunc(out, func(a, b descriptor) int { return strings.Compare(a.Name, b.Name) })
	return out
}

// set replaces all layers of a type by one, or removes them where d is nil.
func (m *manifest) set(media string, d *descriptor) {
	m.Layers = slices.DeleteFunc(m.Layers, func(l descriptor) bool { return l.MediaType == media })
	if d != nil {
		m.Layers = append(m.Layers, *d)
	}
}

func sum(data []byte) models.Digest { return sha256.Sum256(data) }

// readAll reads a file of the disk whole; one larger than limit is [regular.ErrLarge].
func readAll(d Disk, name string, limit int64) ([]byte, error) {
	f, err := d.Open(name)
	if err != nil {
		return nil, err
	}
	return regular.All(f, name, limit)
}

func hexOf(data []byte) string { s := sha256.Sum256(data); return hex.EncodeToString(s[:]) }
