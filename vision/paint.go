package vision

import (
	"fmt"
	"image"
	"image/color"
)

// canvas puts rows, as the file has them, where the orientation wants them.
type canvas struct {
	pix          []byte
	base, dx, dy int // pixel (x, y) of the file is at base + x·dx + y·dy
}

// newCanvas allocates the pixels of p.
func newCanvas(p *Picture, h *Header) canvas {
	p.Pix = make([]byte, p.Width*p.Height*perPixel)
	w, hh := h.stored()
	right, down := perPixel, perPixel*p.Width // of the picture as it is seen
	c := canvas{pix: p.Pix, dx: right, dy: down}
	if h.Orientation >= 5 {
		c.dx, c.dy = down, right
	}
	// Which of the file's axes run backwards.
	//rule:G21 TestGoldenPictures 2 || h.Orientation == =>
	backX := h.Orientation == 2 || h.Orientation == 3 || h.Orientation == 7 || h.Orientation == 8
	backY := h.Orientation == 3 || h.Orientation == 4 || h.Orientation == 6 || h.Orientation == 7
	if backX {
		c.base += (w - 1) * c.dx
		c.dx = -c.dx
	}
	if backY {
		c.base += (hh - 1) * c.dy
		c.dy = -c.dy
	}
	return c
}

// set writes one pixel.
func (c *canvas) set(x, y int, r, g, b byte) {
	at := c.base + x*c.dx + y*c.dy
	p := c.pix[at : at+3 : at+3]
	p[0], p[1], p[2] = r, g, b
}

// onWhite lays v with opacity a on white, rounded to the nearest.
func onWhite(v, a byte) byte {
	t := uint32(v)*uint32(a) + 255*(255-uint32(a)) + 128
	return byte((t>>8 + t) >> 8)
}

func (c *canvas) blend(x, y int, r, g, b, a byte) {
	if a == 255 {
		c.set(x, y, r, g, b)
	} else {
		c.set(x, y, onWhite(r, a), onWhite(g, a), onWhite(b, a))
	}
}

// paint makes p of a decoded picture.
func paint(p *Picture, h *Header, img image.Image) error {
	w, hh := h.stored()
	b := img.Bounds()
	if b.Min.X < 0 || b.Min.Y < 0 || b.Max.X > w || b.Max.Y > hh {
		return damaged(h.Format, fmt.Errorf("%v is outside of %d×%d", b, w, hh))
	}
	if h.Orientation == 1 && b == image.Rect(0, 0, w, hh) && p.takeOver(img) {
		return nil
	}
	c := newCanvas(p, h)
	if b.Dx() != w || b.Dy() != hh { // a frame that leaves the canvas open
		for i := range p.Pix {
			p.Pix[i] = 255
		}
	}
	switch m := img.(type) {
	case *image.Gray:
		each(b, m.PixOffset, 1, func(x, y, at int) { v := m.Pix[at]; c.set(x, y, v, v, v) })
	case *image.Gray16:
		each(b, m.PixOffset, 2, func(x, y, at int) { v := m.Pix[at]; c.set(x, y, v, v, v) })
	case *image.RGBA: // opaque: the decoders keep alpha in NRGBA
		each(b, m.PixOffset, 4, func(x, y, at int) { s := m.Pix[at : at+3]; c.set(x, y, s[0], s[1], s[2]) })
	case *image.NRGBA:
		each(b, m.PixOffset, 4, func(x, y, at int) { s := m.Pix[at : at+4]; c.blend(x, y, s[0], s[1], s[2], s[3]) })
	case *image.RGBA64:
		each(b, m.PixOffset, 8, func(x, y, at int) { s := m.Pix[at : at+5]; c.set(x, y, s[0], s[2], s[4]) })
	case *image.NRGBA64:
		each(b, m.PixOffset, 8, func(x, y, at int) { s := m.Pix[at : at+8]; c.blend(x, y, s[0], s[2], s[4], s[6]) })
	case *image.Paletted:
		var colours [256][3]byte // what a palette lacks is black
		for i, e := range m.Palette[:min(256, len(m.Palette))] {
			v := color.NRGBAModel.Convert(e).(color.NRGBA)
			colours[i] = [3]byte{onWhite(v.R, v.A), onWhite(v.G, v.A), onWhite(v.B, v.A)}
		}
		each(b, m.PixOffset, 1, func(x, y, at int) { v := &colours[m.Pix[at]]; c.set(x, y, v[0], v[1], v[2]) })
	default:
		return fmt.Errorf("vision: %w: a %s of kind %T", ErrUnsupported, h.Format, img)
	}
	return nil
}

// takeOver makes p of a picture whose pixels have four channels, in the memory that they have, and
// reports whether img is one: three bytes of each are written where its own, or those before it,
// were read.
func (p *Picture) takeOver(img image.Image) bool {
	n := p.Width * p.Height
	var pix []byte
	var stride, step int
	var alpha bool
	switch m := img.(type) {
	case *image.RGBA:
		pix, stride, step = m.Pix, m.Stride, 1
	case *image.NRGBA:
		pix, stride, step, alpha = m.Pix, m.Stride, 1, true
	case *image.RGBA64:
		pix, stride, step = m.Pix, m.Stride, 2
	case *image.NRGBA64:
		pix, stride, step, alpha = m.Pix, m.Stride, 2, true
	default:
		return false
	}
	if stride != 4*step*p.Width || len(pix) < stride*p.Height {
		return false
	}
	for i := range n {
		s, d := pix[4*step*i:4*step*(i+1)], pix[perPixel*i:perPixel*(i+1)]
		r, g, b, a := s[0], s[step], s[2*step], s[3*step]
		if alpha && a != 255 {
			r, g, b = onWhite(r, a), onWhite(g, a), onWhite(b, a)
		}
		d[0], d[1], d[2] = r, g, b
	}
	p.Pix = pix[: perPixel*n : perPixel*n]
	return true
}

// each calls f with every pixel of b and its place in the decoder's buffer.
func each(b image.Rectangle, offset func(x, y int) int, step int, f func(x, y, at int)) {
	for y := b.Min.Y; y < b.Max.Y; y++ {
		at := offset(b.Min.X, y)
		for x := b.Min.X; x < b.Max.X; x++ {
			f(x, y, at)
			at += step
		}
	}
}
