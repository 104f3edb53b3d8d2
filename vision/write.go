package vision

import (
	"encoding/binary"
	"fmt"
	"math"
)

// Append resizes p to the layout's size where it has another, and appends it to dst as the encoder
// wants it: [Layout.Bytes] bytes, floats in little endian. It fails where norm is no norm, or is
// given for bytes, which the encoder norms itself.
func (l Layout) Append(dst []byte, p *Picture, norm Norm) ([]byte, error) {
	at := len(dst)
	dst = append(dst, make([]byte, l.Bytes())...)
	return dst, l.Write(dst[at:], p.Resize(l.Width, l.Height), norm)
}

// Write writes p, which has the layout's size, into dst, which has [Layout.Bytes] bytes. Its errors
// are those of [Layout.Append], and one where a size is another.
func (l Layout) Write(dst []byte, p *Picture, norm Norm) error {
	if p.Width != l.Width || p.Height != l.Height || len(p.Pix) != l.Width*l.Height*perPixel {
		return fmt.Errorf("vision: a picture of %d×%d pixels for an encoder of %d×%d: resize it first", p.Width, p.Height, l.Width,
			l.Height)
	}
	if len(dst) != l.Bytes() {
		return fmt.Errorf("vision: %d bytes for an encoder's input of %d", len(dst), l.Bytes())
	}
	switch l.Type {
	case U8:
		if norm != Own {
			return fmt.Errorf("vision: a norm for an encoder's input of bytes, which it norms itself")
		}
		l.place(p, func(at, _ int, v byte) { dst[at] = v })
	case F32:
		if norm == Own {
			norm = l.own()
		}
		table, err := levels(norm)
		if err != nil {
			return err
		}
		l.place(p, func(at, c int, v byte) { binary.LittleEndian.PutUint32(dst[4*at:], table[c][v]) })
	default:
		return fmt.Errorf("vision: a layout of %v", l.Type)
	}
	return nil
}

// own is the norm of a layout whose caller knows no better.
func (l Layout) own() Norm {
	switch l.Kind {
	case Planes, Rows:
		return ImageNet
	case Flat:
		return Unit
	}
	return Signed
}

// levels are the bits of the 256 floats of each channel, computed in float32 step by step, as a
// model's host code does.
func levels(n Norm) (t [3][256]uint32, err error) {
	mean, deviation := [3]float32{.485, .456, .406}, [3]float32{.229, .224, .225}
	if n == CLIP {
		mean, deviation = [3]float32{.48145466, .4578275, .40821073}, [3]float32{.26862954, .26130258, .27577711}
	}
	for c := range t {
		for i := range t[c] {
			x := float32(i)
			switch n {
			case Signed:
				x = float32(x/127.5) - 1
			case Unit:
				x /= 255
			case ImageNet, CLIP:
				x = float32(float32(x/255)-mean[c]) / deviation[c]
			default:
				return t, fmt.Errorf("vision: norm %d is not known", int(n))
			}
			t[c][i] = math.Float32bits(x)
		}
	}
	return t, nil
}

// place calls put with the place, the channel and the value of everything that the input holds.
func (l Layout) place(p *Picture, put func(at, channel int, v byte)) {
	size := l.Patch
	across, down := l.Grid()
	n := across * down
	for y := range l.Height {
		for x := range l.Width {
			v := p.Pix[(y*l.Width+x)*perPixel:][:3]
			var at, step int // of red, and from one channel to the next
			switch l.Kind {
			case Rows:
				at, step = (y*l.Width+x)*3, 1
			case Planes:
				at, step = y*l.Width+x, l.Width*l.Height
			default:
				row, column, inY, inX := y/size, x/size, y%size, x%size
				k := row*across + column
				switch l.Kind {
				case Qwen:
					//rule:G21 TestQwenOrder row%2)*2 + column%2 => column%2)*2 + row%2
					k = ((row/2*(across/2)+column/2)*2+row%2)*2 + column%2
					at, step = ((k*2*size+inY)*size+inX)*3, 1
				case Patches:
					at, step = (k*3*size+inY)*size+inX, size*size
				case Strip:
					at, step = inY*n*size+k*size+inX, size*n*size
				case Flat:
					at, step = ((k*size+inY)*size+inX)*3, 1
				}
			}
			for c, b := range v {
				put(at+c*step, c, b)
				if l.Kind == Qwen { // the second frame of a still is the first
					put(at+size*size*3+c*step, c, b)
				}
			}
		}
	}
}
