package inspection

import (
	"io"

	"github.com/axle-llm/axle/ask"
	"github.com/axle-llm/axle/models"
)

// Package is a package folder: models.Info, field by field, with the names that its JSON has.
type Package struct {
	Name          string             `json:"name"`
	Kind          string             `json:"-"`
	Says          string             `json:"-"`
	Architecture  string             `json:"architecture"`
	Family        string             `json:"family"`
	Layout        string             `json:"layout"`
	Path          string             `json:"path"`
	Source        string             `json:"configuration"`
	Digest        string             `json:"digest"`
	TokenizerType string             `json:"tokenizer_type"`
	Quantization  string             `json:"quantization"`
	Parameters    int64              `json:"parameters"`
	Estimated     bool               `json:"parameters_estimated"`
	ParameterSize string             `json:"-"`
	Context       int                `json:"context"`
	Prefill       int                `json:"-"`
	Hidden        int                `json:"hidden"`
	Layers        int                `json:"layers"`
	Heads         int                `json:"heads,omitempty"`
	KVHeads       int                `json:"kv_heads,omitempty"`
	HeadDim       int                `json:"head_dim,omitempty"`
	FeedForward   int                `json:"feed_forward,omitempty"`
	Vocab         int                `json:"vocab"`
	Cells         int                `json:"cells"`
	KV            int                `json:"kv"`
	Groups        []string           `json:"groups"`
	Capabilities  []string           `json:"capabilities"`
	Languages     []string           `json:"languages,omitempty"`
	Voices        []ask.Voice        `json:"-"`
	Pooling       string             `json:"pooling,omitempty"`
	Encoder       string             `json:"encoder,omitempty"`
	Pictures      string             `json:"pictures,omitempty"`
	Size          int64              `json:"size_bytes"`
	Memory        models.Memory      `json:"memory"`
	Mixed         string             `json:"kinds_of_layers,omitempty"`
	Each          []models.LayerInfo `json:"each_layer,omitempty"` // where layers differ
	LayerInputs   string             `json:"layer_inputs,omitempty"`
	State         string             `json:"state,omitempty"`
	StateBytes    int64              `json:"state_bytes,omitempty"`
	Slots         int                `json:"slots,omitempty"`
	Notes         []string           `json:"notes"`
}

func describePackage(p *models.Package) *Package {
	r := Package(p.Info())
	r.Notes = append([]string{}, r.Notes...) // a list, though an empty one
	return &r
}

// Print writes it for people.
func (r *Package) Print(w io.Writer) error { return models.Info(*r).Write(w) }

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
