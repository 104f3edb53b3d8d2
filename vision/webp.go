package vision

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"image"
	"io"

	"golang.org/x/image/vp8"
	"golang.org/x/image/vp8l"
)

// webpFile are the parts of a webp file. The container is read here and not by x/image/webp, which
// believes the lengths that chunks claim (and allocates them), and tells an animation from a
// damaged file as little as it reads EXIF.
type webpFile struct {
	lossy, lossless, alpha []byte
}

// leastBlock is how many bits a block of 16 × 16 pixels of a lossy picture takes at least: how it
// is predicted is told with fixed probabilities. The likeliest take 2.5 bits for its brightness and
// 0.8 for its colours.
const leastBlock = 3

func lookWebP(data []byte, h *Header) error {
	h.Format = "webp"
	f := &webpFile{}
	h.webp = f
	extended, wide, high := false, 0, 0 // what the extended header says
	for at := 12; at+8 <= len(data); {
		n := int64(binary.LittleEndian.Uint32(data[at+4:]))
		body := data[at+8:]
		if n > int64(len(body)) {
			return damaged("webp", fmt.Errorf("a chunk of %d bytes, and %d are there", n, len(body)))
		}
		body = body[:n]
		switch string(data[at : at+4]) {
		case "VP8X":
			if n < 10 {
				return damaged("webp", errors.New("its extended header is short"))
			}
			if body[0]&2 != 0 {
				return fmt.Errorf("vision: %w: an animated webp; save one frame of it as png or jpeg", ErrUnsupported)
			}
			extended = true
			wide = 1 + (int(body[4]) | int(body[5])<<8 | int(body[6])<<16)
			high = 1 + (int(body[7]) | int(body[8])<<8 | int(body[9])<<16)
		case "ALPH":
			f.alpha = body
		case "VP8 ":
			f.lossy = body
		case "VP8L":
			f.lossless = body
		case "EXIF":
			h.Orientation = orientation(body)
		}
		at += 8 + int(n+n&1)
	}
	// Groups of Huffman trees: x/image/vp8l takes at most 2,600, or one a tile of 4 × 4 pixels. One
	// takes 52 KiB where every tree is full, and two bytes of the file at least.
	trees := func() int64 {
		return min(2600, int64(len(data))/2, int64(h.Width+3)/4*(int64(h.Height+3)/4)) * (52 << 10)
	}
	// Of a pixel: four channels, which trees it is read with; and with transforms four channels
	// more where a palette is unfolded.
	const plainly, unpacked = 4 + 1, 4 + 4 + 1
	switch {
	case f.lossless != nil:
		b := f.lossless
		if len(b) < 5 || b[0] != 0x2f {
			return damaged("webp", errors.New("its lossless header is wrong"))
		}
		v := binary.LittleEndian.Uint32(b[1:])
		h.Width, h.Height = int(v&0x3fff)+1, int(v>>14&0x3fff)+1
		each := int64(unpacked)
		if len(b) > 5 && b[5]&1 == 0 { // no transform
			each = plainly
		}
		if h.Orientation != 1 {
			each += perPixel
		}
		h.Memory = area(h)*each + trees() + small
	case f.lossy != nil:
		b := f.lossy
		if len(b) < 10 || b[0]&1 != 0 || b[3] != 0x9d || b[4] != 0x01 || b[5] != 0x2a {
			return damaged("webp", errors.New("its lossy header is wrong"))
		}
		h.Width, h.Height = int(binary.LittleEndian.Uint16(b[6:])&0x3fff), int(binary.LittleEndian.Uint16(b[8:])&0x3fff)
		padded := int64(h.Width+15) / 16 * (int64(h.Height+15) / 16) * 256
		h.Memory = padded*2 + area(h)*perPixel + int64(len(b)) + small
		h.least = padded / 256 * leastBlock / 8
		if f.alpha != nil {
			h.Memory += area(h)*(unpacked+1) + trees()
		}
	default:
		return damaged("webp", errors.New("it holds no picture"))
	}
	if extended && (wide != h.Width || high != h.Height) {
		return damaged("webp", fmt.Errorf("its headers disagree: %d×%d and %d×%d pixels", wide, high, h.Width, h.Height))
	}
	return nil
}

func (f *webpFile) decode(p *Picture, h *Header) error {
	if f.lossless != nil {
		img, err := vp8l.Decode(bytes.NewReader(f.lossless))
		if err != nil {
			return damaged("webp", err)
		}
		return paint(p, h, img)
	}
	w, hh := h.stored()
	var alpha []byte
	if f.alpha != nil {
		var err error
		if alpha, err = readAlpha(f.alpha, w, hh); err != nil {
			return damaged("webp", err)
		}
	}
	d := vp8.NewDecoder()
	d.Init(bytes.NewReader(f.lossy), len(f.lossy))
	if _, err := d.DecodeFrameHeader(); err != nil {
		return damaged("webp", err)
	}
	m, err := d.DecodeFrame()
	if err != nil {
		return damaged("webp", err)
	}
	if m.Rect.Dx() < w || m.Rect.Dy() < hh || m.SubsampleRatio != image.YCbCrSubsampleRatio420 {
		return damaged("webp", errors.New("its frame has another size than its header"))
	}
	paintVP8(p, h, m, alpha)
	return nil
}

// readAlpha reads the alpha plane of a lossy picture.
func readAlpha(b []byte, w, h int) ([]byte, error) {
	if len(b) < 1 {
		return nil, io.ErrUnexpectedEOF
	}
	how, b := b[0], b[1:]
	alpha := make([]byte, w*h)
	switch how & 3 {
	case 0:
		if copy(alpha, b) < len(alpha) {
			return nil, io.ErrUnexpectedEOF
		}
	case 1: // the green of a lossless picture that has no header
		size := uint32(w-1) | uint32(h-1)<<14
		head := []byte{0x2f, byte(size), byte(size >> 8), byte(size >> 16), byte(size >> 24)}
		img, err := vp8l.Decode(io.MultiReader(bytes.NewReader(head), bytes.NewReader(b)))
		if err != nil {
			return nil, err
		}
		pix := img.(*image.NRGBA).Pix
		for i := range alpha {
			alpha[i] = pix[4*i+1]
		}
	default:
		return nil, fmt.Errorf("alpha is packed in way %d", how&3)
	}
	unfilter(alpha, w, how>>2&3)
	return alpha, nil
}

// unfilter adds to each value of a what its neighbours foretold: 1 the left one, 2 the upper one, 3
// left + upper − upper left, clipped. In the first row that is the left one, in the first column
// the upper one, whatever the way.
func unfilter(a []byte, w int, way byte) {
	if way == 0 {
		return
	}
	for i := 1; i < len(a); i++ {
		x := i % w
		switch {
		case i < w || way == 1 && x > 0:
			a[i] += a[i-1]
		case x == 0 || way == 2:
			a[i] += a[i-w]
		default:
			a[i] += byte(min(255, max(0, int(a[i-1])+int(a[i-w])-int(a[i-w-1]))))
		}
	}
}

// paintVP8 makes p of a lossy frame: chroma upsampled and converted with libwebp's arithmetic.
func paintVP8(p *Picture, h *Header, m *image.YCbCr, alpha []byte) {
	c := newCanvas(p, h)
	w, hh := h.stored()
	cw, ch := (w+1)/2, (hh+1)/2
	us, vs := make([]byte, w), make([]byte, w)
	for y := range hh {
		far := y/2 - 1 + y%2*2
		far = min(max(far, 0), ch-1)
		near := y / 2 * m.CStride
		far *= m.CStride
		webpRow(us, m.Cb[near:near+cw], m.Cb[far:far+cw])
		webpRow(vs, m.Cr[near:near+cw], m.Cr[far:far+cw])
		ys := m.Y[y*m.YStride:]
		for x := range w {
			l, u, v := int32(ys[x])*19077>>8, int32(us[x]), int32(vs[x])
			r, g, b := clip6(l+v*26149>>8-14234), clip6(l-u*6419>>8-v*13320>>8+8708), clip6(l+u*33050>>8-17685)
			if alpha == nil {
				c.set(x, y, r, g, b)
			} else {
				c.blend(x, y, r, g, b, alpha[y*w+x])
			}
		}
	}
}

// webpRow doubles a row of chroma; far is the second nearest row. The weights are 9, 3, 3 and 1,
// rounded as libwebp's diagonals do.
func webpRow(dst, near, far []byte) {
	end := func(i int) byte { return byte((3*int(near[i]) + int(far[i]) + 2) >> 2) }
	dst[0] = end(0)
	for i := 1; i < len(near); i++ {
		nl, nr, fl, fr := int(near[i-1]), int(near[i]), int(far[i-1]), int(far[i])
		sum := nl + nr + fl + fr + 8
		dst[2*i-1] = byte(((sum+2*(nr+fl))>>3 + nl) >> 1)
		if 2*i < len(dst) {
			dst[2*i] = byte(((sum+2*(nl+fr))>>3 + nr) >> 1)
		}
	}
	if len(dst)%2 == 0 {
		dst[len(dst)-1] = end(len(near) - 1)
	}
}

// clip6 makes a byte of a value with six binary places.
func clip6(v int32) byte {
	return byte(min(255, max(0, v>>6)))
}
