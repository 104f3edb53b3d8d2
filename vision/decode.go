package vision

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"image"
	"image/gif"
	"image/png"

	"golang.org/x/image/bmp"
)

// What a picture is refused for. Every error of [Look] and [Decode] wraps one of them.
var (
	// what it is instead follows, where it is known
	ErrFormat      = errors.New("no picture that is read here (png, jpeg, gif, webp or bmp)")
	ErrLimit       = errors.New("picture over a limit")
	ErrUnsupported = errors.New("picture of an unsupported kind")
	ErrDamaged     = errors.New("damaged picture")
)

// Picture is a picture as a person sees it: upright, without alpha.
type Picture struct {
	Width, Height int
	Pix           []byte // red, green, blue, a byte each; Width·Height·3 of them, row by row from the top
}

// Limits bound what is decoded. A zero field is the default.
type Limits struct {
	Side   int   // pixels of width, and of height: 16,384
	Pixels int   // width × height: 40 million
	Bytes  int   // of the file: 64 MiB
	Memory int64 // that decoding takes at its height, the pixels of the answer included: 512 MiB
}

func (l Limits) orDefault() Limits {
	return Limits{Side: cmp.Or(l.Side, 16384), Pixels: cmp.Or(l.Pixels, 40_000_000), Bytes: cmp.Or(l.Bytes, 64<<20),
		Memory: cmp.Or(l.Memory, 512<<20)}
}

// Header is what a file says of its picture.
type Header struct {
	Format        string // png, jpeg, gif, webp or bmp
	Width, Height int    // as it is seen: turned upright
	Orientation   int    // EXIF's, 1 to 8; 1 where the file has none
	Memory        int64  // the most that [Decode] will hold at once, in bytes, the pixels of its answer included
	Work          int64  // about how much there is to do to decode it, in pixels that are simply stored
	least         int64  // a file with fewer bytes cannot hold this many pixels
	jpeg          *jpegFile
	webp          *webpFile
}

// stored is the size of the picture as the file has it, before it is turned.
func (h *Header) stored() (w, hh int) {
	if h.Orientation >= 5 {
		return h.Height, h.Width
	}
	return h.Width, h.Height
}

// Look reads the header of a picture and checks it against limits. It allocates nothing of the
// picture's size. Its errors are [Decode]'s. Damage in the pixels is found by Decode alone.
func Look(data []byte, limits Limits) (Header, error) {
	l := limits.orDefault()
	if len(data) > l.Bytes {
		return Header{}, fmt.Errorf("vision: %w: %d bytes, the limit is %d", ErrLimit, len(data), l.Bytes)
	}
	h := Header{Orientation: 1}
	var err error
	switch format := sniff(data); format {
	case "png":
		err = lookPNG(data, &h)
	case "jpeg":
		err = lookJPEG(data, &h)
	case "gif":
		err = lookGIF(data, &h)
	case "webp":
		err = lookWebP(data, &h)
	case "bmp":
		err = lookBMP(data, &h)
	case "":
		return Header{}, fmt.Errorf("vision: %w", ErrFormat)
	default:
		return Header{}, fmt.Errorf("vision: %w: this is %s; save it as jpeg or png", ErrFormat, format)
	}
	if err != nil {
		return Header{}, err
	}
	switch {
	case h.Width < 1 || h.Height < 1:
		return Header{}, fmt.Errorf("vision: %w: a %s of %d×%d pixels", ErrDamaged, h.Format, h.Width, h.Height)
	//rule:T7 TestHostilePictures false
	case h.Width > l.Side || h.Height > l.Side:
		return Header{}, fmt.Errorf("vision: %w: %d×%d pixels, the limit is %d a side: make it smaller", ErrLimit, h.Width, h.Height,
			l.Side)
	case int64(h.Width)*int64(h.Height) > int64(l.Pixels):
		return Header{}, fmt.Errorf("vision: %w: %d×%d pixels, the limit is %.4g megapixels: make it smaller",
			ErrLimit, h.Width, h.Height, float64(l.Pixels)/1e6)
	//rule:T7 TestPictureLimits false
	case h.Memory > l.Memory:
		return Header{}, fmt.Errorf("vision: %w: this %s of %d×%d pixels takes %d MiB to decode, the limit is %d: "+
			"make it smaller, or save it as a plain jpeg", ErrLimit, h.Format, h.Width, h.Height, h.Memory>>20, l.Memory>>20)
	//rule:T7 TestHostilePictures false
	case int64(len(data)) < h.least:
		return Header{}, fmt.Errorf("vision: %w: a %s of %d bytes cannot hold the %d×%d pixels that it claims",
			ErrDamaged, h.Format, len(data), h.Width, h.Height)
	}
	h.Work += area(&h) + int64(len(data))
	if h.Orientation >= 5 {
		h.Width, h.Height = h.Height, h.Width
	}
	return h, nil
}

// Decode reads a picture, upright and on white. It fails with an error that wraps
//
//   - [ErrFormat] where data is no picture of a format that is read,
//   - [ErrLimit] where one of limits is passed, before a pixel is allocated,
//   - [ErrUnsupported] where the format has such a thing and we do not read it,
//   - [ErrDamaged] where bytes are wrong or missing.
func Decode(data []byte, limits Limits) (p *Picture, err error) {
	h, err := Look(data, limits)
	if err != nil {
		return nil, err
	}
	// Some decoders are other people's. What makes one of them panic is a damaged picture, and not
	// the end of a server.
	defer func() {
		if r := recover(); r != nil {
			p, err = nil, fmt.Errorf("vision: %w: %s: its decoder gave up: %v", ErrDamaged, h.Format, r)
		}
	}()
	p = &Picture{Width: h.Width, Height: h.Height}
	var img image.Image
	switch h.Format {
	case "jpeg":
		err = h.jpeg.decode(p, &h)
	case "webp":
		err = h.webp.decode(p, &h)
	case "png":
		img, err = png.Decode(bytes.NewReader(data))
	case "gif":
		img, err = gif.Decode(bytes.NewReader(data))
	case "bmp":
		img, err = bmp.Decode(bytes.NewReader(data))
	}
	if errors.Is(err, bmp.ErrUnsupported) {
		return nil, fmt.Errorf("vision: %w: this kind of bmp; save it as png", ErrUnsupported)
	}
	switch {
	case h.Format == "jpeg" || h.Format == "webp": // they have painted already
	case err != nil:
		err = damaged(h.Format, err)
	default:
		err = paint(p, &h, img)
	}
	if err != nil {
		return nil, err
	}
	return p, nil
}

func damaged(format string, err error) error {
	return fmt.Errorf("vision: %w: %s: %w", ErrDamaged, format, err)
}

// sniff names what data begins like: a format that is read, a sentence's noun for one that is not,
// or "".
func sniff(data []byte) string {
	has := func(at int, s string) bool { return len(data) >= at+len(s) && string(data[at:at+len(s)]) == s }
	switch {
	case has(0, "\x89PNG\r\n\x1a\n"):
		return "png"
	case has(0, "\xff\xd8"):
		return "jpeg"
	case has(0, "GIF87a"), has(0, "GIF89a"):
		return "gif"
	case has(0, "RIFF") && has(8, "WEBP"):
		return "webp"
	case has(0, "BM") && len(data) >= 18 && data[15] == 0 && data[16] == 0 && data[17] == 0: // the length of its second header
		return "bmp"
	case has(4, "ftyp"):
		switch string(data[8:min(12, len(data))]) {
		case "avif", "avis":
			return "an avif file"
		case "heic", "heix", "hevc", "heim", "heis", "hevm", "hevs", "mif1", "msf1":
			return "a heic file"
		}
		return "a video or another file of that family"
	case has(0, "II*\x00"), has(0, "MM\x00*"):
		return "a tiff file"
	case has(0, "\x00\x00\x00\x0cjP  "), has(0, "\xff\x4f\xff\x51"):
		return "a jpeg 2000 file"
	case has(0, "\xff\x0a"), has(0, "\x00\x00\x00\x0cJXL "):
		return "a jpeg xl file"
	case has(0, "%PDF-"):
		return "a pdf file"
	case has(0, "<svg"), has(0, "<?xml"):
		return "an svg or xml file"
	}
	return ""
}
