package vision

import (
	"cmp"
	"fmt"
	"math"
	"regexp"
	"strconv"
)

// Type is the type of an input tensor's values.
type Type int

// The types that encoders take.
const (
	U8 Type = iota + 1
	F32
)

func (t Type) String() string {
	return cmp.Or(map[Type]string{U8: "u8", F32: "f32"}[t], fmt.Sprintf("type %d", int(t)))
}

// Kind is how pixels lie in an encoder's input.
type Kind int

// The kinds, of a picture of Height × Width in patches of p × p. Patches are in the order of rows,
// but for Qwen's.
const (
	Qwen    Kind = iota + 1 // [1, N, 2·p·p, 3]: patches in blocks of 2 × 2, each patch given twice (two frames), channels last
	Rows                    // [1, H, W, 3]: channels last
	Planes                  // [1, 3, H, W]: channels first
	Patches                 // [1, N, 3, p, p] or [N, 3, p, p]: patches, each of planes
	Strip                   // [1, 3, p, N·p]: planes, in which the patches stand side by side
	Flat                    // [N, p·p·3]: patches, each with channels last
)

var kindNames = map[Kind]string{Qwen: "patches in blocks of four", Rows: "rows of pixels", Planes: "planes",
	Patches: "patches of planes", Strip: "a strip of patches", Flat: "flat patches"}

func (k Kind) String() string { return cmp.Or(kindNames[k], fmt.Sprintf("kind %d", int(k))) }

// Norm is what is done to a value before it is written as a float. Bytes are always written as they
// are.
type Norm int

// The norms. The layout's own is Signed for Qwen, Patches and Strip, Unit for Flat, and ImageNet
// for Planes: families differ there, and the caller who knows one says so.
const (
	Own      Norm = iota // the layout's
	Signed               // x/127.5 − 1
	Unit                 // x/255
	ImageNet             // (x/255 − mean)/deviation, with the means .485 .456 .406 and the deviations .229 .224 .225
	CLIP                 // likewise, with .48145466 .4578275 .40821073 and .26862954 .26130258 .27577711
)

// Hints are what may tell a layout, other than the input's shape.
type Hints struct {
	Rows          int    // the rows that the encoder's first output has; 0: unknown
	Width, Height int    // vision_width and vision_height of the package's config.json; 0: unknown. Shapes come before them
	File          string // the encoder's file name, which may hold sizes; "": unknown
}

// Layout is how an encoder wants a picture.
type Layout struct {
	Kind          Kind
	Type          Type
	Width, Height int // of the picture, in pixels
	Patch         int // pixels a side; 0 where the input has no patches
}

// Grid is how many patches the picture has across and down; 0 and 0 where the input has no patches.
func (l Layout) Grid() (across, down int) {
	if l.Patch == 0 {
		return 0, 0
	}
	return l.Width / l.Patch, l.Height / l.Patch
}

// Bytes is the size of the input tensor.
func (l Layout) Bytes() int {
	n := l.Width * l.Height * perPixel
	if l.Kind == Qwen {
		n *= 2
	}
	if l.Type == F32 {
		n *= 4
	}
	return n
}

// maxPatch bounds a patch where a shape could be a picture as well.
const maxPatch = 32

// ReadLayout tells from an input's shape and type how the encoder wants a picture. It fails, with
// the shape in its message, where no known layout has that shape, where several have and the hints
// do not tell them apart, or where N patches make no rectangle.
func ReadLayout(shape []int, typ Type, hints Hints) (Layout, error) {
	refuse := func(format string, a ...any) (Layout, error) {
		return Layout{}, fmt.Errorf("vision: an encoder with an input of %v %v: %s", shape, typ, fmt.Sprintf(format, a...))
	}
	if typ != U8 && typ != F32 {
		return refuse("values of this type are not written; u8 and f32 are")
	}
	for _, n := range shape {
		if n < 1 || n > 1<<26 {
			return refuse("no side of a picture's tensor is so long")
		}
	}
	var fits []Layout
	var why error
	patched := func(kind Kind, n, p int) {
		down, across, err := grid(n, p, kind == Qwen, hints)
		if err != nil {
			why = err
			return
		}
		fits = append(fits, Layout{Kind: kind, Type: typ, Width: across * p, Height: down * p, Patch: p})
	}
	s := shape
	switch {
	case len(s) == 5 && s[0] == 1 && s[2] == 3 && s[3] == s[4] && typ == F32:
		patched(Patches, s[1], s[3])
	case len(s) == 4 && s[0] > 1 && s[1] == 3 && s[2] == s[3] && s[2] <= maxPatch && typ == F32:
		patched(Patches, s[0], s[2])
	case len(s) == 4 && s[0] > 1:
		return refuse("it takes %d pictures, or patches in an unknown order, at once; encoders that take one are known", s[0])
	case len(s) == 4:
		if p := whole(s[2] / 2); s[3] == 3 && s[2]%2 == 0 && p > 0 && s[1]%4 == 0 && (hints.Rows == 0 || hints.Rows*4 == s[1]) {
			patched(Qwen, s[1], p)
		}
		// Qwen's rows are a quarter of its patches; no known encoder of whole pictures has as many.
		if s[3] == 3 && typ == U8 && (len(fits) == 0 || hints.Rows == 0) {
			fits = append(fits, Layout{Kind: Rows, Type: typ, Width: s[2], Height: s[1]})
		}
		switch {
		case s[1] != 3:
		case s[2] > maxPatch:
			fits = append(fits, Layout{Kind: Planes, Type: typ, Width: s[3], Height: s[2]})
		case s[3]%s[2] == 0:
			patched(Strip, s[3]/s[2], s[2])
		}
	case len(s) == 2 && s[1]%3 == 0 && whole(s[1]/3) > 0 && typ == F32:
		patched(Flat, s[0], whole(s[1]/3))
	case len(s) == 3:
		return refuse("this is no picture but embeddings of patches, as SmolVLM2's Python packages make them on the host; " +
			"take the package for axllm")
	}
	switch {
	case len(fits) > 1 && len(fits) == 2 && fits[0].Kind == Qwen:
		return refuse("that is a picture of %d×%d as well as %d patches of %d×%d; the rows of its output would tell, and are not known",
			fits[1].Width, fits[1].Height, s[1], fits[0].Patch, fits[0].Patch)
	case len(fits) > 1:
		return refuse("that is %v as well as %v, and nothing tells them apart", fits[0].Kind, fits[1].Kind)
	case len(fits) == 0 && why != nil:
		return refuse("%v", why)
	case len(fits) == 0:
		return refuse("no known layout of a picture has this shape and type")
	}
	l := fits[0]
	if l.Width > 16384 || l.Height > 16384 || l.Width*l.Height > 40_000_000 {
		return refuse("a picture of %d×%d pixels is over the limit of 16384 a side and 40 megapixels", l.Width, l.Height)
	}
	return l, nil
}

// whole is the whole root of n, or 0 where it has none.
func whole(n int) int {
	if n < 1 {
		return 0
	}
	r := int(math.Round(math.Sqrt(float64(n))))
	if r*r != n {
		return 0
	}
	return r
}

// sizes are two numbers in a file's name: h480_w672, or 576x768. The first is the height.
var sizes = []*regexp.Regexp{regexp.MustCompile(`[hH](\d{1,5})_?[wW](\d{1,5})`), regexp.MustCompile(`(\d{1,5})[xX](\d{1,5})`)}

// grid tells how n patches of p × p lie: as a square, as the config says, as the file's name says,
// or as near to a square as they can. Where blocks of four are told apart, both sides are even. A
// candidate that does not give n is passed over.
func grid(n, p int, even bool, hints Hints) (down, across int, err error) {
	fits := func(d, a int) bool { return d > 0 && a > 0 && d*a == n && (!even || d%2 == 0 && a%2 == 0) }
	if r := whole(n); fits(r, r) {
		return r, r, nil
	}
	if hints.Width%p == 0 && hints.Height%p == 0 && fits(hints.Height/p, hints.Width/p) {
		return hints.Height / p, hints.Width / p, nil
	}
	for _, re := range sizes {
		// Matches may overlap: 1x448x448x3.
		for rest := hints.File; ; {
			m := re.FindStringSubmatchIndex(rest)
			if m == nil {
				break
			}
			h, _ := strconv.Atoi(rest[m[2]:m[3]])
			w, _ := strconv.Atoi(rest[m[4]:m[5]])
			for _, unit := range []int{1, 2} { // PaddleOCR's sizes are rounded to pairs of patches
				d, a := (h+unit*p/2)/(unit*p)*unit, (w+unit*p/2)/(unit*p)*unit
				if fits(d, a) {
					return d, a, nil
				}
			}
			rest = rest[m[4]:]
		}
	}
	for d := int(math.Sqrt(float64(n))); d > 0; d-- {
		if n%d == 0 && fits(d, n/d) {
			return d, n / d, nil
		}
	}
	return 0, 0, fmt.Errorf("%d patches make no rectangle with even sides", n)
}
