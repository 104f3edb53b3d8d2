package models

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/axle-llm/axle/axcl"
)

// Jina is a package of jina-embeddings-v5-omni: decoder layers in which every row of a text sees
// every other, so that a text goes through them in one call. The embedding table is the host's. Its
// fields are not to be changed. Close it.
type Jina struct {
	base
	Name    string
	Text    *Package  // its layers, norm, table, adapters and tokenizer
	Nets    []NetFile // the layers, and then what normalises a row
	Group   int       // of the layers: the one that a text goes through
	Rows    int       // it takes
	Prompts Prompts
}

const jinaName = "jinaembeddingsv5omni"

// callsJina says whether a configuration names the model, or files of it.
func callsJina(o object) bool {
	return calls(jinaName)(o) || strings.Contains(squeeze(o.str("template_filename_axmodel")), jinaName)
}

// jinaLayer is one of its layers, by the name of the file: a causal model's has the same tensors.
func jinaLayer(n net) bool { return n.takes("K_cache") && strings.Contains(squeeze(n.name), jinaName) }

// openJina opens the package that was recognised as one.
func openJina(k *KindError) (_ other, err error) {
	p := k.plan
	if err := p.language(); err != nil {
		return nil, err
	}
	text, err := p.open(k.Info.Name)
	if err != nil {
		return nil, err
	}
	j := &Jina{base: base{info: k.Info}, Name: k.Info.Name, Text: text}
	if err := j.take(); err != nil {
		_ = text.Close()
		return nil, err
	}
	text.digest, text.Size = k.Info.Digest, k.Info.Size
	j.describe()
	return j, nil
}

// take finds what a text goes through.
func (j *Jina) take() error {
	p, t := j.Text.p, j.Text
	wrong := func(name, format string, a ...any) error {
		return &Error{Path: p.t.where(name), What: fmt.Sprintf(format, a...), Fix: "take all files from one build", Err: ErrMismatch}
	}
	j.Group = -1
	for i, g := range t.Shape.Groups {
		if g.Cells == 0 && g.Rows > j.Rows && g.Rows > 1 {
			j.Group, j.Rows = i, g.Rows
		}
	}
	switch {
	case t.Whole != nil || t.Shape.LayerInputs > 0 || slices.ContainsFunc(t.Facts, func(l Layer) bool { return l.Kind == LinearAttention }):
		return wrong(p.layers[0], "is another form of jina-embeddings-v5-omni")
	case j.Group < 0:
		return wrong(p.layers[0], "none of its shape groups takes a whole text: one of many rows and no cells is needed")
	case !t.Embedding:
		return wrong(p.head, "gives %d values for a row of %d: what normalises a row is needed", t.Out, t.Hidden)
	}
	tok, err := t.Tokenizer()
	if err != nil {
		return err
	}
	if n := tok.Vocab(); n > t.Embed.Rows {
		return wrong(p.tokenizer, "has %d tokens, the table %d rows", n, t.Embed.Rows)
	}
	for i, name := range append(slices.Clone(p.layers), p.head) {
		m, err := t.meta(name)
		if err != nil {
			return err
		}
		f := NetFile{Size: m.FileBytes, In: m.Groups[0].Inputs, Out: m.Groups[0].Outputs}
		if f.Path = t.Head; i < len(t.Layers) {
			f.Path = t.Layers[i]
		}
		j.Nets = append(j.Nets, f)
	}
	j.Prompts = Prompts{Named: map[string]string{QueryPrompt: "Query: ", DocumentPrompt: "Document: "}, Default: "Document: "}
	if p.source != "" {
		o, err := p.object(p.source)
		if err != nil {
			return err
		}
		if _, said := o.get("prompts"); said {
			if j.Prompts, err = readPrompts(o); err != nil {
				return &Error{Path: p.t.where(p.source), What: err.Error(), Fix: "take the configuration of the same build",
					Err: ErrMalformed}
			}
		}
	}
	return nil
}

// Norm are the tensors of what normalises a row, by their names: its input and its output.
func (j *Jina) Norm() (in, out string, t axcl.Type) {
	h := j.Text.head
	return h.Input, h.Output, h.Type
}

// describe says what is known.
func (j *Jina) describe() {
	i, t := &j.info, j.Text.Info()
	i.Says, i.Capabilities, i.Pooling, i.Prompts, i.Adapters = "", []string{"embedding"}, "last", j.Prompts.Names(), t.Adapters
	i.Layout, i.TokenizerType, i.Quantization, i.Context, i.Hidden = t.Layout, t.TokenizerType, t.Quantization, j.Rows, t.Hidden
	i.Parameters, i.Estimated, i.ParameterSize, i.Layers, i.Heads = t.Parameters, t.Estimated, t.ParameterSize, t.Layers, t.Heads
	i.KVHeads, i.HeadDim, i.FeedForward, i.Vocab, i.Notes = t.KVHeads, t.HeadDim, t.FeedForward, t.Vocab, t.Notes
	i.Groups = []string{fmt.Sprintf("%d tokens", j.Rows)}
	j.weigh()
}

// weigh notes what the package takes on a card. A net has memory for the largest form of each of
// its tensors, also of those that are bound to buffers.
func (j *Jina) weigh() {
	t, m := j.Text, &j.info.Memory
	*m = Memory{Head: pages(t.headBytes), Host: t.Embed.Bytes()}
	for _, l := range t.Facts {
		m.Layers += pages(l.Weights)
		largest := map[string]int{}
		for _, g := range l.Shape.Groups {
			for name, n := range map[string]int{"input": 2 * g.Rows * l.Shape.Hidden, "output": 2 * g.Rows * l.Shape.Hidden,
				"indices": 4 * g.Rows * l.Shape.Pos, "mask": 2 * g.Rows * (g.Cells + g.Rows), "K": 2 * g.Cache * l.Shape.KV,
				"V": 2 * g.Cache * l.Shape.KV, "K new": 2 * g.Rows * l.Shape.KV, "V new": 2 * g.Rows * l.Shape.KV} {
				largest[name] = max(largest[name], n)
			}
		}
		for n := range maps.Values(largest) {
			m.IO += pages(int64(n))
		}
		for _, x := range l.Shape.Adapter {
			m.IO += pages(int64(x.Size))
			m.Adapters += int64(len(t.Adapters)) * pages(int64(x.Size))
		}
	}
	for _, n := range j.Buffers() {
		m.IO += pages(int64(n))
	}
	m.IO += 2 * pages(int64(4*t.Hidden))
	m.Card = m.Layers + m.Head + m.IO + m.Adapters
	m.Load = max(m.Card, t.loading())
}

// Buffers are the sizes of what the layers share: hidden rows twice, what a row sees, its place, an
// empty cache, and the zeros of no adapter.
func (j *Jina) Buffers() []int {
	s := j.Text.Shape
	zeros := 2
	for _, t := range s.Adapter {
		zeros = max(zeros, t.Size)
	}
	rows := 2 * j.Rows * s.Hidden
	return []int{rows, rows, 2 * j.Rows * j.Rows, 4 * j.Rows * s.Pos, 2 * max(s.Groups[j.Group].Cache, 1) * s.KV, zeros}
}

// Close closes the package. A second Close returns [ErrClosed].
func (j *Jina) Close() error { return errors.Join(j.Text.Close(), j.base.Close()) }
