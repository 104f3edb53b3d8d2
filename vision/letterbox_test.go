package vision

import (
	"bytes"
	"math"
	"testing"
)

// TestLetterbox: the picture lies in the middle with its sides' ratio, the rest is grey, and points
// come back to where they were. A strip takes no square of its longer side.
func TestLetterbox(t *testing.T) {
	for _, c := range []struct{ w, h, width, height, left, top, right, bottom int }{
		{40, 20, 32, 32, 0, 8, 32, 24},
		{20, 40, 32, 32, 8, 0, 24, 32},
		{32, 32, 32, 32, 0, 0, 32, 32},
		{64, 64, 32, 16, 8, 0, 24, 16},
		{3, 1, 8, 4, 0, 0, 8, 3},
		{1000, 1, 10, 10, 0, 4, 10, 5}, // what would be thinner than a pixel
		{16000, 2, 8, 8, 0, 3, 8, 4},
		{1, 9000, 8, 8, 3, 0, 4, 8},
	} {
		p := &Picture{c.w, c.h, bytes.Repeat([]byte{200}, 3*c.w*c.h)}
		all, f := p.Letterbox(c.width, c.height, 114)
		if all.Width != c.width || all.Height != c.height || len(all.Pix) != 3*c.width*c.height {
			t.Fatalf("%+v: %d×%d, %d bytes", c, all.Width, all.Height, len(all.Pix))
		}
		for y := range c.height {
			for x := range c.width {
				want := byte(114)
				if x >= c.left && x < c.right && y >= c.top && y < c.bottom {
					want = 200
				}
				if got := all.Pix[3*(y*c.width+x)]; got != want {
					t.Fatalf("%+v: the pixel at %d, %d is %d, want %d", c, x, y, got, want)
				}
			}
		}
		for _, at := range []struct{ x, y, wantX, wantY float64 }{
			{float64(c.left), float64(c.top), 0, 0},
			{float64(c.right), float64(c.bottom), float64(c.w), float64(c.h)},
			{float64(c.left+c.right) / 2, float64(c.top+c.bottom) / 2, float64(c.w) / 2, float64(c.h) / 2},
			{-50, 1e9, 0, float64(c.h)},
		} {
			if x, y := f.Back(at.x, at.y); math.Abs(x-at.wantX) > 1e-9 || math.Abs(y-at.wantY) > 1e-9 {
				t.Errorf("%+v: %g, %g comes from %g, %g, want %g, %g", c, at.x, at.y, x, y, at.wantX, at.wantY)
			}
		}
	}
	p := numbered(5, 4)
	if all, _ := p.Letterbox(5, 4, 0); all != p {
		t.Error("a picture of the size is copied")
	}
}
