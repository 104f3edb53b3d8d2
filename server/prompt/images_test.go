package prompt

import (
	"bytes"
	"image"
	"image/color"
	"image/gif"
	"image/jpeg"
	"image/png"
	"testing"

	"github.com/axle-llm/axle/internal/fuzzguard"
)

// Each format's header tells its size.
func TestImageSize(t *testing.T) {
	for name, b := range pictures(t) {
		if w, h := imageSize(b); w != 7 || h != 5 {
			t.Errorf("%s: %d×%d", name, w, h)
		}
		for n := range b { // cut off anywhere
			imageSize(b[:n])
		}
	}
	if w, h := imageSize([]byte("RIFF\x16\x00\x00\x00WEBPVP8X\x0a\x00\x00\x00\x10\x00\x00\x00\xff\xff\xff\xff\xff\xff")); w != 1<<24 ||
		h != 1<<24 {
		t.Errorf("the largest: %d×%d", w, h)
	}
}

// pictures are images of 7×5 in each format: three whole ones, and WebP's three kinds of header.
func pictures(t testing.TB) map[string][]byte {
	img := image.NewPaletted(image.Rect(0, 0, 7, 5), color.Palette{color.Black, color.White})
	out := map[string][]byte{}
	for name, encode := range map[string]func(*bytes.Buffer) error{
		"gif":  func(b *bytes.Buffer) error { return gif.Encode(b, img, nil) },
		"jpeg": func(b *bytes.Buffer) error { return jpeg.Encode(b, img, nil) },
		"png":  func(b *bytes.Buffer) error { return png.Encode(b, img) },
	} {
		var b bytes.Buffer
		if err := encode(&b); err != nil {
			t.Fatal(err)
		}
		out[name] = b.Bytes()
	}
	out["lossy"] = []byte("RIFF\x16\x00\x00\x00WEBPVP8 \x0a\x00\x00\x00\x10\x02\x00\x9d\x01\x2a\x07\x00\x05\x00")
	out["lossless"] = []byte("RIFF\x16\x00\x00\x00WEBPVP8L\x0a\x00\x00\x00\x2f\x06\x00\x01\x00\x00\x00\x00\x00\x00")
	out["extended"] = []byte("RIFF\x16\x00\x00\x00WEBPVP8X\x0a\x00\x00\x00\x10\x00\x00\x00\x06\x00\x00\x04\x00\x00")
	return out
}

// No bytes make the reader of images' sizes panic or take long, and no size is out of what a header
// can say.
func FuzzImageSize(f *testing.F) {
	for _, b := range pictures(f) {
		f.Add(b)
		f.Add(b[:len(b)/2])
	}
	f.Add([]byte("GIF89a\x88\x13\x88\x13\x00\x00\x00;"))
	f.Add([]byte("\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR\x7f\xff\xff\xff\x7f\xff\xff\xff\x08\x06\x00\x00\x00\x00\x00\x00\x00"))
	f.Add([]byte("\xff\xd8\xff\xe0\xff\xff"))
	f.Fuzz(func(t *testing.T, b []byte) {
		var w, h int
		fuzzguard.Check(t, len(b), func() { w, h = imageSize(b) })
		if w < 0 || h < 0 || w > 1<<31-1 || h > 1<<31-1 {
			t.Errorf("%d×%d", w, h)
		}
	})
}

// A mebibyte of the worst there is stays within the limits (promise G5).
func TestHostilePeakPictures(t *testing.T) {
	//proves:T7
	//proves:G5 a mebibyte of hostile bytes each
	for name, b := range map[string][]byte{"gif": fuzzguard.Fill("GIF89a\x07\x00\x05\x00\x00\x00\x00", "!\xf9\x04\x00\x00\x00\x00\x00", ""),
		"jpeg": fuzzguard.Fill("\xff\xd8", "\xff\xe0\x00\x02", ""),
		"png":  fuzzguard.Fill("\x89PNG\r\n\x1a\n", "\x00\x00\x00\x00tEXt\x00\x00\x00\x00", ""),
		"webp": fuzzguard.Fill("RIFF\x16\x00\x00\x00WEBPVP8X", "\xff", "")} {
		t.Run(name, func(t *testing.T) { fuzzguard.Check(t, len(b), func() { imageSize(b) }) })
	}
}
