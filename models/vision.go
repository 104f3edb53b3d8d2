package models

import (
	"cmp"
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"

	"github.com/axle-llm/axle/axcl"
	"github.com/axle-llm/axle/axmodel"
	"github.com/axle-llm/axle/vision"
)

// Vision is how a package sees: its encoder, read from the encoder's own tensors, and how its
// family writes a picture in a prompt.
type Vision struct {
	Family  string // in the vendor's words: Qwen3VL, InternVL3 …
	File    string // the encoder's name inside the package
	Path    string // where the vendor's library finds it; empty when the package has no real paths (see [Materialize])
	Size    int64
	Weights int64 // what it takes on a card, as far as the file tells

	// The encoder's tensors: what a picture is written to, the rows that come out, and in which
	// further tensors, of the same shape, the rows are that are added after decoder layer 0, 1, 2 …
	// (axcl's Pass.Add).
	Input  axcl.Tensor
	Output axcl.Tensor
	Deep   []axcl.Tensor

	Layout vision.Layout // how the picture is written
	Norm   vision.Norm   // what is done to its values
	Square bool          // it is laid on a black square first
	Tiles  int           // it is looked at in Tiles × Tiles parts and then whole, a call each; 0: whole, in one call
	Most   int           // a request has this many pictures at most, before the text of their turn; 0: as many as there is room for

	// Places are how many parts of the picture's width, and of its height, the coordinates of an
	// answer count: 1000 and 1000 are thousandths. Zeros: that is not known.
	Places [2]int

	PerCall int // rows that a call gives
	Rows    int // rows of a picture, in all its calls

	// MRope: rows have positions in three components: all rows of a picture that begins at s have
	// the first s, row y of its grid has s+y as the second, column x has s+x as the third, and what
	// follows begins at s + the longer side. Else positions count on. Across and Down are the
	// grid's sides; 0 where positions count on.
	MRope        bool
	Across, Down int

	Placeholder int32  // the token that stands for a row
	Word        string // the same as the tokenizer has it: what a chat template prints once for a picture
	Inner       string // what a picture's rows are written as: takes the place of a chat template's single placeholder

	family *pictureFamily
}

// Mark is how the i-th of a turn's n pictures is written, counted from 0, where the chat template
// says nothing of pictures: all control tokens in it are meant as such. A Vision that is no
// package's has no family, and writes Inner alone.
func (v *Vision) Mark(i, n int) string {
	s, text := v.family, ""
	if s == nil {
		return v.Inner
	}
	if s.before != "" && (n > 1 || s.always) {
		text = fmt.Sprintf(s.before, i+s.first)
	}
	return text + s.open + v.Inner + s.close + s.after
}

// Vision is how the package sees. It is nil, without an error, for a package that has no encoder
// and does not claim to have one. The error is an *Error that says why the pictures of a package
// that has one cannot be read; its text can.
func (p *Package) Vision() (*Vision, error) {
	p.visionOnce.Do(func() {
		if p.vision == nil || p.visionErr != nil {
			return
		}
		words, err := p.Tokenizer()
		if err != nil {
			p.visionErr = err
			return
		}
		if p.vision.Placeholder, err = p.vision.family.resolve(words); err != nil {
			p.visionErr = &Error{Path: p.p.t.where(p.p.tokenizer), What: err.Error(),
				Fix: "take the tokenizer of the same model, or correct tokenizer_type or vlm_type", Err: ErrMismatch}
		}
	})
	if p.visionErr != nil {
		return nil, p.visionErr
	}
	return p.vision, nil
}

// readVision reads the encoder. What is wrong with it is kept for [Package.Vision]: text needs no
// encoder.
func (pkg *Package) readVision() {
	pkg.visionErr = pkg.p.visionErr
	if len(pkg.Encoders) == 0 || pkg.visionErr != nil {
		return
	}
	pkg.visionErr = pkg.readEncoder(pkg.Encoders[0])
}

func (pkg *Package) readEncoder(name string) error {
	bad := func(fix, format string, a ...any) error {
		return &Error{Path: pkg.p.t.where(name), What: fmt.Sprintf(format, a...), Fix: fix, Err: ErrMismatch}
	}
	const whole = "take encoder and layers from one build"
	v := &Vision{File: name, Size: pkg.p.t.files[name]}
	full, real, err := pkg.p.t.realPath(name)
	if err != nil {
		return err
	}
	if real {
		v.Path = full
	}
	m, err := pkg.meta(name)
	if err != nil {
		return err
	}
	v.Weights = cmp.Or(m.WeightBytes, v.Size)
	pkg.vision = v // what it takes on a card is known, whatever else is wrong
	if v.family = pictureFamilyByName(pkg.Family, familyOf(path.Base(name))); pkg.Config.VisionType != "" {
		if v.family, err = pictureFamilyOf(pkg.Config.VisionType); err != nil {
			return bad("correct vlm_type", "the package's %v", err)
		}
	}
	if v.family == nil {
		v.family = pkg.pictureFamilyByPlaces(m)
	}
	if v.family == nil {
		return bad("say it as vlm_type in config.json", "nothing tells which family this encoder belongs to")
	}
	v.Family, v.Word, v.Square, v.Tiles, v.Most = v.family.name, v.family.row, v.family.square, v.family.tiles, v.family.most
	if err := v.readTensors(m, pkg.Hidden); err != nil {
		return bad(whole, "%v", err)
	}
	if err := v.readLayout(&pkg.Config); err != nil {
		return bad("take a package that axllm runs", "%s", strings.TrimPrefix(err.Error(), "vision: "))
	}
	if v.Places = [2]int{v.family.counts, v.family.counts}; v.family.counts == inPixels {
		v.Places = [2]int{v.Layout.Width, v.Layout.Height}
	}
	switch wide := pkg.Shape.Shape().MaxRows(); {
	case len(v.Deep) > len(pkg.Layers):
		return bad(whole, "gives rows to add after %d layers, the model has %d", len(v.Deep), len(pkg.Layers))
	case v.MRope && pkg.Shape.Pos != 3:
		return bad("take a build with three position rows", "%s needs positions in three components, the layers take %d", v.Family,
			pkg.Shape.Pos)
	case wide == 1:
		return bad("take a build with prefill groups", "a picture's rows go through prefill groups only, and the layers have none")
	case v.Rows >= pkg.Shape.Cells:
		return bad("take a build with a longer context", "a picture takes %d rows, the model keeps %d", v.Rows, pkg.Shape.Cells)
	}
	return nil
}

// readTensors finds what goes in and what comes out.
func (v *Vision) readTensors(m *axmodel.Meta, hidden int) error {
	if len(m.Groups) != 1 {
		return fmt.Errorf("is not an encoder of pictures: %d shape groups, not one", len(m.Groups))
	}
	g := &m.Groups[0]
	if len(g.Inputs) != 1 || len(g.Outputs) == 0 {
		return fmt.Errorf("is not an encoder of pictures: %d inputs and %d outputs", len(g.Inputs), len(g.Outputs))
	}
	v.Input = g.Inputs[0]
	first := slices.IndexFunc(g.Outputs, func(t axcl.Tensor) bool { return !strings.HasPrefix(t.Name, "deepstack") })
	v.Output = g.Outputs[max(first, 0)]
	if t := v.Output.Type; t != axcl.FP32 && t != axcl.BF16 {
		return fmt.Errorf("output %q is %v; rows are fp32 or bf16", v.Output.Name, t)
	}
	n := 1
	for _, d := range v.Output.Shape {
		n *= d
	}
	if last := len(v.Output.Shape) - 1; last < 0 || v.Output.Shape[last] != hidden || n < hidden {
		return fmt.Errorf("output %q has shape %v, the model's rows are %d long", v.Output.Name, v.Output.Shape, hidden)
	}
	v.PerCall = n / hidden
	v.Rows = v.PerCall * (v.Tiles*v.Tiles + 1)
	if v.Inner = v.family.inner(v.PerCall); v.Rows > 1<<16 {
		return fmt.Errorf("gives %d rows for a picture", v.Rows)
	}
	for _, t := range g.Outputs {
		if t.Name != v.Output.Name && slices.Equal(t.Shape, v.Output.Shape) && t.Type == v.Output.Type {
			v.Deep = append(v.Deep, t)
		}
	}
	slices.SortFunc(v.Deep, func(a, b axcl.Tensor) int {
		return cmp.Or(cmp.Compare(len(a.Name), len(b.Name)), cmp.Compare(a.Name, b.Name))
	})
	return nil
}

// readLayout tells how the picture is written, and where its rows lie in it.
func (v *Vision) readLayout(c *Config) (err error) {
	typ := map[axcl.Type]vision.Type{axcl.Uint8: vision.U8, axcl.FP32: vision.F32}[v.Input.Type]
	if typ == 0 {
		return fmt.Errorf("input %q is %v; pictures are written as uint8 or fp32", v.Input.Name, v.Input.Type)
	}
	hints := vision.Hints{Rows: v.PerCall, Width: c.VisionWidth, Height: c.VisionHeight, File: path.Base(v.File)}
	if v.Layout, err = vision.ReadLayout(v.Input.Shape, typ, hints); err != nil {
		return err
	}
	if typ == vision.F32 {
		v.Norm = v.family.norm
	}
	if !v.family.mrope {
		return nil
	}
	across, down := v.Layout.Grid()
	v.MRope, v.Across, v.Down = true, across/2, down/2
	if v.Across*v.Down != v.PerCall {
		return fmt.Errorf("a picture of %d×%d pixels and %d rows: how its rows lie is not known", v.Layout.Width, v.Layout.Height,
			v.PerCall)
	}
	return nil
}

// String is the encoder in a line.
func (v *Vision) String() string {
	s := fmt.Sprintf("%s: %d×%d pixels as %v, %v, to %d rows %s", path.Base(v.File), v.Layout.Width, v.Layout.Height, v.Layout.Kind,
		v.Layout.Type, v.PerCall, strings.ToLower(v.Output.Type.String()))
	if n := len(v.Deep); n > 0 {
		s += fmt.Sprintf(", and rows to add after %d layers", n)
	}
	return s
}

// pictures is what a picture costs and where it stands, in a line.
func (v *Vision) pictures() string {
	parts := []string{v.Family, fmt.Sprintf("%d rows each", v.Rows)}
	if v.Tiles > 0 {
		parts = append(parts, fmt.Sprintf("in %d parts and whole", v.Tiles*v.Tiles))
	}
	if v.MRope {
		parts = append(parts, fmt.Sprintf("positions on a grid of %d×%d", v.Across, v.Down))
	}
	if v.Most > 0 {
		parts = append(parts, fmt.Sprintf("at most %d in a request", v.Most))
	}
	return strings.Join(append(parts, "before a turn's text"), ", ")
}

// encoderName is what encoders of pictures are called where nothing names them.
var encoderName = regexp.MustCompile(`(?i)vision|image_encoder|(^|[_-])vi[tp]([_-]|\.axmodel)|vpm|_h\d+_w\d+_t\d+`)

// findEncoder finds the encoder of pictures: the one that the configuration names, else by file
// names. Only one is used, and fetched.
func (p *plan) findEncoder() error {
	if p.cfg.VisionEncoder != "" {
		p.encoders = []string{""}
		return p.named(p.cfg.VisionEncoder, &p.encoders[0])
	}
	if p.cfg.Blind {
		return nil
	}
	var found []string
	for _, name := range p.t.names {
		file := path.Base(name)
		if strings.HasSuffix(strings.ToLower(file), ".axmodel") && encoderName.MatchString(file) && !foreign.MatchString(name) &&
			!layerName.MatchString(file) && name != p.head && !slices.Contains(p.layers, name) {
			found = append(found, name)
		}
	}
	if len(found) == 0 {
		if p.cfg.VisionType != "" {
			p.visionErr = p.t.missing(path.Join(path.Dir(p.template), "…_vision.axmodel"),
				"name it as filename_image_encoder_axmodel in config.json, or fetch it, e.g. with `axle pull`")
		}
		return nil
	}
	// Nearest to the layers, then an encoder of stills, then the smallest name.
	rank := func(name string) int {
		n := 0
		if path.Dir(name) != path.Dir(p.template) {
			n += 2
		}
		if strings.Contains(strings.ToLower(path.Base(name)), "video") {
			n++
		}
		return n
	}
	slices.SortStableFunc(found, func(a, b string) int {
		return cmp.Or(rank(a)-rank(b), cmp.Compare(p.t.files[a], p.t.files[b]), cmp.Compare(a, b))
	})
	p.encoders = found[:1]
	if len(found) > 1 {
		p.note("the encoder is %s; there are others (%s): filename_image_encoder_axmodel chooses", found[0], strings.Join(found[1:], ", "))
	}
	p.visionErr = p.t.checkPointer(found[0])
	return nil
}
