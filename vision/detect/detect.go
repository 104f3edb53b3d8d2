// Package detect reads what a detector's net gives: it tells by the shapes of the outputs how boxes
// lie in them, decodes the boxes, and keeps one of those that show the same thing. It is arithmetic
// on numbers, and knows no picture, no card and no package.
//
// [Read] gives the [Form] of a net's outputs, [Form.Decode] the boxes that are sure enough, and
// [Suppress] those that are left. [ReadFaces], [FaceForm.Decode] and [SuppressFaces] are the same
// for faces. A form is not changed once it is read: all functions may be called from any goroutine.
//
// Two families of nets are read:
//
//   - Three raw heads, as the vendor's packages of YOLOv8, YOLOv9 and YOLO11 have them: [1, h, w, 64+classes] at the strides 8, 16 and 32.
//     A cell's first 64 numbers are four times 16 bins, whose softmax says how far the left, top, right and bottom side are from the cell's
//     middle, in cells. A sigmoid of the others is the score of each class.
//   - One table of decoded boxes, as Frigate's builds have it: [1, 4+classes, boxes] or [1, boxes, 4+classes]. The four are the middle and
//     the size in pixels of the net's input, and the others the scores.
package detect

import (
	"errors"
	"fmt"
	"math"
	"slices"
)

// ErrNonsense is an output with a number that is none: the card computed nonsense.
var ErrNonsense = errors.New("detect: the net gave no numbers")

// Box is a thing that was found. Its corners are pixels of the net's input, from the left and the
// top.
type Box struct {
	Class          int
	Score          float64 // 0 to 1
	X0, Y0, X1, Y1 float64
}

const (
	sides = 4
	bins  = 16 // of each side

	// MostClasses is how many classes a net may know.
	MostClasses = 1 << 12
	mostBoxes   = 1 << 17 // a picture of 2,048 × 2,048 pixels has 86,016
)

// Form is how the boxes lie in the outputs of a net.
type Form struct {
	Classes int
	Outputs []int // those that are read, by their number among the net's outputs

	heads  []head // raw ones, in the order of Outputs; none: a table
	boxes  int
	turned bool // the table has a row for each number, and not for each box
}

// head is a net of cells over the picture.
type head struct{ stride, down, across int }

// Read tells from the shapes of all outputs how a net that takes pictures of width × height gives
// boxes. The error says why they are not read.
func Read(width, height int, shapes [][]int) (Form, error) {
	f, cells := Form{}, 0
	for _, stride := range []int{8, 16, 32} {
		h := head{stride, height / stride, width / stride}
		cells += h.down * h.across
		for i, s := range shapes {
			if len(s) == 4 && s[0] == 1 && s[1] == h.down && s[2] == h.across && s[3] > sides*bins &&
				(f.heads == nil || s[3] == sides*bins+f.Classes) {
				f.Classes = s[3] - sides*bins
				f.heads, f.Outputs = append(f.heads, h), append(f.Outputs, i)
				break
			}
		}
	}
	f.boxes = cells
	switch {
	case len(f.heads) == 3:
	case len(shapes) == 1 && len(shapes[0]) == 3 && shapes[0][0] == 1 && slices.Contains(shapes[0][1:], cells):
		rows, columns := shapes[0][1], shapes[0][2]
		f = Form{Classes: columns - sides, Outputs: []int{0}, boxes: cells}
		if rows != cells {
			f.Classes, f.turned = rows-sides, true
		}
	default:
		f.Classes = 0
	}
	switch {
	case f.Classes < 1:
		return Form{}, fmt.Errorf("its outputs are %v: three raw heads of [1 h w 64+classes] are read, and one table of "+
			"[1 4+classes %d]", shapes, cells)
	case f.Classes > MostClasses || cells > mostBoxes:
		return Form{}, fmt.Errorf("its outputs are %v: %d boxes of %d classes are too many", shapes, cells, f.Classes)
	}
	return f, nil
}

// Decode returns the boxes whose likeliest class scores at least so much, in the order of the
// outputs. An output has the numbers of the net's output of that place in Outputs, all of them. The
// error is ErrNonsense.
func (f Form) Decode(outputs [][]float32, least float64) (found []Box, err error) {
	if f.heads == nil {
		return f.table(outputs[0], least)
	}
	for i, h := range f.heads {
		if found, err = f.head(found, h, outputs[i], least); err != nil {
			return nil, err
		}
	}
	return found, nil
}

// head decodes a raw head.
func (f Form) head(found []Box, h head, v []float32, least float64) ([]Box, error) {
	each := sides*bins + f.Classes
	for cell := range h.down * h.across {
		row := v[cell*each : (cell+1)*each]
		class, logit, ok := highest(row[sides*bins:], 1)
		if !ok {
			return nil, ErrNonsense
		}
		score := sigmoid(float64(logit))
		if score < least {
			continue
		}
		var far [sides]float64
		for s := range far {
			if far[s], ok = expected(row[s*bins : (s+1)*bins]); !ok {
				return nil, ErrNonsense
			}
		}
		x, y, stride := float64(cell%h.across)+0.5, float64(cell/h.across)+0.5, float64(h.stride)
		found = add(found, Box{class, score, (x - far[0]) * stride, (y - far[1]) * stride, (x + far[2]) * stride, (y + far[3]) * stride})
	}
	return found, nil
}

// table decodes a table of boxes.
func (f Form) table(v []float32, least float64) (found []Box, err error) {
	next, step, last := sides+f.Classes, 1, sides+f.Classes // from a box to the next, and from a number of it to the next
	if f.turned {
		next, step, last = 1, f.boxes, len(v)
	}
	for i := range f.boxes {
		row := v[i*next : min(i*next+last, len(v))]
		class, score, ok := highest(row[sides*step:], step)
		if !ok {
			return nil, ErrNonsense
		}
		if float64(score) < least {
			continue
		}
		x, y, w, h := float64(row[0]), float64(row[step]), float64(row[2*step]), float64(row[3*step])
		if sum := x + y + w + h; math.IsNaN(sum) || math.IsInf(sum, 0) {
			return nil, ErrNonsense
		}
		found = add(found, Box{class, min(float64(score), 1), x - w/2, y - h/2, x + w/2, y + h/2})
	}
	return found, nil
}

// add leaves out what has no size.
func add(found []Box, b Box) []Box {
	if b.X1 > b.X0 && b.Y1 > b.Y0 {
		return append(found, b)
	}
	return found
}

// highest is the largest of the numbers at 0, step, 2·step and so on. It is not ok where one is
// NaN.
func highest(v []float32, step int) (at int, top float32, ok bool) {
	top = float32(math.Inf(-1))
	for i, n := 0, 0; i < len(v); i, n = i+step, n+1 {
		if v[i] != v[i] {
			return 0, 0, false
		}
		if v[i] > top {
			at, top = n, v[i]
		}
	}
	return at, top, true
}

// expected is the mean of the bins' numbers, each as likely as the softmax says.
func expected(v []float32) (mean float64, ok bool) {
	_, top, ok := highest(v, 1)
	if !ok || math.IsInf(float64(top), 0) {
		return 0, false
	}
	sum := 0.0
	for i, x := range v {
		p := math.Exp(float64(x - top))
		sum += p
		mean += p * float64(i)
	}
	return mean / sum, true
}

func sigmoid(x float64) float64 { return 1 / (1 + math.Exp(-x)) }

// Suppress returns the boxes that are left where each takes those of its class with it that score
// less and overlap it by more than a share: of what both cover, both cover more than it together.
// The best are first, and of equals the one that was first. At most the first most of them are
// returned.
func Suppress(found []Box, share float64, most int) (left []Box) {
	return suppress(found, func(b Box) Box { return b }, share, most)
}

// overlap is the part that two boxes have in common of what they cover.
func overlap(a, b Box) float64 {
	w, h := min(a.X1, b.X1)-max(a.X0, b.X0), min(a.Y1, b.Y1)-max(a.Y0, b.Y0)
	if w <= 0 || h <= 0 {
		return 0
	}
	return w * h / (area(a) + area(b) - w*h)
}

func area(b Box) float64 { return (b.X1 - b.X0) * (b.Y1 - b.Y0) }
