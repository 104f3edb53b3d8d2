package models

import (
	"cmp"
	"errors"
	"fmt"
	"path"
	"slices"

	"github.com/axle-llm/axle/axcl"
	"github.com/axle-llm/axle/axmodel"
	"github.com/axle-llm/axle/tokenizer"
)

// EmbeddingGemma is a package of EmbeddingGemma 2: nets that make a vector of a whole text, one net
// for each length that a text is filled up to. The embedding table is the host's. Its fields are
// not to be changed. Close it.
type EmbeddingGemma struct {
	base
	Name    string
	Nets    []NetFile   // the shortest first
	Lengths []int       // rows that each net takes
	Hidden  int         // of a row
	Dims    int         // of a vector
	Sizes   []int       // that a vector may be cut to, the largest first; nil: any
	Embed   *Embeddings // its rows are multiplied by Scale in float32
	Scale   float32
	Prompts Prompts
	BOS     int32 // in front of a text
	EOS     int32 // behind it
	Pad     int32 // whose rows fill up

	tok *tokenizer.Tokenizer
}

// Tensors of the nets.
const (
	GemmaRows   = "inputs_embeds"
	GemmaValid  = "valid" // 1 for each row of the text
	GemmaVector = "embedding"
)

const maxGemmaRows = 1 << 15

// Most is how many tokens a text may have, BOS and EOS among them.
func (g *EmbeddingGemma) Most() int { return g.Lengths[len(g.Lengths)-1] }

// Tokenizer is the package's.
func (g *EmbeddingGemma) Tokenizer() *tokenizer.Tokenizer { return g.tok }

// Close releases the table and the folder.
func (g *EmbeddingGemma) Close() error { return errors.Join(g.Embed.Close(), g.base.Close()) }

// embedsWhole says whether a net makes a vector of the rows of a whole text.
func embedsWhole(n net) bool { return n.takes(GemmaRows, GemmaValid) && n.gives(GemmaVector) }

// openEmbeddingGemma opens the package that was recognised as one.
func openEmbeddingGemma(k *KindError) (_ other, err error) {
	p := k.plan
	g := &EmbeddingGemma{base: base{info: k.Info}, Name: k.Info.Name}
	source := cmp.Or(p.source, p.t.named("config.json"))
	o := object{}
	if source != "" {
		if o, err = p.object(source); err != nil {
			return nil, err
		}
	}
	bad := func(err error) error {
		return &Error{Path: p.t.where(cmp.Or(source, ".")), What: err.Error(), Fix: "take the configuration of the same build",
			Err: ErrMalformed}
	}
	if err := g.takeNets(k, o); err != nil {
		return nil, err
	}
	if err := g.configure(o); err != nil {
		return nil, bad(err)
	}
	if err := errors.Join(p.findFamily(), p.findEmbed(), p.findTokenizer()); err != nil {
		return nil, err
	}
	if p.tokenizer == "" {
		return nil, p.t.missing("tokenizer.json", "put the model's tokenizer into the folder")
	}
	if g.tok, err = tokenizer.OpenWith(p.t.fsys, p.tokenizer, tokenizer.Config{Type: cmp.Or(p.cfg.TokenizerType, "Gemma4")}); err != nil {
		return nil, &Error{Path: p.t.where(p.tokenizer), What: err.Error(), Fix: "take the tokenizer of the same model", Err: err}
	}
	if h := p.cfg.Hidden; h != 0 && h != g.Hidden {
		return nil, bad(fmt.Errorf("tokens_embed_size is %d, the nets take rows of %d", h, g.Hidden))
	}
	if g.Embed, err = openEmbeddings(p.t, p.embed, p.cfg.Vocab, g.Hidden); err != nil {
		return nil, err
	}
	for what, id := range map[string]int32{"bos_token_id": g.BOS, "eos_token_id": g.EOS, "pad_token_id": g.Pad} {
		if id < 0 || int(id) >= g.Embed.Rows {
			err = bad(fmt.Errorf("%s is %d, the table has %d rows", what, id, g.Embed.Rows))
		}
	}
	if n := g.tok.Vocab(); err == nil && n > g.Embed.Rows {
		err = bad(fmt.Errorf("the tokenizer has %d tokens, the table %d rows", n, g.Embed.Rows))
	}
	if err != nil {
		_ = g.Embed.Close()
		return nil, err
	}
	g.describe()
	return g, nil
}

// takeNets reads the nets that the configuration lists, or all that have the tensors.
func (g *EmbeddingGemma) takeNets(k *KindError, o object) error {
	t := k.plan.t
	names := o.strs("encoder_axmodels")
	listed := len(names) > 0
	if !listed {
		names = slices.DeleteFunc(slices.Clone(t.names), func(name string) bool {
			return path.Ext(name) != ".axmodel" || foreign.MatchString(name)
		})
	}
	if len(names) > maxNets {
		return &Error{Path: t.where("."), What: fmt.Sprintf("has %d nets, limit %d", len(names), maxNets), Err: ErrMismatch}
	}
	var found []net
	for _, name := range names {
		if listed {
			at := ""
			if err := k.plan.named(name, &at); err != nil {
				return err
			}
			name = at
		}
		f, err := t.openAt(name)
		if err != nil {
			return err
		}
		m, err := axmodel.Read(f, t.files[name])
		f.Close()
		if err != nil {
			return &Error{Path: t.where(name), What: what(err), Fix: "fetch the file again", Err: ErrMalformed}
		}
		if n := asNet(name, m); listed || embedsWhole(n) {
			found = append(found, n)
		}
	}
	if len(found) == 0 {
		return k.lacks("an encoder of EmbeddingGemma 2")
	}
	slices.SortStableFunc(found, func(a, b net) int { return cmp.Compare(lengthOf(a), lengthOf(b)) })
	for i, n := range found {
		if err := g.take(n); err != nil {
			return &Error{Path: t.where(n.name), What: err.Error(), Fix: "take all encoders from one build", Err: ErrMismatch}
		}
		if i > 0 && g.Lengths[i] == g.Lengths[i-1] {
			return k.twice(&found[i], &found[i-1])
		}
		f, err := k.file(&n)
		if err != nil {
			return err
		}
		g.Nets = append(g.Nets, f)
	}
	return nil
}

// lengthOf is how many rows a net takes; 0 where it has no such input.
func lengthOf(n net) int {
	if t := n.input(GemmaRows); len(t.Shape) == 3 {
		return t.Shape[1]
	}
	return 0
}

// take notes what a net takes and gives, or says what is not as it should be.
func (g *EmbeddingGemma) take(n net) error {
	if !embedsWhole(n) || len(n.in) != 2 {
		return fmt.Errorf("takes %s and gives %s: %s and %s, and %s are expected", tensors(n.in), tensors(n.out), GemmaRows, GemmaValid,
			GemmaVector)
	}
	rows, valid := n.input(GemmaRows), n.input(GemmaValid)
	vector := n.out[slices.IndexFunc(n.out, func(t axcl.Tensor) bool { return t.Name == GemmaVector })]
	length := lengthOf(n)
	switch {
	case rows.Type != axcl.FP32 || !shaped(rows, 1, -1, -1) || length < 3 || length > maxGemmaRows || rows.Shape[2] < 1 ||
		rows.Shape[2] > maxHidden:
		return fmt.Errorf("%s is %v %v: fp32 [1, length, size] is expected", rows.Name, rows.Type, rows.Shape)
	case valid.Type != axcl.FP32 || !shaped(valid, 1, length):
		return fmt.Errorf("%s is %v %v: fp32 [1, %d] is expected", valid.Name, valid.Type, valid.Shape, length)
	case vector.Type != axcl.FP32 || !shaped(vector, 1, -1) || vector.Shape[1] < 1 || vector.Shape[1] > maxHidden:
		return fmt.Errorf("%s is %v %v: an fp32 vector is expected", vector.Name, vector.Type, vector.Shape)
	case len(g.Lengths) > 0 && (rows.Shape[2] != g.Hidden || vector.Shape[1] != g.Dims):
		return fmt.Errorf("makes %d values of rows of %d, another makes %d of %d", vector.Shape[1], rows.Shape[2], g.Dims, g.Hidden)
	}
	g.Hidden, g.Dims, g.Lengths = rows.Shape[2], vector.Shape[1], append(g.Lengths, length)
	return nil
}

// configure takes what the configuration says.
func (g *EmbeddingGemma) configure(o object) (err error) {
	if g.Prompts, err = readPrompts(o); err != nil {
		return err
	}
	g.Scale = sqrt32(g.Hidden)
	if _, said := o.get("embed_scale"); said {
		f := o.float("embed_scale")
		if f == nil || !(*f >= 1.0/maxScale && *f <= maxScale) {
			return fmt.Errorf("embed_scale is %.40q, want a number from 1/%d to %d", o.str("embed_scale"), maxScale, maxScale)
		}
		g.Scale = float32(*f)
	}
	if n, ok, err := o.num(1, maxHidden, "embedding_dim"); err != nil {
		return err
	} else if ok && int(n) != g.Dims {
		return fmt.Errorf("embedding_dim is %d, the nets give %d values", n, g.Dims)
	}
	if _, said := o.get("matryoshka_dims"); said {
		if g.Sizes = decoded[[]int](o, "matryoshka_dims"); len(g.Sizes) == 0 || len(g.Sizes) > 64 ||
			slices.ContainsFunc(g.Sizes, func(n int) bool { return n < 1 || n > g.Dims }) {
			return fmt.Errorf("matryoshka_dims is %.100q, want a list of sizes from 1 to %d", o.str("matryoshka_dims"), g.Dims)
		}
		g.Sizes = append(g.Sizes, g.Dims)
		slices.Sort(g.Sizes)
		slices.Reverse(g.Sizes)
		g.Sizes = slices.Compact(g.Sizes)
	}
	for _, id := range []struct {
		to     *int32
		key    string
		absent int64
	}{{&g.BOS, "bos_token_id", 2}, {&g.EOS, "eos_token_id", 1}, {&g.Pad, "pad_token_id", 0}} {
		n, ok, err := o.num(0, maxVocab, id.key)
		if err != nil {
			return err
		}
		if !ok {
			n = id.absent
		}
		*id.to = int32(n)
	}
	return nil
}

// describe says what is known.
func (g *EmbeddingGemma) describe() {
	i := &g.info
	i.Says, i.Capabilities, i.Pooling = "", []string{"embedding"}, "the net's own"
	i.Context, i.Hidden, i.Vocab, i.Prompts = g.Most(), g.Dims, g.Embed.Rows, g.Prompts.Names()
	var files []int64
	var buffers []axcl.Tensor
	i.Groups = nil
	for at, n := range g.Nets {
		i.Groups = append(i.Groups, fmt.Sprintf("%d tokens", g.Lengths[at]))
		files, buffers = append(files, n.Size), append(append(buffers, n.In...), n.Out...)
	}
	g.memory(files, buffers...)
	i.Memory.Host = g.Embed.Bytes()
	i.Quantization = cmp.Or(i.Quantization, quantizationOf(g.Nets[0].Path))
}
