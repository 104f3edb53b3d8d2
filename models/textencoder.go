package models

import (
	"cmp"
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/axle-llm/axle/axcl"
	"github.com/axle-llm/axle/tokenizer"
)

// TextEncoder is a package of one net that makes a vector of a text: bge-m3, bge-small. Its fields
// are not to be changed. Close it.
type TextEncoder struct {
	base
	Name   string
	Net    string      // the net's real path; its name in the package where there is none
	Input  axcl.Tensor // ids, one text a call
	Output axcl.Tensor // a vector, or a row for each token
	Dims   int         // of a vector
	Pad    int32       // the id that fills up what a text leaves

	tok *tokenizer.Tokenizer
}

// Most is how many tokens a text may have.
func (e *TextEncoder) Most() int { return e.Input.Shape[1] }

// Tokenizer is the package's.
func (e *TextEncoder) Tokenizer() *tokenizer.Tokenizer { return e.tok }

// encodesText says whether a net takes the ids of a text and gives a vector of it, or a row for
// each token.
func encodesText(n net) bool {
	return len(n.in) == 1 && integer(n.in[0]) && len(n.in[0].Shape) == 2 && n.in[0].Shape[1] >= 128 && len(n.out) > 0 &&
		vectorOf(n) != nil
}

// vectorOf finds the output that has the text's vector: one that is a single vector, else one with
// a row for each token, where the first row is the text's. It is nil where the net has no such
// output. Other outputs (weights of words, rows without the first token's) do not count.
func vectorOf(n net) *axcl.Tensor {
	length := n.in[0].Shape[1]
	for _, fits := range []func(t axcl.Tensor) bool{
		func(t axcl.Tensor) bool { return len(t.Shape) == 2 && t.Shape[0] == 1 && t.Shape[1] > 1 },
		func(t axcl.Tensor) bool { return len(t.Shape) == 3 && shaped(t, 1, length, -1) && t.Shape[2] > 1 },
	} {
		if i := slices.IndexFunc(n.out, func(t axcl.Tensor) bool { return t.Type == axcl.FP32 && fits(t) }); i >= 0 {
			return &n.out[i]
		}
	}
	return nil
}

// openTextEncoder opens the package that was recognised as one.
func openTextEncoder(k *KindError) (other, error) {
	p := k.plan
	nets := slices.DeleteFunc(slices.Clone(k.nets), func(n net) bool { return !encodesText(n) })
	if len(nets) != 1 {
		return nil, &Error{Path: p.t.where("."), What: fmt.Sprintf("%d nets take a text's ids and give a vector: %s", len(nets),
			strings.Join(namesOf(nets), ", ")), Fix: "keep the one that is to be used", Err: ErrMismatch}
	}
	n := nets[0]
	e := &TextEncoder{Name: k.Info.Name, Input: n.in[0], Output: *vectorOf(n), base: base{info: k.Info}}
	e.Dims = e.Output.Shape[len(e.Output.Shape)-1]
	if e.Input.Shape[0] != 1 || e.Input.Type != axcl.Int32 {
		return nil, &Error{Path: p.t.where(n.name), What: fmt.Sprintf("its input is %s %v %v: int32 ids of one text are expected",
			e.Input.Name, e.Input.Type, e.Input.Shape), Err: ErrMismatch}
	}
	var err error
	if e.Net, _, err = p.t.realPath(n.name); err != nil {
		return nil, err
	}
	if err := e.readTokenizer(p); err != nil {
		return nil, err
	}
	e.describe(p.t.files[n.name])
	return e, nil
}

func namesOf(nets []net) (all []string) {
	for _, n := range nets {
		all = append(all, n.name)
	}
	return all
}

// readTokenizer opens the tokenizer.json that lies highest in the package, and finds the id that
// fills up: the one that the tokenizer of its family pads with.
func (e *TextEncoder) readTokenizer(p *plan) error {
	at := p.t.highest(func(base string) bool { return base == "tokenizer.json" })
	if at == "" {
		return &Error{Path: p.t.where("."), What: "no tokenizer.json",
			Fix: "put the one of the model that the net was made of into the folder", Err: ErrMissing}
	}
	var err error
	if e.tok, err = tokenizer.OpenWith(p.t.fsys, at, tokenizer.Config{}); err != nil {
		return &Error{Path: p.t.where(at), What: err.Error(), Fix: "take the tokenizer.json of the model that the net was made of",
			Err: err}
	}
	if pad, ok := padOf(e.tok); ok {
		e.Pad = pad
		return nil
	}
	return &Error{Path: p.t.where(at), What: "has neither <pad> nor [PAD], and the net takes texts of one length",
		Fix: "take the tokenizer.json of the model that the net was made of", Err: ErrMismatch}
}

// describe says what is known.
func (e *TextEncoder) describe(file int64) {
	i := &e.info
	i.Says, i.Capabilities, i.Pooling = "", []string{"embedding"}, "first"
	if len(e.Output.Shape) == 2 {
		i.Pooling = "the net's own"
	}
	i.Context, i.Hidden, i.Vocab = e.Most(), e.Dims, e.tok.Vocab()
	i.Groups = []string{fmt.Sprintf("%d tokens", e.Most())}
	e.memory([]int64{file}, e.Input, e.Output)
	i.Quantization = cmp.Or(i.Quantization, quantizationOf(e.Net))
}

// quantizationOf is what a file's name says of its weights: u16 and the like; empty where nothing.
func quantizationOf(name string) string {
	base := strings.ToLower(path.Base(name))
	for _, q := range []string{"w8a16", "u16", "u8", "bf16"} {
		if strings.Contains(base, q) {
			return strings.ToUpper(q)
		}
	}
	return ""
}
