package models

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/axle-llm/axle/axcl"
	"github.com/axle-llm/axle/vision"
	"github.com/axle-llm/axle/vision/detect"
)

// Faces is a package of two nets: one finds faces in a picture, one makes a vector of each. Its
// fields are not to be changed. Close it.
type Faces struct {
	base
	Name    string
	Finder  NetFile
	Teller  NetFile
	Image   axcl.Tensor   // the finder's picture
	Layout  vision.Layout // how it is written
	Outputs []axcl.Tensor // of the finder, in the order of Form.Outputs
	Form    detect.FaceForm
	Crop    axcl.Tensor   // the teller's face, upright
	Small   vision.Layout // how it is written
	Vector  axcl.Tensor
	RGB     bool // red comes first, in both; else blue does
}

const faceSide = 112 // pixels of an upright face

// faceTeller is a net that makes a vector of an upright face.
func faceTeller(n net) bool {
	return len(n.in) == 1 && len(n.out) == 1 && n.in[0].Type == axcl.Uint8 && elements(n.in[0]) == 3*faceSide*faceSide &&
		shaped(n.out[0], 1, 512)
}

// faceFinder is a net that finds faces: it gives scores, boxes and points at three strides.
func faceFinder(n net) bool {
	if len(n.in) != 1 || len(n.out) < 9 {
		return false
	}
	l, ok := pictureLayout(n.in[0])
	if !ok {
		return false
	}
	_, err := detect.ReadFaces(l.Width, l.Height, shapesOf(n.out))
	return err == nil
}

// pictureLayout is how a picture of bytes is written into a tensor of four dimensions.
func pictureLayout(t axcl.Tensor) (l vision.Layout, ok bool) {
	s := t.Shape
	if len(s) != 4 || s[0] != 1 || t.Type != axcl.Uint8 || slices.Max(s) > 1<<11 {
		return l, false
	}
	switch {
	case s[3] == 3:
		return vision.Layout{Kind: vision.Rows, Type: vision.U8, Width: s[2], Height: s[1]}, true
	case s[1] == 3:
		return vision.Layout{Kind: vision.Planes, Type: vision.U8, Width: s[3], Height: s[2]}, true
	}
	return l, false
}

func shapesOf(all []axcl.Tensor) (shapes [][]int) {
	for _, t := range all {
		shapes = append(shapes, t.Shape)
	}
	return shapes
}

// openFaces opens the package that was recognised as one. Nets for age or landmarks beside the two
// are left alone.
func openFaces(k *KindError) (other, error) {
	t := k.plan.t
	f := &Faces{base: base{info: k.Info}, Name: k.Info.Name}
	finder, err := k.only(faceFinder, "one that finds faces: a picture of bytes, and nine outputs with scores, boxes and points")
	if err != nil {
		return nil, err
	}
	teller, err := k.only(faceTeller, "one that tells faces apart")
	if err != nil {
		return nil, err
	}
	f.Image, f.Crop, f.Vector = finder.in[0], teller.in[0], teller.out[0]
	f.Layout, _ = pictureLayout(f.Image)
	var ok bool
	if f.Small, ok = pictureLayout(f.Crop); !ok || f.Small.Width != faceSide || f.Small.Height != faceSide {
		return nil, &Error{Path: t.where(teller.name), What: fmt.Sprintf("%s is %v: a face of %d×%[3]d pixels is expected", f.Crop.Name,
			f.Crop.Shape, faceSide), Fix: "take another build of the net", Err: ErrMismatch}
	}
	if f.Form, err = detect.ReadFaces(f.Layout.Width, f.Layout.Height, shapesOf(finder.out)); err != nil {
		return nil, err
	}
	for _, i := range f.Form.Outputs {
		f.Outputs = append(f.Outputs, finder.out[i])
	}
	for name, all := range map[string][]axcl.Tensor{finder.name: f.Outputs, teller.name: {f.Vector}} {
		if i := slices.IndexFunc(all, func(t axcl.Tensor) bool { return t.Type != axcl.FP32 }); i >= 0 {
			return nil, &Error{Path: t.where(name), What: fmt.Sprintf("%s is %v: fp32 is expected", all[i].Name, all[i].Type),
				Fix: "take another build of the net", Err: ErrMismatch}
		}
	}
	for _, one := range []struct {
		to      *NetFile
		of      *net
		in, out []axcl.Tensor
	}{{&f.Finder, finder, []axcl.Tensor{f.Image}, f.Outputs}, {&f.Teller, teller, []axcl.Tensor{f.Crop}, []axcl.Tensor{f.Vector}}} {
		if *one.to, err = k.file(one.of); err != nil {
			return nil, err
		}
		one.to.In, one.to.Out = one.in, one.out
	}
	if f.RGB, err = readColours(k.plan, true); err != nil {
		return nil, err
	}
	i := &f.info
	i.Says, i.Capabilities = "", []string{"faces"}
	i.Groups = []string{fmt.Sprintf("pictures of %d×%d pixels, a vector of %d values for each face", f.Layout.Width, f.Layout.Height,
		f.Vector.Shape[1])}
	f.memory([]int64{f.Finder.Size, f.Teller.Size}, slices.Concat(f.Finder.In, f.Outputs, f.Teller.In, f.Teller.Out)...)
	i.Quantization = cmp.Or(i.Quantization, quantizationOf(f.Finder.Path))
	return f, nil
}
