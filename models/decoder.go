package models

import (
	"cmp"
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/axle-llm/axle/axcl"
	"github.com/axle-llm/axle/axmodel"
)

// Files of a package that is a whole decoder: one for tokens beside one for prompts, or one for
// both.
const (
	decodeFile  = axmodel.DecodeFile
	prefillFile = axmodel.PrefillFile
	wholeFile   = axmodel.WholeFile
)

// findDecoder looks for a whole decoder, in the folder nearest to the package's own. A lone
// model.axmodel is one only where a table of embeddings lies beside it: other models bear that name
// too.
func (p *plan) findDecoder() bool {
	var found []string
	for _, name := range p.t.names {
		dir := path.Dir(name)
		switch path.Base(name) {
		case decodeFile:
		case wholeFile:
			if p.t.has(path.Join(dir, decodeFile)) || !slices.ContainsFunc(p.t.in(dir), func(n string) bool {
				ext := path.Ext(n)
				return strings.Contains(path.Base(n), "embed_tokens") && (ext == ".npy" || ext == ".bin")
			}) {
				continue
			}
		default:
			continue
		}
		found = append(found, name)
	}
	if len(found) == 0 {
		return false
	}
	best := slices.MinFunc(found, func(a, b string) int { return strings.Count(a, "/") - strings.Count(b, "/") })
	p.whole, p.layout, p.template, p.layers = true, "I", best, []string{best}
	if other := path.Join(path.Dir(best), prefillFile); path.Base(best) == decodeFile && p.t.has(other) {
		p.layers = append(p.layers, other)
	}
	is := map[bool]string{false: "is", true: "are"}[len(p.layers) > 1]
	p.note("%s %s a whole decoder, by file names", strings.Join(p.layers, " and "), is)
	return true
}

// readDecoder reads the files of a package that is a whole decoder, as readLayers and readHead do
// those of others.
func (pkg *Package) readDecoder() error {
	p := pkg.p
	for i, name := range p.layers {
		full, _, err := p.t.realPath(name)
		if err != nil {
			return err
		}
		if err := p.t.checkPointer(name); err != nil {
			return err
		}
		m, err := pkg.meta(name)
		if err != nil {
			return err
		}
		if !m.IsDecoder() && i == 0 && path.Base(name) == wholeFile {
			return p.noLayers("")
		}
		d, err := m.Decoder()
		if err != nil {
			return pkg.malformed(name, err)
		}
		size := p.t.files[name]
		l := Layer{Name: name, Size: size, Weights: cmp.Or(m.WeightBytes, size), Kind: FullAttention}
		if i == 0 {
			pkg.Whole = &d
		} else {
			if err := pkg.Whole.Add(d); err != nil {
				return &Error{Path: p.t.where(name), What: "does not belong with " + path.Base(p.layers[0]) + ": " + what(err),
					Fix: "take both files from one build", Err: ErrMismatch}
			}
		}
		pkg.Facts, pkg.Layers = append(pkg.Facts, l), append(pkg.Layers, full)
	}
	d := pkg.Whole
	if !slices.ContainsFunc(d.Groups, func(g axmodel.DecoderGroup) bool { return g.Rows == 1 }) {
		return &Error{Path: p.t.where(p.layers[0]), What: "no group of one row: nothing to decode with", Err: ErrMismatch}
	}
	pkg.Shape = axmodel.LayerShape{Hidden: d.Hidden, KV: d.KV, Pos: 1, Cells: d.Cells}
	for _, g := range d.Groups {
		pkg.Shape.Groups = append(pkg.Shape.Groups, axmodel.LayerGroup{Group: axcl.Group{Rows: g.Rows, Cells: g.Cells}, Cache: g.Cells})
	}
	if s, run, err := d.Plan(); err != nil {
		p.note("%s", what(err))
	} else {
		for i, g := range d.Groups {
			if !slices.Contains(run, i) {
				p.note("group %d of %s is not used: it %s", g.At, path.Base(p.layers[g.File]), cmp.Or(g.Why,
					fmt.Sprintf("looks back on %d cells, others on %d", g.Cells, s.Cells)))
			}
		}
	}
	pkg.Hidden, pkg.Out = d.Hidden, d.Out
	return nil
}

// Depth is how many layers the model has: files of them, but for a whole decoder.
func (p *Package) Depth() int {
	if p.Whole != nil {
		return p.Whole.Layers
	}
	return len(p.Layers)
}

// decoderMemory is Memory for a whole decoder: each group has K and V of all layers as inputs of
// its own, and as outputs.
func (p *Package) decoderMemory() (m Memory) {
	d := p.Whole
	for _, l := range p.Facts {
		m.Layers += l.Weights
	}
	width := int64(2)
	if d.Cache == axcl.FP32 {
		width = 4
	}
	cache := 2 * width * int64(d.Layers) * int64(d.Cells) * int64(d.KV)
	m.Cache = cache
	for _, g := range d.Groups {
		rows := int64(g.Rows)
		if g.Whole {
			m.IO = max(m.IO, cache)
		}
		m.IO += 4*rows*int64(d.Hidden) + 4*int64(g.Wanted)*int64(d.Out) + 2*width*rows*int64(d.Layers)*int64(d.KV)
	}
	m.Card = m.Layers + m.Cache + m.IO
	m.Load, m.Host = max(m.Card, p.loading()), p.Embed.Bytes()
	return m
}
