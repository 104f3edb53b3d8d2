// Package inspection reads what is in an .axmodel file or a package folder, or what the catalogue
// knows of a package that is not here, for people and as JSON. It needs no card.
//
// Open may be called from any goroutine, and closes what it opens; a report belongs to its caller.
package inspection

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/axle-llm/axle/axcl"
	"github.com/axle-llm/axle/axmodel"
	"github.com/axle-llm/axle/internal/plain"
	"github.com/axle-llm/axle/internal/terminal"
	"github.com/axle-llm/axle/models"
)

// Report is a File, a Package, a Kind or a Listed. Its JSON form is for programs.
type Report interface {
	// Print writes it for people, in columns.
	Print(io.Writer) error
}

// Open reads the file or the folder at path. The errors are those of the file system, of axmodel
// for a file, and of models for a folder.
func Open(path string) (Report, error) {
	st, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if st.IsDir() {
		return OfAny(models.OpenAny(path))
	}
	m, err := axmodel.ReadFile(path)
	if err != nil {
		return nil, err
	}
	return describeFile(path, m), nil
}

// Of is the report of a package that was opened, which it closes, or was refused with err.
func Of(p *models.Package, err error) (Report, error) {
	if kind := new(models.KindError); errors.As(err, &kind) {
		return described(kind.Info), nil
	}
	if err != nil {
		return nil, err
	}
	defer p.Close()
	return describePackage(p), nil
}

// OfAny is Of for a package of any kind that axle runs.
func OfAny(o models.Opened, err error) (Report, error) {
	if p, ok := o.(*models.Package); ok || err != nil {
		return Of(p, err)
	}
	defer o.Close()
	return described(o.Info()), nil
}

// File is an .axmodel file.
type File struct {
	Path        string  `json:"path"`
	Kind        string  `json:"kind"`   // layer, head, embedding head, affine, model
	Format      string  `json:"format"` // vendor, soft
	Tool        string  `json:"tool"`
	FileBytes   int64   `json:"file_bytes"`
	WeightBytes int64   `json:"weight_bytes"`
	Layer       *Layer  `json:"layer,omitempty"`
	State       *State  `json:"state,omitempty"`
	Head        *Head   `json:"head,omitempty"`
	Groups      []Group `json:"groups"`
}

// Layer is what a file with a layer has of it: widths, and the cells of its cache.
type Layer struct {
	Hidden    int          `json:"hidden"`
	KV        int          `json:"kv"`
	Positions int          `json:"positions"`
	Cells     int          `json:"cells"`
	Groups    []LayerGroup `json:"groups"`
}

// LayerGroup is one of its shape groups: rows that a pass carries, and cells that they reach.
type LayerGroup struct {
	Rows  int `json:"rows"`
	Cells int `json:"cells"`
	Cache int `json:"cache_rows"`
}

// State is what a layer with a state keeps, and the rows of each group.
type State struct {
	Hidden int   `json:"hidden"`
	K      Kept  `json:"k"`
	V      Kept  `json:"v"`
	Rows   []int `json:"rows"`
	Listed bool  `json:"inputs_listed"`
}

// Kept is one of the two tensors that a state is.
type Kept struct {
	Type  string `json:"type"`
	Shape []int  `json:"shape"`
	Bytes int    `json:"bytes"`
}

// Head is what a file with the head has of it.
type Head struct {
	Hidden int    `json:"hidden"`
	Out    int    `json:"out"`
	Type   string `json:"type"`
	Argmax bool   `json:"argmax"`
}

// Group is a shape group as the file names its tensors.
type Group struct {
	Inputs  []Tensor `json:"inputs"`
	Outputs []Tensor `json:"outputs"`
}

// Tensor is one of them; Raw is the name that the file has, Name the one that all layers share.
type Tensor struct {
	Name  string `json:"name"`
	Raw   string `json:"raw_name"`
	Type  string `json:"type"`
	Shape []int  `json:"shape"`
	Bytes int    `json:"bytes"`
}

func describeFile(path string, m *axmodel.Meta) *File {
	r := &File{Path: path, Kind: "model", Format: "vendor", Tool: m.Tool, FileBytes: m.FileBytes, WeightBytes: m.WeightBytes}
	if l, err := m.Layer(); err == nil {
		r.Kind = "layer"
		r.Layer = &Layer{Hidden: l.Hidden, KV: l.KV, Positions: l.Pos, Cells: l.Cells}
		for _, g := range l.Groups {
			r.Layer.Groups = append(r.Layer.Groups, LayerGroup{g.Rows, g.Group.Cells, g.Cache})
		}
	} else if l, ok, err := m.Linear(); ok && err == nil {
		r.Kind = "linear layer"
		kept := func(t axcl.Tensor) Kept { return Kept{t.Type.String(), t.Shape, t.Size} }
		r.State = &State{l.Hidden, kept(l.K), kept(l.V), l.Rows, l.Listed}
	} else if h, err := m.Head(); err == nil {
		r.Kind = "head"
		r.Head = &Head{h.Hidden, h.Out, h.Type.String(), h.Argmax}
	}
	if m.Soft != nil {
		r.Format, r.Kind = "soft", m.Soft.Kind.String()
	}
	for _, g := range m.Groups {
		list := func(ts []axcl.Tensor, raw []string) (out []Tensor) {
			for i, t := range ts {
				out = append(out, Tensor{t.Name, raw[i], t.Type.String(), t.Shape, t.Size})
			}
			return out
		}
		r.Groups = append(r.Groups, Group{list(g.Inputs, g.RawInputs), list(g.Outputs, g.RawOutputs)})
	}
	return r
}

// Print writes it for people.
func (r *File) Print(w io.Writer) error {
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
			ts   []Tensor
		}{{"in", g.Inputs}, {"out", g.Outputs}} {
			for _, x := range side.ts {
				fmt.Fprintf(t, "  %s\t%s\t%s\t%v\t%s\n", side.word, plain.Line(x.Raw), x.Type, x.Shape, models.HumanBytes(int64(x.Bytes)))
			}
		}
	}
	return t.Flush()
}
