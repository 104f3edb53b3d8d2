package inspection

import (
	"io"

	"github.com/axle-llm/axle/models"
)

// Package is the report of a package folder.
type Package struct{ models.Info }

func describePackage(p *models.Package) *Package {
	r := &Package{p.Info()}
	r.Notes = append([]string{}, r.Notes...) // a list, though an empty one
	return r
}

// Print writes the report for people.
func (r *Package) Print(w io.Writer) error { return r.Write(w) }

// Kind is a package that is no language model.
type Kind struct {
	info models.Info

	Name         string   `json:"name"`
	Kind         string   `json:"kind"`
	Says         string   `json:"says"` // where axle does not run it: that in a sentence
	Path         string   `json:"path"`
	Digest       string   `json:"digest"`
	Capabilities []string `json:"capabilities"`
	Languages    []string `json:"languages,omitempty"`
	Voices       []string `json:"voices,omitempty"`
	Size         int64    `json:"size_bytes"`
	Context      int      `json:"context,omitempty"`
	Dims         int      `json:"dimensions,omitempty"`
	Card         int64    `json:"card_memory_bytes,omitempty"`
	Most         int64    `json:"card_memory_loading_bytes,omitempty"`
}

func described(i models.Info) *Kind {
	k := &Kind{info: i, Name: i.Name, Kind: i.Kind, Says: i.Says, Path: i.Path, Digest: i.Digest,
		Capabilities: []string{}, Languages: i.Languages,
		Size: i.Size, Context: i.Context, Dims: i.Hidden, Card: i.Memory.Card, Most: i.Memory.Load}
	k.Capabilities = append(k.Capabilities, i.Capabilities...)
	for _, v := range i.Voices {
		k.Voices = append(k.Voices, v.Name)
	}
	return k
}

// Print writes it for people.
func (r *Kind) Print(w io.Writer) error { return r.info.Write(w) }
