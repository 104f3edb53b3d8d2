package models

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/axle-llm/axle/axcl"
	"github.com/axle-llm/axle/axmodel"
	"github.com/axle-llm/axle/tokenizer"
	"github.com/axle-llm/axle/vision"
)

// pictureFamily is what a family of models that see has in common, whatever its encoder's tensors
// are: how a picture stands in a prompt, how its pixels are normed where the encoder leaves that to
// the host, and what positions its rows have. Tokens are written as the tokenizer has them; each
// must be one id there.
type pictureFamily struct {
	name   string   // in the vendor's words; vlm_type is compared without case and signs
	number int      // as vlm_type; 0: none is known
	alias  []string // further spellings
	hints  []string // the families of names ([Package.Family]) that it serves where vlm_type is not given

	row         string // stands once for every row
	open, close string // stand around a picture; each may hold several tokens and text
	before      string // what stands before the picture, with its number, counted from first; where a turn has one only if always is set
	first       int
	always      bool
	after       string // text behind it
	tiles       int    // the picture is also looked at in tiles × tiles parts, each with rows of its own
	norm        vision.Norm
	square      bool // laid on a black square before it is resized
	mrope       bool // rows have positions in three components
	places      int  // answers tell places in the picture by the tokens <0> to <places>, one id each, in order; 0: they do not
	counts      int  // into how many parts an answer's coordinates divide the picture's sides, or inPixels; 0: not known
	most        int  // a request has this many pictures at most, before the text of their turn; 0: as many as there is room for
}

// inPixels: coordinates are pixels of the picture as the encoder gets it.
const inPixels = -1

// families of models that see. Where the vendor's runtime and the models' own templates differ (its
// pictures come behind InternVL's and FastVLM's text, and all of a turn's pictures share one pair
// of brackets), the models were trained with what stands here.
var pictureFamilies = []pictureFamily{
	{name: "Qwen2_5VL", number: 1, hints: []string{"qwen25vl"}, row: "<|image_pad|>", open: "<|vision_start|>", close: "<|vision_end|>",
		mrope: true, counts: inPixels},
	{name: "Qwen3VL", number: 2, alias: []string{"Qwen3_5VL"}, hints: []string{"qwen3vl", "qwen35"}, row: "<|image_pad|>",
		open: "<|vision_start|>", close: "<|vision_end|>", mrope: true, counts: 1000},
	{name: "InternVL3", number: 3, alias: []string{"InternVL3_5"}, hints: []string{"internvl"}, row: "<IMG_CONTEXT>", open: "<img>",
		close: "</img>", before: "Image-%d: ", first: 1, after: "\n", norm: vision.ImageNet},
	{name: "FastVLM", number: 4, hints: []string{"fastvlm"}, row: "<image>", after: "\n", norm: vision.Unit, square: true},
	{name: "SmolVLM2", number: 5, alias: []string{"SmolVLM"}, hints: []string{"smolvlm"}, row: "<image>", tiles: 2},
	{name: "PaddleOCRVL", number: 6, hints: []string{"paddleocrvl"}, row: "<|IMAGE_PLACEHOLDER|>", open: "<|IMAGE_START|>",
		close: "<|IMAGE_END|>", norm: vision.Signed},
	{name: "Gemma4VL", number: 7, hints: []string{"gemma4"}, row: "<|image|>", open: "\n\n<|image>", close: "<image|>", after: "\n",
		norm: vision.Unit},
	{name: "MiniCPMV46VL", hints: []string{"minicpmv"}, row: "<|image_pad|>", open: "<image>", close: "</image>",
		before: "<image_id>%d</image_id>", always: true, after: "\n", norm: vision.Signed},
	{name: "Qwen3Omni", alias: []string{"Qwen3OmniVL"}, hints: []string{"qwen3omni"}, row: "<|image_pad|>", open: "<|vision_start|>",
		close: "<|vision_end|>", norm: vision.Signed},
	{name: "LocateAnythingVL", alias: []string{"LocateAnything"}, hints: []string{"locateanything"}, row: "<IMG_CONTEXT>", open: "<img>",
		close: "</img>", before: "<image %d>", first: 1, always: true, norm: vision.Signed, places: 1000, counts: 1000,
		most: 1},
}

// pictureFamilyOf finds a family by what vlm_type says.
func pictureFamilyOf(typ string) (*pictureFamily, error) {
	want := squeeze(typ)
	var known []string
	for i := range pictureFamilies {
		s := &pictureFamilies[i]
		if s.number > 0 && want == fmt.Sprint(s.number) ||
			slices.ContainsFunc(append(s.alias, s.name), func(name string) bool { return want == squeeze(name) }) {
			return s, nil
		}
		known = append(known, s.name)
	}
	return nil, fmt.Errorf("vlm_type is %.40q; known are %s and their numbers", typ, strings.Join(known, ", "))
}

// pictureFamilyByName finds a family by the names of things: the family of the package, then what
// its encoder's file is called.
func pictureFamilyByName(names ...string) *pictureFamily {
	for _, n := range names {
		for i, f := range pictureFamilies {
			if slices.Contains(f.hints, n) {
				return &pictureFamilies[i]
			}
		}
	}
	return nil
}

// pictureFamilyByPlaces finds the family of an encoder that nothing names, as in the first
// packages of LocateAnything, whose layers are called qwen2: it takes patches of planes, and the
// tokenizer has a token for each place that answers tell. No other family has those.
func (pkg *Package) pictureFamilyByPlaces(m *axmodel.Meta) *pictureFamily {
	if len(m.Groups) != 1 || len(m.Groups[0].Inputs) != 1 || !generic(pkg.Family) {
		return nil
	}
	in := m.Groups[0].Inputs[0]
	if l, err := vision.ReadLayout(in.Shape, vision.F32, vision.Hints{}); err != nil || l.Kind != vision.Patches || in.Type != axcl.FP32 {
		return nil
	}
	words, err := pkg.Tokenizer()
	if err != nil {
		return nil
	}
	for i := range pictureFamilies {
		f := &pictureFamilies[i]
		if f.places == 0 {
			continue
		}
		if _, err := f.resolve(words); err == nil {
			pkg.Family, pkg.TokenizerType = lookFamily(f.hints[0])
			pkg.p.family = pkg.Family
			pkg.p.note("the encoder is of %s, by its patches and by the tokenizer's tokens for places", f.name)
			return f
		}
	}
	return nil
}

// markedToken is a token in the text around a picture. What has a number is plain text.
var markedToken = regexp.MustCompile(`<[^<>%]*>`)

// tokens are every token that a picture is written with.
func (s *pictureFamily) tokens() []string {
	all := []string{s.row}
	for _, text := range []string{s.open, s.close, s.before} {
		all = append(all, markedToken.FindAllString(text, -1)...)
	}
	if s.tiles > 0 {
		all = append(all, smolAround, smolWhole)
		for r := range s.tiles {
			for c := range s.tiles {
				all = append(all, fmt.Sprintf(smolPart, r+1, c+1))
			}
		}
	}
	return all
}

// SmolVLM says which part of the picture rows belong to.
const (
	smolAround = "<fake_token_around_image>"
	smolPart   = "<row_%d_col_%d>"
	smolWhole  = "<global-img>"
)

// inner is what stands for the picture itself, of calls × rows rows: the row's token as often, and
// between the parts of a picture what tells them apart.
func (s *pictureFamily) inner(rows int) string {
	pad := strings.Repeat(s.row, rows)
	if s.tiles == 0 {
		return pad
	}
	var b strings.Builder
	for r := range s.tiles {
		for c := range s.tiles {
			b.WriteString(smolAround + fmt.Sprintf(smolPart, r+1, c+1) + pad)
		}
		b.WriteByte('\n')
	}
	b.WriteString("\n" + smolAround + smolWhole + pad + smolAround)
	return b.String()
}

// resolve finds the ids of the family's tokens, and fails with the first that the tokenizer has
// not.
func (s *pictureFamily) resolve(t *tokenizer.Tokenizer) (row int32, err error) {
	for i, text := range s.tokens() {
		id, ok := t.ID(text)
		if ids := t.Encode(nil, text, true); !ok || len(ids) != 1 || ids[0] != id {
			return 0, fmt.Errorf("has no token %s, with which pictures of %s are written", text, s.name)
		}
		if i == 0 {
			row = id
		}
	}
	if s.places == 0 {
		return row, nil
	}
	// With a tokenizer of another model these ids are other words, and answers read like answers
	// all the same.
	first := int32(0)
	for i := range s.places + 1 {
		text := fmt.Sprintf("<%d>", i)
		id, ok := t.ID(text)
		if i == 0 {
			first = id
		}
		if !ok || id != first+int32(i) {
			return 0, fmt.Errorf("has no token %s where it should be, by which answers of %s tell places in the picture", text, s.name)
		}
	}
	return row, nil
}
