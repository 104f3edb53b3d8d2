package models

import (
	"cmp"
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"

	"github.com/axle-llm/axle/axcl"
	"github.com/axle-llm/axle/tokenizer"
	"github.com/axle-llm/axle/vision"
)

// CLIP is a package of two nets that make vectors of pictures and of texts, which are near each
// other where a text fits a picture: CLIP, CN-CLIP, jina-clip-v2, SigLIP2. One of the two may be
// missing. Its fields are not to be changed. Close it.
type CLIP struct {
	base
	Name          string
	Text, Picture *Encoder // nil: the package has none
	Dims          int      // of a vector

	// Of texts.
	Begin, Ends []int32 // stand around one
	Pad         int32   // fills up what it leaves
	Lower       bool    // it is lower-cased first
	tok         *tokenizer.Tokenizer

	// Of pictures: they are stretched with Filter, and written as Layout and Norm say.
	Layout vision.Layout
	Filter vision.Filter
	Norm   vision.Norm
}

// Encoder is a net that makes a vector of one thing a call.
type Encoder struct {
	Net           NetFile
	Input, Output axcl.Tensor
	name          string // in the package
}

// Most is how many tokens a text may have, with those around it; 0 where texts are not read.
func (c *CLIP) Most() int {
	if c.Text == nil {
		return 0
	}
	return c.Text.Input.Shape[1]
}

// Tokenizer is the package's; nil where texts are not read.
func (c *CLIP) Tokenizer() *tokenizer.Tokenizer { return c.tok }

// clipFamily is what a length of texts says of the models that have it.
type clipFamily struct {
	length int      // of a text
	tokens []string // files that the tokenizer may be in, the best one first
	filter vision.Filter
	norm   vision.Norm
	zero   bool // 0 fills up; else the tokenizer's own
	// texts are lower-cased, nothing stands before them, and <eos> behind, whatever the tokenizer's
	// file says
	siglip bool
}

var clipFamilies = []clipFamily{
	{length: 77, tokens: []string{"vocab.json", "tokenizer.json", "vocab.txt"}, filter: vision.Bilinear, norm: vision.CLIP, zero: true},
	{length: 52, tokens: []string{"cn_vocab.txt", "vocab.txt", "tokenizer.json"}, filter: vision.Bilinear, norm: vision.CLIP, zero: true},
	{length: 50, tokens: []string{"tokenizer.json"}, filter: vision.Lanczos, norm: vision.CLIP},
	{length: 64, tokens: []string{"tokenizer.json"}, filter: vision.Bilinear, norm: vision.Signed, siglip: true},
}

// clipOther is a family that no length tells. Its pictures are as preprocessor_config.json says.
var clipOther = clipFamily{tokens: []string{"tokenizer.json", "vocab.json", "cn_vocab.txt", "vocab.txt"}}

func clipFamilyOf(length int) (clipFamily, bool) {
	i := slices.IndexFunc(clipFamilies, func(f clipFamily) bool { return f.length == length })
	if i < 0 {
		return clipOther, false
	}
	return clipFamilies[i], true
}

// vectorIn is the output of one input's net that is a single vector; nil where there is none.
func vectorIn(n net) *axcl.Tensor {
	if len(n.in) != 1 {
		return nil
	}
	i := slices.IndexFunc(n.out, func(t axcl.Tensor) bool { return shaped(t, 1, -1) && t.Shape[1] > 1 })
	if i < 0 {
		return nil
	}
	return &n.out[i]
}

// clipText is a net that makes a vector of a text's ids, and clipPicture one that makes it of a
// picture.
func clipText(n net) bool {
	return vectorIn(n) != nil && integer(n.in[0]) && shaped(n.in[0], 1, -1) && n.in[0].Shape[1] <= 256
}

func clipPicture(n net) bool {
	return vectorIn(n) != nil && !integer(n.in[0]) && (shaped(n.in[0], 1, 3, -1, -1) || shaped(n.in[0], 1, -1, -1, 3))
}

// clip is a pair of nets whose vectors are as long: one of texts, one of pictures. One alone is
// told by sizes that no other kind has.
func clip(e *evidence) bool {
	for _, n := range e.nets() {
		switch {
		case clipText(n):
			if _, known := clipFamilyOf(n.in[0].Shape[1]); known && len(e.nets()) == 1 || e.any(func(o net) bool {
				return clipPicture(o) && vectorIn(o).Shape[1] == vectorIn(n).Shape[1]
			}) {
				return true
			}
		case clipPicture(n) && len(e.nets()) == 1:
			if slices.Contains([]int{512, 640, 768, 1024, 1152, 1536}, vectorIn(n).Shape[1]) && elements(n.in[0]) >= 3*192*192 {
				return true
			}
		}
	}
	return false
}

// openCLIP opens the package that was recognised as one.
func openCLIP(k *KindError) (other, error) {
	c := &CLIP{base: base{info: k.Info}, Name: k.Info.Name}
	t := k.plan.t
	var err error
	if c.Text, err = c.part(k, clipText); err != nil {
		return nil, err
	}
	if c.Picture, err = c.part(k, clipPicture); err != nil {
		return nil, err
	}
	if c.Text == nil && c.Picture == nil { // else the nets alone would not have told the kind
		return nil, k.lacks("an encoder of texts or of pictures")
	}
	for _, e := range []*Encoder{c.Text, c.Picture} {
		switch {
		case e == nil:
		case e.Output.Type != axcl.FP32:
			return nil, &Error{Path: t.where(e.name), What: fmt.Sprintf("%s is %v: fp32 is expected", e.Output.Name, e.Output.Type),
				Err: ErrMismatch}
		case c.Dims > 0 && e.Output.Shape[1] != c.Dims:
			return nil, &Error{Path: t.where(e.name), What: fmt.Sprintf("its vectors have %d values, those of texts %d",
				e.Output.Shape[1], c.Dims), Fix: "keep the nets of one model in the folder", Err: ErrMismatch}
		default:
			c.Dims = e.Output.Shape[1]
		}
	}
	f, known := clipFamilyOf(c.Most())
	if c.Text != nil {
		if err := c.readTokenizer(k.plan, f); err != nil {
			return nil, err
		}
	}
	if c.Picture != nil {
		if err := c.readPictures(k.plan, f, known); err != nil {
			return nil, err
		}
	}
	c.describe()
	return c, nil
}

// clipBuild is the end of a net's name that tells one build of it from another.
var clipBuild = regexp.MustCompile(`(_(all|fc|npu\d|w\d+a\d+|u8|u16|u16u8|s8|s16))+$`)

// part is the net for one use; nil where there is none. Of several builds of one net it is the
// smallest, and a note says so.
func (c *CLIP) part(k *KindError, is func(net) bool) (*Encoder, error) {
	size := func(n net) int64 { return k.plan.t.files[n.name] }
	name := func(n net) string { return strings.TrimSuffix(path.Base(n.name), ".axmodel") }
	var it *net
	var left []string
	for i := range k.nets {
		n := &k.nets[i]
		switch {
		case !is(*n):
			continue
		case it == nil:
		case clipBuild.ReplaceAllString(name(*n), "") != clipBuild.ReplaceAllString(name(*it), "") ||
			path.Dir(n.name) != path.Dir(it.name) || name(*n) == name(*it):
			return nil, k.twice(n, it)
		case size(*n) < size(*it):
			left = append(left, path.Base(it.name))
		default:
			left = append(left, path.Base(n.name))
			continue
		}
		it = n
	}
	if it == nil {
		return nil, nil
	}
	if len(left) > 0 {
		c.info.Notes = append(c.info.Notes, fmt.Sprintf("of several builds the smallest is used, %s: not %s", path.Base(it.name),
			listed(left, " and ")))
	}
	f, err := k.file(it)
	e := &Encoder{Net: f, Input: it.in[0], Output: *vectorIn(*it), name: it.name}
	e.Net.In, e.Net.Out = []axcl.Tensor{e.Input}, []axcl.Tensor{e.Output}
	return e, err
}

// readTokenizer opens the tokenizer, from the file of the family that lies highest.
func (c *CLIP) readTokenizer(p *plan, f clipFamily) error {
	t := p.t
	if typ := c.Text.Input.Type; typ != axcl.Int32 && typ != axcl.Uint32 {
		return &Error{Path: t.where(c.Text.name), What: fmt.Sprintf("its input is %s %v %v: int32 ids of one text are expected",
			c.Text.Input.Name, typ, c.Text.Input.Shape), Err: ErrMismatch}
	}
	at := ""
	for _, name := range f.tokens {
		if at = t.named(name); at != "" && (name != "vocab.json" || t.has(path.Join(path.Dir(at), "merges.txt"))) {
			break
		}
		at = ""
	}
	const take = "take the one of the model that the net was made of"
	if at == "" {
		return &Error{Path: t.where("."), What: "none of " + listed(f.tokens, " and ") + " is there to read texts with",
			Fix: take, Err: ErrMissing}
	}
	var err error
	if c.tok, err = tokenizer.OpenWith(t.fsys, at, tokenizer.Config{}); err != nil {
		return &Error{Path: t.where(at), What: err.Error(), Fix: take, Err: err}
	}
	c.Begin, c.Ends = c.tok.Prefix(), c.tok.Suffix()
	if f.siglip {
		end, ok := c.tok.ID("<eos>")
		if !ok {
			return &Error{Path: t.where(at), What: "has no <eos>, which SigLIP2's texts end with", Fix: take, Err: ErrMismatch}
		}
		c.Begin, c.Ends, c.Lower = nil, []int32{end}, true
	}
	if len(c.Begin)+len(c.Ends) >= c.Most() {
		return &Error{Path: t.where(at), What: fmt.Sprintf("puts %d tokens around a text, the net takes %d in all",
			len(c.Begin)+len(c.Ends), c.Most()), Fix: take, Err: ErrMismatch}
	}
	if f.zero {
		return nil
	}
	pad, ok := padOf(c.tok)
	if !ok {
		return &Error{Path: t.where(at), What: "has neither <pad> nor [PAD], and the net takes texts of one length", Fix: take,
			Err: ErrMismatch}
	}
	c.Pad = pad
	return nil
}

// padOf is the id that fills up what a text leaves.
func padOf(tok *tokenizer.Tokenizer) (id int32, ok bool) {
	for _, word := range []string{"<pad>", "[PAD]"} {
		if id, ok = tok.ID(word); ok {
			return id, true
		}
	}
	return 0, false
}

// readPictures finds out how pictures become the net's input: as preprocessor_config.json says,
// else as is usual in the family. Where no text tells the family, lengths of vectors do.
func (c *CLIP) readPictures(p *plan, f clipFamily, known bool) error {
	image := c.Picture.Input
	bad := func(what string, args ...any) error {
		return &Error{Path: p.t.where(c.Picture.name), What: fmt.Sprintf(what, args...), Fix: "take another build of the net",
			Err: ErrMismatch}
	}
	s := image.Shape
	kind, width, height := vision.Planes, s[3], s[2]
	if s[1] != 3 {
		kind, width, height = vision.Rows, s[2], s[1]
	}
	typ := map[axcl.Type]vision.Type{axcl.Uint8: vision.U8, axcl.FP32: vision.F32}[image.Type]
	if typ == 0 {
		return bad("%s is %v: pictures are written as uint8 or fp32", image.Name, image.Type)
	}
	if width < 16 || height < 16 || width > 1<<11 || height > 1<<11 {
		return bad("%s is %v: a picture of 16×16 to 2048×2048 pixels is expected", image.Name, s)
	}
	c.Layout = vision.Layout{Kind: kind, Type: typ, Width: width, Height: height}
	if c.Text == nil {
		length := 77
		switch {
		case c.Dims == 1152:
			length = 64
		case c.Dims == 1024 && width == 512:
			length = 50
		}
		f, known = clipFamilyOf(length)
	}
	c.Filter, c.Norm = f.filter, f.norm
	at := p.t.named("preprocessor_config.json")
	said, err := c.readPreprocessor(p, at)
	switch {
	case err != nil:
		return err
	case !said && !known:
		return &Error{Path: p.t.where("."), What: fmt.Sprintf("nothing says how pictures are made for a model with texts of %d tokens",
			c.Most()), Fix: "put its preprocessor_config.json into the folder", Err: ErrMissing}
	}
	if typ == vision.U8 {
		c.Norm = vision.Own // the net's
	}
	return nil
}

// readPreprocessor reads Hugging Face's preprocessor_config.json. It says nothing where it has no
// image_mean.
func (c *CLIP) readPreprocessor(p *plan, at string) (said bool, err error) {
	if at == "" {
		return false, nil
	}
	o, err := p.object(at)
	if err != nil {
		return false, err
	}
	refuse := func(what string) (bool, error) {
		return false, &Error{Path: p.t.where(at), What: what, Fix: "take the one of the model that the net was made of", Err: ErrMalformed}
	}
	if !o.any("image_mean") {
		return false, nil
	}
	values := append(decoded[[]float64](o, "image_mean"), decoded[[]float64](o, "image_std")...)
	norm, ok := vision.Own, len(values) == 6
	if ok {
		norm, ok = map[[6]float64]vision.Norm{
			{.5, .5, .5, .5, .5, .5}: vision.Signed, {.485, .456, .406, .229, .224, .225}: vision.ImageNet, {0, 0, 0, 1, 1, 1}: vision.Unit,
			{.48145466, .4578275, .40821073, .26862954, .26130258, .27577711}: vision.CLIP,
		}[[6]float64(values)]
	}
	if !ok {
		return refuse(fmt.Sprintf("image_mean and image_std are %v in all: those of CLIP and of ImageNet, three times 0.5, and 0 and 1 "+
			"are known", values))
	}
	resample, ok, err := o.num(0, 5, "resample")
	if err != nil {
		return refuse(err.Error())
	}
	if !ok {
		resample = 3 // Hugging Face's own
	}
	filter, ok := map[int64]vision.Filter{1: vision.Lanczos, 2: vision.Bilinear, 3: vision.Bicubic}[resample]
	if !ok {
		return refuse(fmt.Sprintf("resample is %d: 1 (Lanczos), 2 (bilinear) and 3 (bicubic) are known", resample))
	}
	c.Norm, c.Filter = norm, filter
	return true, nil
}

// describe says what is known.
func (c *CLIP) describe() {
	i := &c.info
	i.Says, i.Capabilities, i.Pooling = "", []string{"embedding"}, "the net's own"
	i.Hidden, i.Context = c.Dims, c.Most()
	var files []int64
	var buffers []axcl.Tensor
	name := ""
	for _, e := range []*Encoder{c.Text, c.Picture} {
		if e != nil {
			files, buffers, name = append(files, e.Net.Size), append(buffers, e.Input, e.Output), e.Net.Path
		}
	}
	if c.Text != nil {
		i.Vocab = c.tok.Vocab()
		i.Groups = append(i.Groups, fmt.Sprintf("%d tokens", c.Most()))
	} else {
		i.Notes = append(i.Notes, c.Lacks("text"))
	}
	if c.Picture != nil {
		i.Capabilities = append(i.Capabilities, "vision")
		i.Groups = append(i.Groups, fmt.Sprintf("pictures of %d×%d pixels", c.Layout.Width, c.Layout.Height))
	} else {
		i.Notes = append(i.Notes, c.Lacks("picture"))
	}
	c.memory(files, buffers...)
	i.Quantization = cmp.Or(i.Quantization, quantizationOf(name))
}

// Lacks says that the encoder of a text, or of a picture, is missing.
func (c *CLIP) Lacks(what string) string {
	return fmt.Sprintf("its package has no encoder of a %s: fetch that net, too, into the same folder", what)
}
