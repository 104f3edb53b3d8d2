package inspection

import (
	"io"

	"github.com/axle-llm/axle/models"
)

// Package is a package folder: what models.Info has, under the names that its JSON has.
type Package struct {
	info models.Info

	Name          string        `json:"name"`
	Architecture  string        `json:"architecture"`
	Family        string        `json:"family"`
	Layout        string        `json:"layout"`
	Path          string        `json:"path"`
	Source        string        `json:"configuration"`
	Digest        string        `json:"digest"`
	TokenizerType string        `json:"tokenizer_type"`
	Quantization  string        `json:"quantization"`
	Parameters    int64         `json:"parameters"`
	Estimated     bool          `json:"parameters_estimated"`
	Context       int           `json:"context"`
	Hidden        int           `json:"hidden"`
	Layers        int           `json:"layers"`
	Heads         int           `json:"heads,omitempty"`
	KVHeads       int           `json:"kv_heads,omitempty"`
	HeadDim       int           `json:"head_dim,omitempty"`
	FeedForward   int           `json:"feed_forward,omitempty"`
	Vocab         int           `json:"vocab"`
	Cells         int           `json:"cells"`
	KV            int           `json:"kv"`
	Groups        []string      `json:"groups"`
	Capabilities  []string      `json:"capabilities"`
	Pooling       string        `json:"pooling,omitempty"`
	Encoder       string        `json:"encoder,omitempty"`
	Pictures      string        `json:"pictures,omitempty"`
	Size          int64         `json:"size_bytes"`
	Memory        models.Memory `json:"memory"`
	Mixed         string        `json:"kinds_of_layers,omitempty"`
	State         string        `json:"state,omitempty"`
	StateBytes    int64         `json:"state_bytes,omitempty"`
	Slots         int           `json:"slots,omitempty"`
	Notes         []string      `json:"notes"`

	Each  []models.LayerInfo `json:"each_layer,omitempty"` // where layers differ
	Given string             `json:"given_besides,omitempty"`
}

func describePackage(p *models.Package) *Package {
	i := p.Info()
	return &Package{info: i, Name: i.Name, Architecture: i.Architecture, Family: i.Family, Layout: i.Layout, Path: i.Path,
		Source: i.Source, Digest: i.Digest,
		TokenizerType: i.TokenizerType, Quantization: i.Quantization, Parameters: i.Parameters, Estimated: i.Estimated, Context: i.Context,
		Hidden: i.Hidden, Layers: i.Layers,
		Heads: i.Heads, KVHeads: i.KVHeads, HeadDim: i.HeadDim, FeedForward: i.FeedForward, Vocab: i.Vocab, Cells: i.Cells, KV: i.KV,
		Groups:       i.Groups,
		Capabilities: i.Capabilities, Pooling: i.Pooling, Size: i.Size, Mixed: i.Mixed, State: i.State, StateBytes: i.StateBytes,
		Slots: i.Slots, Notes: append([]string{}, i.Notes...),
		Memory:  i.Memory,
		Encoder: i.Encoder, Pictures: i.Pictures, Each: i.Each, Given: i.LayerInputs}
}

// Print writes it for people.
func (r *Package) Print(w io.Writer) error { return r.info.Write(w) }

// Kind is a package that is no language model.
type Kind struct {
	info models.Info

	Name         string   `json:"name"`
	Kind         string   `json:"kind"`
	Says         string   `json:"says"` // where axle does not run it: that in a sentence
	Path         string   `json:"path"`
	Digest       string   `json:"digest"`
	Capabilities []string `json:"capabilities"`
	Size         int64    `json:"size_bytes"`
	Context      int      `json:"context,omitempty"`
	Dims         int      `json:"dimensions,omitempty"`
	Card         int64    `json:"card_memory_bytes,omitempty"`
	Most         int64    `json:"card_memory_loading_bytes,omitempty"`
}

func described(i models.Info) *Kind {
	k := &Kind{info: i, Name: i.Name, Kind: i.Kind, Says: i.Says, Path: i.Path, Digest: i.Digest,
		Capabilities: []string{}, Size: i.Size, Context: i.Context, Dims: i.Hidden, Card: i.Memory.Card, Most: i.Memory.Load}
	k.Capabilities = append(k.Capabilities, i.Capabilities...)
	return k
}

// Print writes it for people.
func (r *Kind) Print(w io.Writer) error { return r.info.Write(w) }
