package vision

import "bytes"

// Fit is where a picture lies in one that [Picture.Letterbox] made of it.
type Fit struct {
	left, top, width, height int // in the larger picture
	ofWidth, ofHeight        int // of the picture itself
}

// Letterbox gives the picture as large as it fits into width × height, its sides' ratio kept, in
// the middle of a picture of that size whose other pixels are grey: 0 is black. A picture that has
// the size already is given itself. It panics where a side is below 1 or above 16,384.
func (p *Picture) Letterbox(width, height int, grey byte) (*Picture, Fit) {
	w, h := width, height
	if p.Width*height > p.Height*width {
		h = max(1, (2*p.Height*width+p.Width)/(2*p.Width))
	} else {
		w = max(1, (2*p.Width*height+p.Height)/(2*p.Height))
	}
	f := Fit{(width - w) / 2, (height - h) / 2, w, h, p.Width, p.Height}
	small := p.Resize(w, h)
	if w == width && h == height {
		return small, f
	}
	all := &Picture{Width: width, Height: height, Pix: bytes.Repeat([]byte{grey}, perPixel*width*height)}
	for y := range h {
		copy(all.Pix[perPixel*((f.top+y)*width+f.left):], small.Pix[perPixel*y*w:perPixel*(y+1)*w])
	}
	return all, f
}

// Back is the point of the picture that a point of the larger one shows. A point beside the picture
// becomes the nearest of its edge.
func (f Fit) Back(x, y float64) (float64, float64) {
	x, y = f.Beyond(x, y)
	return min(max(x, 0), float64(f.ofWidth)), min(max(y, 0), float64(f.ofHeight))
}

// Beyond is [Fit.Back] for points that may lie beside the picture and stay there.
func (f Fit) Beyond(x, y float64) (float64, float64) {
	back := func(v float64, at, size, of int) float64 { return (v - float64(at)) * float64(of) / float64(size) }
	return back(x, f.left, f.width, f.ofWidth), back(y, f.top, f.height, f.ofHeight)
}
