package vision

import (
	"fmt"
	"math"
)

// places are the binary places of a weight: Pillow's 32 − 8 − 2.
const places = 22

// Filter is how pixels are made of those around them where a picture gets another size.
type Filter int

// Pillow's filters. Where a picture gets smaller they look at more pixels.
const (
	Bicubic Filter = iota
	Bilinear
	Lanczos
)

// kernels are the filters' weights by distance, and how far they reach.
var kernels = [...]struct {
	weight  func(x float64) float64
	support float64
}{{cubic, 2}, {linear, 1}, {lanczos, 3}}

// Resize gives the picture at another size, stretched to it where the sides' ratio is another:
// Pillow's bicubic, byte for byte. A size that the picture has already gives the picture itself.
// Beside the answer it holds the new width × the old height for a while. It panics where a side is
// below 1 or above 16,384.
func (p *Picture) Resize(width, height int) *Picture { return p.ResizeBy(width, height, Bicubic) }

// ResizeBy is Resize with another of Pillow's filters. It panics where there is no such filter.
func (p *Picture) ResizeBy(width, height int, by Filter) *Picture {
	if width < 1 || height < 1 || width > 16384 || height > 16384 {
		panic(fmt.Sprintf("vision: resize to %d×%d", width, height))
	}
	out := p
	if width != out.Width {
		to := &Picture{width, out.Height, make([]byte, width*out.Height*perPixel)}
		taps := tapsOf(out.Width, width, by)
		for y := range out.Height {
			from, dst := out.Pix[y*out.Width*perPixel:], to.Pix[y*width*perPixel:]
			for x, t := range taps {
				//rule:G21 TestGoldenSizes = 1 << (places - 1), 1 << (places - 1), 1 << (places - 1) =>
				var r, g, b int64 = 1 << (places - 1), 1 << (places - 1), 1 << (places - 1)
				s := from[t.first*perPixel:]
				for i, w := range t.weights {
					v := s[i*perPixel : i*perPixel+3]
					r += w * int64(v[0])
					g += w * int64(v[1])
					b += w * int64(v[2])
				}
				d := dst[x*perPixel : x*perPixel+3]
				d[0], d[1], d[2] = settle(r), settle(g), settle(b)
			}
		}
		out = to
	}
	if height != out.Height {
		row := out.Width * perPixel
		to := &Picture{out.Width, height, make([]byte, row*height)}
		sums := make([]int64, row)
		for y, t := range tapsOf(out.Height, height, by) {
			for i := range sums {
				sums[i] = 1 << (places - 1)
			}
			for i, w := range t.weights {
				for j, v := range out.Pix[(t.first+i)*row:][:row] {
					sums[j] += w * int64(v)
				}
			}
			for i, v := range sums {
				to.Pix[y*row+i] = settle(v)
			}
		}
		out = to
	}
	return out
}

func settle(v int64) byte {
	return byte(min(255, max(0, v>>places)))
}

// tap is what one pixel is made of.
type tap struct {
	first   int
	weights []int64
}

// tapsOf computes the weights of Pillow's precompute_coeffs. Every product is converted, which
// forbids the compiler to fuse it with the sum after it: a processor that does so would round
// otherwise.
func tapsOf(from, to int, by Filter) []tap {
	kernel := kernels[by]
	scale := float64(from) / float64(to)
	stretch := max(scale, 1)
	support := float64(kernel.support * stretch)
	taps := make([]tap, to)
	var w []float64
	for i := range taps {
		centre := float64((float64(i) + 0.5) * scale)
		first := max(0, int(centre-support+0.5))
		last := min(from, int(centre+support+0.5))
		w = w[:0]
		sum := 0.0
		for j := first; j < last; j++ {
			v := kernel.weight(float64((float64(j) - centre + 0.5) * (1 / stretch)))
			w = append(w, v)
			sum += v
		}
		t := tap{first: first, weights: make([]int64, len(w))}
		for j, v := range w {
			if sum != 0 {
				v /= sum
			}
			t.weights[j] = int64(math.Copysign(0.5, v) + float64(v*(1<<places)))
		}
		taps[i] = t
	}
	return taps
}

// cubic is Keys' kernel with a = −½, in Pillow's order of operations.
func cubic(x float64) float64 {
	const a = -0.5
	x = math.Abs(x)
	if x < 1 {
		return float64(float64((float64((a+2)*x)-(a+3))*x)*x) + 1
	}
	if x < 2 {
		return (float64((float64((x-5)*x)+8)*x) - 4) * a
	}
	return 0
}

// linear is a tent.
func linear(x float64) float64 { return max(0, 1-math.Abs(x)) }

// lanczos is a sinc under the middle of a wider one.
func lanczos(x float64) float64 {
	if x < -3 || x >= 3 {
		return 0
	}
	return sinc(x) * sinc(x/3)
}

func sinc(x float64) float64 {
	if x == 0 {
		return 1
	}
	x *= math.Pi
	return math.Sin(x) / x
}

// Tiles gives the picture as columns × rows tiles of width × height, row by row, and then the whole
// picture at that size: what an encoder of one size sees of a finer picture. It panics where
// [Picture.Resize] to all of them would.
func (p *Picture) Tiles(columns, rows, width, height int) []*Picture {
	all := p.Resize(columns*width, rows*height)
	tiles := make([]*Picture, 0, columns*rows+1)
	for r := range rows {
		for c := range columns {
			t := &Picture{width, height, make([]byte, width*height*perPixel)}
			for y := range height {
				from := ((r*height+y)*all.Width + c*width) * perPixel
				copy(t.Pix[y*width*perPixel:(y+1)*width*perPixel], all.Pix[from:])
			}
			tiles = append(tiles, t)
		}
	}
	return append(tiles, p.Resize(width, height))
}
