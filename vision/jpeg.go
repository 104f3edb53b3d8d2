package vision

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"image"
	"image/jpeg"
	"io"
	"runtime"
)

// maxScans bounds the scans of a jpeg. Encoders make about ten; each may visit every block for a
// few bytes, so that a small file could keep a processor for years.
const maxScans = 100

// collectFrom is from how many bytes of coefficients on they are collected before pixels are made.
const collectFrom = 16 << 20

// jpegFile is a jpeg cut so that image/jpeg gives the planes as they are stored: it would convert
// RGB, CMYK and YCCK itself, with the nearest sample of chroma, and libjpeg does not.
type jpegFile struct {
	parts      [][]byte // what image/jpeg reads
	components int
	adobe      int // the transform of Adobe's segment, -1 where there is none
	jfif       bool
	ids        [4]byte
	coeffs     int64 // bytes of all coefficients, which a progressive one keeps until its last scan
	halved     bool  // of four components, the second and third have half the samples across and down
}

var (
	jfifSegment  = []byte("\xff\xe0\x00\x10JFIF\x00\x01\x01\x00\x00\x01\x00\x01\x00\x00")
	adobeSegment = []byte("\xff\xee\x00\x0eAdobe\x00\x64\x00\x00\x00\x00\x00") // transform 0: as it is stored
)

// lookJPEG walks the segments as image/jpeg does. What follows the first end of an image is another
// picture, and is cut off.
func lookJPEG(data []byte, h *Header) error {
	h.Format = "jpeg"
	f := &jpegFile{adobe: -1}
	h.jpeg = f
	f.parts = [][]byte{data[:2], jfifSegment}
	from, first := 2, 0 // what was not given to parts yet; where the first scan begins
	at := 2
	for at+4 <= len(data) {
		if data[at] != 0xff {
			at++
			continue
		}
		marker := data[at+1]
		switch {
		case marker == 0:
			at += 2
			continue
		case marker == 0xff:
			at++
			continue
		case marker == 0xd9, marker >= 0xd0 && marker <= 0xd7:
			at += 2
			if marker == 0xd9 {
				data = data[:at]
			}
			continue
		}
		n := int(binary.BigEndian.Uint16(data[at+2:]))
		if n < 2 || at+2+n > len(data) {
			break
		}
		body := data[at+4 : at+2+n]
		var err error
		switch {
		case marker == 0xda && first == 0:
			first = at
		case first != 0: // the rest is image/jpeg's
		case marker == 0xee && len(body) >= 12 && string(body[:5]) == "Adobe":
			f.adobe = int(body[11])
			f.parts = append(f.parts, data[from:at])
			from = at + 2 + n
		default:
			err = f.segment(marker, body, h)
		}
		if err != nil {
			return err
		}
		at += 2 + n
	}
	return f.close(data, from, first, h)
}

// segment reads what a segment before the first scan says.
func (f *jpegFile) segment(marker byte, body []byte, h *Header) error {
	switch {
	case marker == 0xc0 || marker == 0xc1 || marker == 0xc2:
		return f.frame(body, marker == 0xc2, h)
	case marker > 0xc2 && marker < 0xd0 && marker != 0xc4 && marker != 0xc8 && marker != 0xcc:
		return fmt.Errorf("vision: %w: a jpeg with lossless or arithmetic coding; save it as a plain jpeg or png", ErrUnsupported)
	case marker == 0xe0 && len(body) >= 5 && string(body[:5]) == "JFIF\x00":
		f.jfif = true
	case marker == 0xe1 && len(body) > 6 && string(body[:6]) == "Exif\x00\x00" && h.Orientation == 1:
		h.Orientation = orientation(body)
	}
	return nil
}

// close checks what was found, adds what of data is not in parts yet, and counts the work of its
// scans.
func (f *jpegFile) close(data []byte, from, first int, h *Header) error {
	if f.components == 0 {
		return damaged("jpeg", errors.New("it has no frame"))
	}
	if first == 0 {
		return damaged("jpeg", errors.New("it has no scan"))
	}
	if f.components == 4 {
		f.parts = append(f.parts, adobeSegment) // before the rest, which begins with a marker
	}
	f.parts = append(f.parts, data[from:])
	scans := bytes.Count(data[first:], []byte{0xff, 0xda})
	if f.coeffs > 0 {
		h.Work += area(h) / 4 * int64(scans) // each may visit every block
	}
	//rule:T7 TestHostilePictures false
	if scans > maxScans {
		return fmt.Errorf("vision: %w: a jpeg of more than %d scans; save it again", ErrLimit, maxScans)
	}
	return nil
}

// frame reads a frame's header.
func (f *jpegFile) frame(b []byte, progressive bool, h *Header) error {
	if f.components != 0 {
		return damaged("jpeg", errors.New("it has two frames"))
	}
	if len(b) < 6 || len(b) != 6+3*int(b[5]) {
		return damaged("jpeg", errors.New("its frame's header has a wrong length"))
	}
	if b[0] != 8 {
		return fmt.Errorf("vision: %w: a jpeg of %d bits; save it with 8", ErrUnsupported, b[0])
	}
	f.components = int(b[5])
	if f.components != 1 && f.components != 3 && f.components != 4 {
		return fmt.Errorf("vision: %w: a jpeg of %d components", ErrUnsupported, f.components)
	}
	h.Height, h.Width = int(binary.BigEndian.Uint16(b[1:])), int(binary.BigEndian.Uint16(b[3:]))
	var across, down int64 = 1, 1
	var units int64
	for i := range f.components {
		f.ids[i] = b[6+3*i]
		s := b[7+3*i]
		if f.components == 1 {
			s = 0x11
		}
		across, down = max(across, int64(s>>4)), max(down, int64(s&15))
		units += int64(s>>4) * int64(s&15)
	}
	f.halved = f.components == 4 && b[7] == 0x22
	mcus := (int64(h.Width) + 8*across - 1) / (8 * across) * ((int64(h.Height) + 8*down - 1) / (8 * down))
	planes := 64 * units * mcus
	if progressive {
		f.coeffs = 4 * planes
	}
	h.Memory = planes + max(area(h)*perPixel, f.coeffs) + min(f.coeffs, collectFrom) + small // they go before the pixels come
	if f.components == 4 {
		h.Memory += 4 * area(h) // interleaved
	}
	h.least = area(h) / 64 / 8 // a block of brightness takes a bit
	return nil
}

func (f *jpegFile) decode(p *Picture, h *Header) error {
	readers := make([]io.Reader, len(f.parts))
	for i, part := range f.parts {
		readers[i] = bytes.NewReader(part)
	}
	img, err := jpeg.Decode(io.MultiReader(readers...))
	if err != nil {
		var odd jpeg.UnsupportedError
		if errors.As(err, &odd) {
			return fmt.Errorf("vision: %w: jpeg: %w; save it as a plain jpeg or png", ErrUnsupported, err)
		}
		return damaged("jpeg", err)
	}
	if f.coeffs >= collectFrom {
		runtime.GC()
	}
	w, hh := h.stored()
	if img.Bounds() != image.Rect(0, 0, w, hh) {
		return damaged("jpeg", errors.New("its frame has another size than its header"))
	}
	switch m := img.(type) {
	case *image.Gray:
		return paint(p, h, m)
	case *image.YCbCr:
		f.paint3(p, h, m)
		return nil
	case *image.CMYK:
		f.paint4(p, h, m)
		return nil
	}
	return fmt.Errorf("vision: %w: a jpeg of kind %T", ErrUnsupported, img)
}

// rgb says whether three components are colours as they are: libjpeg's rule.
func (f *jpegFile) rgb() bool {
	return !f.jfif && (f.adobe == 0 || f.adobe < 0 && string(f.ids[:3]) == "RGB")
}

func (f *jpegFile) paint3(p *Picture, h *Header, m *image.YCbCr) {
	c := newCanvas(p, h)
	w, hh := h.stored()
	cb, cr := newPlane(m.Cb, m.CStride, w, hh, m.SubsampleRatio), newPlane(m.Cr, m.CStride, w, hh, m.SubsampleRatio)
	us, vs := make([]byte, w), make([]byte, w)
	rgb := f.rgb()
	for y := range hh {
		ys := m.Y[y*m.YStride:]
		cb.row(us, y)
		cr.row(vs, y)
		for x := range w {
			if rgb {
				c.set(x, y, ys[x], us[x], vs[x])
			} else {
				r, g, b := fromYCC(ys[x], us[x], vs[x])
				c.set(x, y, r, g, b)
			}
		}
	}
}

// paint4 makes p of CMYK or YCCK, whose four channels m has inverted and with subsampled ones
// doubled: every second sample is the stored one. Pillow takes all such files for Adobe's, in which
// 255 is no ink, as m does.
func (f *jpegFile) paint4(p *Picture, h *Header, m *image.CMYK) {
	c := newCanvas(p, h)
	w, hh := h.stored()
	ratio := image.YCbCrSubsampleRatio444
	step := 1
	if f.halved {
		ratio, step = image.YCbCrSubsampleRatio420, 2
	}
	cw, ch := (w+step-1)/step, (hh+step-1)/step
	var planes [2]plane
	for i := range planes {
		s := make([]byte, cw*ch)
		for y := range ch {
			for x := range cw {
				s[y*cw+x] = 255 - m.Pix[y*step*m.Stride+x*step*4+1+i]
			}
		}
		planes[i] = newPlane(s, cw, w, hh, ratio)
	}
	us, vs := make([]byte, w), make([]byte, w)
	ycc := f.adobe > 0
	for y := range hh {
		planes[0].row(us, y)
		planes[1].row(vs, y)
		for x := range w {
			s := m.Pix[y*m.Stride+x*4:]
			cyan, magenta, yellow, free := s[0], 255-us[x], 255-vs[x], 255-s[3]
			if ycc {
				cyan, magenta, yellow = fromYCC(255-s[0], us[x], vs[x])
			}
			c.set(x, y, inked(cyan, free), inked(magenta, free), inked(yellow, free))
		}
	}
}

// inked is Pillow's: what an ink leaves of the light that black lets through.
func inked(ink, free byte) byte {
	t := uint32(ink)*uint32(free) + 128
	return byte(int(free) - int((t>>8+t)>>8))
}

// fromYCC is libjpeg's conversion, in 16 binary places.
func fromYCC(y, cb, cr byte) (r, g, b byte) {
	l, u, v := int32(y), int32(cb)-128, int32(cr)-128
	return clip(l + (91881*v+32768)>>16), clip(l + (-22554*u-46802*v+32768)>>16), clip(l + (116130*u+32768)>>16)
}

func clip(v int32) byte {
	return byte(min(255, max(0, v)))
}

// plane is a channel that may have fewer samples than the picture has pixels.
type plane struct {
	pix          []byte
	stride, w, h int // samples: those of the picture, without the padding of blocks
	across, down int // pixels a sample
	smooth       bool
	sums         []int32
}

func newPlane(pix []byte, stride, w, h int, ratio image.YCbCrSubsampleRatio) plane {
	p := plane{pix: pix, stride: stride, across: 1, down: 1}
	switch ratio {
	case image.YCbCrSubsampleRatio422:
		p.across = 2
	case image.YCbCrSubsampleRatio420:
		p.across, p.down = 2, 2
	case image.YCbCrSubsampleRatio440:
		p.down = 2
	case image.YCbCrSubsampleRatio411:
		p.across = 4
	case image.YCbCrSubsampleRatio410:
		p.across, p.down = 4, 2
	}
	p.w, p.h = (w+p.across-1)/p.across, (h+p.down-1)/p.down
	// libjpeg-turbo smoothes what is halved, and repeats samples where they are fewer, or where a
	// row has too few to be smoothed.
	p.smooth = p.across == 1 || p.across == 2 && p.w > 2
	p.sums = make([]int32, p.w)
	return p
}

// row upsamples the row y of the picture into dst.
func (p *plane) row(dst []byte, y int) {
	near := y / p.down
	s := p.pix[near*p.stride:][:p.w]
	if !p.smooth || p.across == 1 && p.down == 1 {
		for x := range dst {
			dst[x] = s[x/p.across]
		}
		return
	}
	far := min(max(near-1+y%2*2, 0), p.h-1)
	t := p.pix[far*p.stride:][:p.w]
	switch {
	case p.across == 1:
		bias := 1 + int32(y%2)
		for x := range dst {
			dst[x] = byte((3*int32(s[x]) + int32(t[x]) + bias) >> 2)
		}
	case p.down == 1:
		for i, v := range s {
			p.sums[i] = int32(v)
		}
		widen(dst, p.sums, 1, 2, 2)
	default:
		for i, v := range s {
			p.sums[i] = 3*int32(v) + int32(t[i])
		}
		widen(dst, p.sums, 8, 7, 4)
	}
}

// widen writes two pixels a sample: three parts of it and one of the neighbour on that side, which
// at the ends is itself.
func widen(dst []byte, s []int32, left, right int32, shift uint) {
	for i, v := range s {
		before, after := s[max(i-1, 0)], s[min(i+1, len(s)-1)]
		dst[2*i] = byte((3*v + before + left) >> shift)
		if 2*i+1 < len(dst) {
			dst[2*i+1] = byte((3*v + after + right) >> shift)
		}
	}
}
