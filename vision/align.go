package vision

import "math"

// Similarity turns, scales and moves points: (x, y) becomes (A·x − B·y + X, B·x + A·y + Y).
type Similarity struct{ A, B, X, Y float64 }

// Align returns the similarity that takes the points of from nearest to those of to, by the sum of
// squared distances. It is not ok where there are not as many of both, where all of from are one
// point or all of to are, or where a number is none.
func Align(from, to [][2]float64) (s Similarity, ok bool) {
	n := float64(len(from))
	if len(from) < 2 || len(from) != len(to) {
		return s, false
	}
	var f, t [2]float64 // their middles
	for i := range from {
		for k := range f {
			f[k], t[k] = f[k]+from[i][k]/n, t[k]+to[i][k]/n
		}
	}
	var size float64
	for i := range from {
		x, y := from[i][0]-f[0], from[i][1]-f[1]
		u, v := to[i][0]-t[0], to[i][1]-t[1]
		s.A, s.B, size = s.A+x*u+y*v, s.B+x*v-y*u, size+x*x+y*y
	}
	s.A, s.B = s.A/size, s.B/size
	s.X, s.Y = t[0]-s.A*f[0]+s.B*f[1], t[1]-s.B*f[0]-s.A*f[1]
	scale := s.A*s.A + s.B*s.B
	return s, scale > 0 && !math.IsInf(scale, 0) && !math.IsNaN(s.X+s.Y) && !math.IsInf(s.X+s.Y, 0)
}

// Aligned is a picture of width × height whose points are those of p that s takes there. Pixels are
// mixed from the four around a point, and what lies beside p is black. s is one that [Align] gave.
// It panics where a side is below 1 or above 16,384.
func (p *Picture) Aligned(s Similarity, width, height int) *Picture {
	if width < 1 || height < 1 || width > 16384 || height > 16384 {
		panic("vision: a picture of no such size")
	}
	out := &Picture{Width: width, Height: height, Pix: make([]byte, perPixel*width*height)}
	scale := s.A*s.A + s.B*s.B
	for y := range height {
		for x := range width {
			u, v := float64(x)-s.X, float64(y)-s.Y
			px, py := (s.A*u+s.B*v)/scale, (s.A*v-s.B*u)/scale
			if !(px > -1 && py > -1 && px < float64(p.Width) && py < float64(p.Height)) {
				continue
			}
			left, top := math.Floor(px), math.Floor(py)
			p.mix(out.Pix[perPixel*(y*width+x):][:perPixel], int(left), int(top), px-left, py-top)
		}
	}
	return out
}

// mix mixes the four pixels from (x, y) on, the right ones with this share and the lower ones with
// that.
func (p *Picture) mix(to []byte, x, y int, right, down float64) {
	var sum [perPixel]float64
	for i := range 4 {
		px, py, share := x+i%2, y+i/2, 1.0
		if share = 1 - right; i%2 == 1 {
			share = right
		}
		if i/2 == 1 {
			share *= down
		} else {
			share *= 1 - down
		}
		if px < 0 || py < 0 || px >= p.Width || py >= p.Height {
			continue
		}
		for c := range sum {
			sum[c] += share * float64(p.Pix[perPixel*(py*p.Width+px)+c])
		}
	}
	for c := range sum {
		to[c] = byte(math.Round(sum[c]))
	}
}
