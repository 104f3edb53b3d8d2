package vision

import "testing"

// TestFill: the middle of the picture fills the size, and what is beside it is left out.
func TestFill(t *testing.T) {
	for _, c := range []struct{ w, h, width, height, left, top, right, bottom int }{
		{40, 20, 32, 32, 10, 0, 30, 20},
		{20, 40, 32, 32, 0, 10, 20, 30},
		{30, 30, 10, 10, 0, 0, 30, 30},
		{30, 20, 20, 30, 8, 0, 21, 20}, // 13.3 pixels wide
		{9000, 1, 8, 8, 4499, 0, 4500, 1},
		{1, 9000, 8, 8, 0, 4499, 1, 4500},
		{32, 16, 32, 16, 0, 0, 32, 16},
	} {
		p := &Picture{c.w, c.h, make([]byte, 3*c.w*c.h)}
		part := &Picture{Width: c.right - c.left, Height: c.bottom - c.top}
		for i := range c.w * c.h {
			x, y := i%c.w, i/c.w
			inside := x >= c.left && x < c.right && y >= c.top && y < c.bottom
			for k := range 3 {
				v := byte(7*x + 13*y + 50*k)
				if p.Pix[3*i+k] = v; inside {
					part.Pix = append(part.Pix, v)
				}
			}
		}
		got, want := p.Fill(c.width, c.height), part.Resize(c.width, c.height)
		if got.Width != c.width || got.Height != c.height || string(got.Pix) != string(want.Pix) {
			t.Errorf("%+v: %d×%d, or other pixels", c, got.Width, got.Height)
		}
	}
}
