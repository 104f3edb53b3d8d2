package vision

// Fill gives the picture's middle at another size: what lies beside a part with that ratio of the
// sides is left out, half on each side. A picture that has the size already is given itself. It
// panics where Resize does.
func (p *Picture) Fill(width, height int) *Picture {
	w, h := p.Width, p.Height
	if w*height > h*width {
		w = max(1, (2*h*width+height)/(2*height))
	} else {
		h = max(1, (2*w*height+width)/(2*width))
	}
	w, h = min(w, p.Width), min(h, p.Height)
	if w == p.Width && h == p.Height {
		return p.Resize(width, height)
	}
	part := &Picture{w, h, make([]byte, 0, w*h*perPixel)}
	left, top := (p.Width-w)/2, (p.Height-h)/2
	for y := range h {
		at := ((top+y)*p.Width + left) * perPixel
		part.Pix = append(part.Pix, p.Pix[at:at+w*perPixel]...)
	}
	return part.Resize(width, height)
}
