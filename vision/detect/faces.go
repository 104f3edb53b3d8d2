package detect

import (
	"cmp"
	"fmt"
	"math"
	"slices"
)

// Face is a face that was found. Its box's class is 0.
type Face struct {
	Box
	Points [5][2]float64 // x and y of the eyes, the nose and the corners of the mouth, pixels of the net's input
}

const (
	anchors = 2 // in a cell
	corners = 5 // points of a face
)

// FaceForm is how faces lie in the outputs of a net, as SCRFD gives them: for the strides 8, 16 and
// 32 a score, four distances and five points of each anchor.
type FaceForm struct {
	Outputs []int // those that are read, by their number among the net's outputs

	heads []head // three
}

// faceParts is how many numbers each kind of output has for an anchor, in the order of
// FaceForm.Outputs.
var faceParts = [...]int{1, sides, 2 * corners}

// ReadFaces tells from the shapes of all outputs how a net that takes pictures of width × height
// gives faces. The error says why they are not read.
func ReadFaces(width, height int, shapes [][]int) (FaceForm, error) {
	var f FaceForm
	cells := 0
	for _, stride := range []int{8, 16, 32} {
		h := head{stride, height / stride, width / stride}
		cells += anchors * h.down * h.across
		f.heads = append(f.heads, h)
		for _, each := range faceParts {
			at := slices.IndexFunc(shapes, func(s []int) bool { return h.holds(s, each) })
			if at < 0 {
				return FaceForm{}, fmt.Errorf("its outputs are %v: for a stride of %d one of [%d %d] is expected, of two anchors in each "+
					"cell", shapes, stride, anchors*h.down*h.across, each)
			}
			f.Outputs = append(f.Outputs, at)
		}
	}
	if cells > mostBoxes || cells == 0 {
		return FaceForm{}, fmt.Errorf("its outputs are %v: %d faces are not possible", shapes, cells)
	}
	return f, nil
}

// holds reports whether a shape has each numbers for every anchor of the cells: a row for each
// anchor, or one for each cell.
func (h head) holds(s []int, each int) bool {
	n := anchors * h.down * h.across
	return slices.Equal(s, []int{n, each}) || slices.Equal(s, []int{1, n, each}) ||
		slices.Equal(s, []int{1, h.down, h.across, anchors * each})
}

// Decode returns the faces that score at least so much, in the order of the strides. An output has
// the numbers of the net's output of that place in Outputs, all of them. The error is ErrNonsense.
func (f FaceForm) Decode(outputs [][]float32, least float64) (found []Face, err error) {
	for i, h := range f.heads {
		scores, far, points := outputs[3*i], outputs[3*i+1], outputs[3*i+2]
		for k, v := range scores[:anchors*h.down*h.across] {
			score := float64(v)
			if math.IsNaN(score) {
				return nil, ErrNonsense
			}
			if score < least {
				continue
			}
			cell, stride := k/anchors, float64(h.stride)
			x, y := float64(cell%h.across)*stride, float64(cell/h.across)*stride
			d := far[sides*k : sides*(k+1)]
			one := Face{Box: Box{Score: min(score, 1), X0: x - stride*float64(d[0]), Y0: y - stride*float64(d[1]),
				X1: x + stride*float64(d[2]), Y1: y + stride*float64(d[3])}}
			sum := one.X0 + one.Y0 + one.X1 + one.Y1
			for p := range one.Points {
				at := points[2*corners*k+2*p:]
				one.Points[p] = [2]float64{x + stride*float64(at[0]), y + stride*float64(at[1])}
				sum += one.Points[p][0] + one.Points[p][1]
			}
			if math.IsNaN(sum) || math.IsInf(sum, 0) {
				return nil, ErrNonsense
			}
			if one.X1 > one.X0 && one.Y1 > one.Y0 {
				found = append(found, one)
			}
		}
	}
	return found, nil
}

// SuppressFaces is [Suppress] for faces.
func SuppressFaces(found []Face, share float64, most int) []Face {
	return suppress(found, func(f Face) Box { return f.Box }, share, most)
}

// suppress is [Suppress] for what has a box.
func suppress[T any](found []T, box func(T) Box, share float64, most int) (left []T) {
	order := slices.Clone(found)
	slices.SortStableFunc(order, func(a, b T) int { return cmp.Compare(box(b).Score, box(a).Score) })
	for _, b := range order {
		if len(left) == most {
			break
		}
		if !slices.ContainsFunc(left, func(a T) bool {
			return box(a).Class == box(b).Class && overlap(box(a), box(b)) > share
		}) {
			left = append(left, b)
		}
	}
	return left
}
