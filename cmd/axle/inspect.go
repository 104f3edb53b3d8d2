package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/axle-llm/axle/axcl"
	"github.com/axle-llm/axle/axmodel"
	"github.com/axle-llm/axle/internal/plain"
	"github.com/axle-llm/axle/internal/terminal"
	"github.com/axle-llm/axle/models"
)

func init() { register(newInspectCmd) }

func newInspectCmd() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "inspect FILE|DIR",
		Short: "Show what is in an .axmodel file or a package",
		Long: "Show what an .axmodel file takes and gives, in which shape groups; or what a package folder holds and the memory it will " +
			"take.\nNo card is needed.",
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			st, err := os.Stat(args[0])
			if err != nil {
				return err
			}
			var v interface{ write(io.Writer) error }
			if st.IsDir() {
				p, err := models.Open(args[0])
				if err != nil {
					return err
				}
				defer p.Close()
				v = describePackage(p)
			} else {
				m, err := axmodel.ReadFile(args[0])
				if err != nil {
					return err
				}
				v = describeFile(args[0], m)
			}
			if !asJSON {
				return v.write(cmd.OutOrStdout())
			}
			e := json.NewEncoder(cmd.OutOrStdout())
			e.SetIndent("", "  ")
			return e.Encode(v)
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

// fileReport is `axle inspect FILE --json`.
type fileReport struct {
	Path        string        `json:"path"`
	Kind        string        `json:"kind"`   // layer, head, embedding head, affine, model
	Format      string        `json:"format"` // vendor, soft
	Tool        string        `json:"tool"`
	FileBytes   int64         `json:"file_bytes"`
	WeightBytes int64         `json:"weight_bytes"`
	Layer       *layerReport  `json:"layer,omitempty"`
	State       *stateReport  `json:"state,omitempty"`
	Head        *headReport   `json:"head,omitempty"`
	Groups      []groupReport `json:"groups"`
}

type layerReport struct {
	Hidden    int              `json:"hidden"`
	KV        int              `json:"kv"`
	Positions int              `json:"positions"`
	Cells     int              `json:"cells"`
	Groups    []layerGroupJSON `json:"groups"`
}

type layerGroupJSON struct {
	Rows  int `json:"rows"`
	Cells int `json:"cells"`
	Cache int `json:"cache_rows"`
}

// stateReport is a layer with a state: what it keeps, and the rows of each group.
type stateReport struct {
	Hidden int       `json:"hidden"`
	K      stateJSON `json:"k"`
	V      stateJSON `json:"v"`
	Rows   []int     `json:"rows"`
	Listed bool      `json:"inputs_listed"`
}

type stateJSON struct {
	Type  string `json:"type"`
	Shape []int  `json:"shape"`
	Bytes int    `json:"bytes"`
}

type headReport struct {
	Hidden int    `json:"hidden"`
	Out    int    `json:"out"`
	Type   string `json:"type"`
	Argmax bool   `json:"argmax"`
}

type groupReport struct {
	Inputs  []tensorReport `json:"inputs"`
	Outputs []tensorReport `json:"outputs"`
}

type tensorReport struct {
	Name  string `json:"name"`
	Raw   string `json:"raw_name"`
	Type  string `json:"type"`
	Shape []int  `json:"shape"`
	Bytes int    `json:"bytes"`
}

func describeFile(path string, m *axmodel.Meta) *fileReport {
	r := &fileReport{Path: path, Kind: "model", Format: "vendor", Tool: m.Tool, FileBytes: m.FileBytes, WeightBytes: m.WeightBytes}
	if l, err := m.Layer(); err == nil {
		r.Kind = "layer"
		r.Layer = &layerReport{Hidden: l.Hidden, KV: l.KV, Positions: l.Pos, Cells: l.Cells}
		for _, g := range l.Groups {
			r.Layer.Groups = append(r.Layer.Groups, layerGroupJSON{g.Rows, g.Group.Cells, g.Cache})
		}
	} else if l, ok, err := m.Linear(); ok && err == nil {
		r.Kind = "linear layer"
		kept := func(t axcl.Tensor) stateJSON { return stateJSON{t.Type.String(), t.Shape, t.Size} }
		r.State = &stateReport{l.Hidden, kept(l.K), kept(l.V), l.Rows, l.Listed}
	} else if h, err := m.Head(); err == nil {
		r.Kind = "head"
		r.Head = &headReport{h.Hidden, h.Out, h.Type.String(), h.Argmax}
	}
	if m.Soft != nil {
		r.Format, r.Kind = "soft", m.Soft.Kind.String()
	}
	for _, g := range m.Groups {
		list := func(ts []axcl.Tensor, raw []string) (out []tensorReport) {
			for i, t := range ts {
				out = append(out, tensorReport{t.Name, raw[i], t.Type.String(), t.Shape, t.Size})
			}
			return out
		}
		r.Groups = append(r.Groups, groupReport{list(g.Inputs, g.RawInputs), list(g.Outputs, g.RawOutputs)})
	}
	return r
}

func (r *fileReport) write(w io.Writer) error {
	t := terminal.TabsFor(w)
	fmt.Fprintf(t, "file\t%s\nkind\t%s\nformat\t%s\ntool\t%s\nsize\t%s\nweights\t%s\n", plain.Line(r.Path), r.Kind,
		map[string]string{"vendor": "vendor's (ONNX container)", "soft": "software card's"}[r.Format], plain.Line(r.Tool),
		models.HumanBytes(r.FileBytes), models.HumanBytes(r.WeightBytes))
	if l := r.Layer; l != nil {
		var gs []string
		for _, g := range l.Groups {
			gs = append(gs, fmt.Sprintf("%d+%d", g.Rows, g.Cells))
		}
		fmt.Fprintf(t, "layer\thidden %d, K and V %d, cache %d, groups %s\n", l.Hidden, l.KV, l.Cells, strings.Join(gs, " "))
	}
	if s := r.State; s != nil {
		fmt.Fprintf(t, "state\thidden %d, %s %v and %s %v, %s; groups of %s rows%s\n", s.Hidden, s.K.Type, s.K.Shape, s.V.Type, s.V.Shape,
			models.HumanBytes(int64(s.K.Bytes+s.V.Bytes)), strings.Trim(fmt.Sprint(s.Rows), "[]"),
			map[bool]string{false: ", indices or mask not listed"}[s.Listed])
	}
	if h := r.Head; h != nil {
		fmt.Fprintf(t, "head\thidden %d, out %d %s%s\n", h.Hidden, h.Out, h.Type, map[bool]string{true: ", largest on the card"}[h.Argmax])
	}
	for i, g := range r.Groups {
		fmt.Fprintf(t, "\ngroup %d\n", i)
		for _, side := range []struct {
			word string
			ts   []tensorReport
		}{{"in", g.Inputs}, {"out", g.Outputs}} {
			for _, x := range side.ts {
				fmt.Fprintf(t, "  %s\t%s\t%s\t%v\t%s\n", side.word, plain.Line(x.Raw), x.Type, x.Shape, models.HumanBytes(int64(x.Bytes)))
			}
		}
	}
	return t.Flush()
}

// packageReport is `axle inspect DIR --json`.
type packageReport struct {
	info models.Info

	Name          string       `json:"name"`
	Architecture  string       `json:"architecture"`
	Family        string       `json:"family"`
	Layout        string       `json:"layout"`
	Path          string       `json:"path"`
	Source        string       `json:"configuration"`
	Digest        string       `json:"digest"`
	TokenizerType string       `json:"tokenizer_type"`
	Quantization  string       `json:"quantization"`
	Parameters    int64        `json:"parameters"`
	Estimated     bool         `json:"parameters_estimated"`
	Context       int          `json:"context"`
	Hidden        int          `json:"hidden"`
	Layers        int          `json:"layers"`
	Heads         int          `json:"heads,omitempty"`
	KVHeads       int          `json:"kv_heads,omitempty"`
	HeadDim       int          `json:"head_dim,omitempty"`
	FeedForward   int          `json:"feed_forward,omitempty"`
	Vocab         int          `json:"vocab"`
	Cells         int          `json:"cells"`
	KV            int          `json:"kv"`
	Groups        []string     `json:"groups"`
	Capabilities  []string     `json:"capabilities"`
	Pooling       string       `json:"pooling,omitempty"`
	Encoder       string       `json:"encoder,omitempty"`
	Pictures      string       `json:"pictures,omitempty"`
	Size          int64        `json:"size_bytes"`
	Memory        memoryReport `json:"memory"`
	Mixed         string       `json:"kinds_of_layers,omitempty"`
	State         string       `json:"state,omitempty"`
	StateBytes    int64        `json:"state_bytes,omitempty"`
	Slots         int          `json:"slots,omitempty"`
	Notes         []string     `json:"notes"`
}

type memoryReport struct {
	Layers int64 `json:"layers_bytes"`
	Head   int64 `json:"head_bytes"`
	Cache  int64 `json:"cache_bytes"`
	States int64 `json:"states_bytes,omitempty"`
	IO     int64 `json:"io_bytes"`
	Card   int64 `json:"card_bytes"`
	Load   int64 `json:"loading_bytes"`
	Host   int64 `json:"host_bytes"`

	Encoder int64 `json:"encoder_bytes,omitempty"`
}

func describePackage(p *models.Package) *packageReport {
	i := p.Info()
	return &packageReport{info: i, Name: i.Name, Architecture: i.Architecture, Family: i.Family, Layout: i.Layout, Path: i.Path,
		Source: i.Source, Digest: i.Digest,
		TokenizerType: i.TokenizerType, Quantization: i.Quantization, Parameters: i.Parameters, Estimated: i.Estimated, Context: i.Context,
		Hidden: i.Hidden, Layers: i.Layers,
		Heads: i.Heads, KVHeads: i.KVHeads, HeadDim: i.HeadDim, FeedForward: i.FeedForward, Vocab: i.Vocab, Cells: i.Cells, KV: i.KV,
		Groups:       i.Groups,
		Capabilities: i.Capabilities, Pooling: i.Pooling, Size: i.Size, Mixed: i.Mixed, State: i.State, StateBytes: i.StateBytes,
		Slots: i.Slots, Notes: append([]string{}, i.Notes...),
		Memory: memoryReport{Layers: i.Memory.Layers, Head: i.Memory.Head, Cache: i.Memory.Cache, States: i.Memory.States, IO: i.Memory.IO,
			Card: i.Memory.Card, Load: i.Memory.Load, Host: i.Memory.Host, Encoder: i.Memory.Encoder},
		Encoder: i.Encoder, Pictures: i.Pictures}
}

func (r *packageReport) write(w io.Writer) error { return r.info.Write(w) }
