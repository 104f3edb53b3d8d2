package vision

import (
	"bytes"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"image"
	"image/color"
	"image/gif"
	"image/jpeg"
	"image/png"
	"os"
	"strings"
	"testing"

	"github.com/axle-llm/axle/internal/fuzzguard"
)

// TestHostilePictures: each is refused with an error of its kind, or answered, in bounded memory
// and time.
func TestHostilePictures(t *testing.T) {
	//proves:G5 a mebibyte of hostile bytes each
	frame := bytes.Index(read(t, "420.jpg"), []byte{0xff, 0xc0})
	scan := bytes.Index(read(t, "progressive.jpg"), []byte{0xff, 0xda})
	last := bytes.LastIndex(read(t, "progressive.jpg"), []byte{0xff, 0xda})
	progressive := read(t, "progressive.jpg")
	scans := append(bytes.Clone(progressive[:scan]), bytes.Repeat(progressive[last:len(progressive)-2], 200)...)
	animated := append([]byte("RIFF\x1e\x00\x00\x00WEBPVP8X\x0a\x00\x00\x00\x02\x00\x00\x00"),
		"\x1f\x00\x00\x1f\x00\x00ANIM\x06\x00\x00\x00\xff\xff\xff\xff\x00\x00"...)
	for _, c := range []struct {
		name string
		data []byte
		want error
		says string
	}{
		{"png of 100 bytes that claims 30,000 × 30,000", pngClaim(30000, 30000, 8, 2, 100), ErrLimit, "16384 a side"},
		{"png of 100 bytes that claims 16,000 × 2,000", pngClaim(16000, 2000, 8, 2, 100), ErrDamaged, "cannot hold"},
		{"png of 10,000 × 10,000", pngClaim(10000, 10000, 8, 2, 100), ErrLimit, "40 megapixels"},
		{"png with a side of 2³²−1", pngClaim(1<<32-1, 1, 8, 2, 100), ErrDamaged, ""},
		{"png without width", pngClaim(0, 5, 8, 2, 100), ErrDamaged, ""},
		{"png of seven bits", pngClaim(5, 5, 7, 2, 100), ErrDamaged, ""},
		{"png cut", read(t, "rgb.png")[:600], ErrDamaged, ""},
		{"png's first bytes", read(t, "rgb.png")[:20], ErrDamaged, ""},
		{"jpeg cut", read(t, "420.jpg")[:700], ErrDamaged, ""},
		{"jpeg cut, progressive", progressive[:len(progressive)*2/3], ErrDamaged, ""},
		{"jpeg's first bytes", read(t, "420.jpg")[:3], ErrDamaged, "no frame"},
		{"jpeg that claims 16,000 × 2,000", alter(read(t, "420.jpg"), frame+5, "\x07\xd0\x3e\x80"), ErrDamaged, "cannot hold"},
		{"jpeg that claims 65,535 × 65,535", alter(read(t, "420.jpg"), frame+5, "\xff\xff\xff\xff"), ErrLimit, ""},
		{"jpeg of 12 bits", alter(read(t, "420.jpg"), frame+4, "\x0c"), ErrUnsupported, "12 bits"},
		{"jpeg, arithmetic", alter(read(t, "420.jpg"), frame+1, "\xc9"), ErrUnsupported, "arithmetic"},
		{"jpeg of 200 scans", scans, ErrLimit, "scans"},
		{"webp, animated", animated, ErrUnsupported, "animated webp"},
		{"webp, a chunk of 4 GiB", alter(read(t, "lossy.webp"), 16, "\xf0\xff\xff\xff"), ErrDamaged, ""},
		{"webp cut", read(t, "lossless.webp")[:300], ErrDamaged, ""},
		{"webp, empty", []byte("RIFF\x04\x00\x00\x00WEBP"), ErrDamaged, "no picture"},
		{"webp of two sizes", alter(read(t, "lossyalpha.webp"), 24, "\xff\xff\x00"), ErrDamaged, "disagree"},
		{"webp, lossless and too large", alter(read(t, "lossless.webp"), 21, "\xff\xff\xff\x0f"), ErrLimit, ""},
		{"gif cut", read(t, "plain.gif")[:300], ErrDamaged, ""},
		{"gif's first bytes", read(t, "plain.gif")[:8], ErrDamaged, ""},
		{"gif with a frame outside", alter(read(t, "plain.gif"), 6, "\x05\x00\x05\x00"), ErrDamaged, ""},
		{"gif of 65,535 × 65,535", alter(read(t, "plain.gif"), 6, "\xff\xff\xff\xff"), ErrLimit, ""},
		{"gif of few bytes that claims 5,000 × 5,000", gifClaim(5000, 5000), ErrDamaged, "cannot hold"},
		{"webp of few bytes that claims 6,000 × 6,000", alter(read(t, "lossy.webp"), bytes.Index(read(t, "lossy.webp"),
			[]byte{0x9d, 0x01, 0x2a})+3, "\x70\x17\x70\x17"), ErrDamaged, "cannot hold"},
		{"bmp cut", read(t, "rgb.bmp")[:900], ErrDamaged, "cannot hold"},
		{"bmp, compressed", alter(read(t, "grey.bmp"), 30, "\x01"), ErrUnsupported, "compressed"},
		{"bmp of OS/2", alter(read(t, "rgb.bmp"), 14, "\x0c\x00"), ErrUnsupported, "12 bytes"},
		{"bmp of negative width", alter(read(t, "rgb.bmp"), 18, "\xff\xff\xff\xff"), ErrDamaged, ""},
		{"bmp of the lowest height", alter(read(t, "rgb.bmp"), 22, "\x00\x00\x00\x80"), ErrLimit, ""},
		{"heic", []byte("\x00\x00\x00\x18ftypheic\x00\x00\x00\x00mif1heic"), ErrFormat, "heic"},
		{"avif", []byte("\x00\x00\x00\x18ftypavif"), ErrFormat, "avif"},
		{"tiff", []byte("II*\x00\x08\x00\x00\x00"), ErrFormat, "tiff"},
		{"text", []byte("not a picture"), ErrFormat, "png, jpeg"},
		{"nothing", nil, ErrFormat, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			var err error
			var p *Picture
			fuzzguard.Check(t, len(c.data), func() { p, err = Decode(c.data, Limits{}) })
			if !errors.Is(err, c.want) || p != nil || !strings.HasPrefix(err.Error(), "vision: ") ||
				!strings.Contains(err.Error(), c.says) {
				t.Errorf("%v, %v; want %v, %q", p != nil, err, c.want, c.says)
			}
		})
	}
}

func read(t testing.TB, name string) []byte {
	t.Helper()
	b, err := os.ReadFile("testdata/pictures/" + name)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// pngClaim is a png of n bytes that claims a size.
func pngClaim(w, h uint32, depth, kind byte, n int) []byte {
	chunk := func(b []byte, name string, body []byte) []byte {
		b = binary.BigEndian.AppendUint32(b, uint32(len(body)))
		sum := crc32.ChecksumIEEE(append([]byte(name), body...))
		return binary.BigEndian.AppendUint32(append(append(b, name...), body...), sum)
	}
	head := binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint32(nil, w), h)
	b := chunk([]byte("\x89PNG\r\n\x1a\n"), "IHDR", append(head, depth, kind, 0, 0, 0))
	return chunk(b, "IDAT", append([]byte{0x78, 0x9c}, make([]byte, max(0, n-len(b)-14))...))
}

// gifClaim is a gif's beginning whose frame claims a size.
func gifClaim(w, h uint16) []byte {
	size := binary.LittleEndian.AppendUint16(binary.LittleEndian.AppendUint16(nil, w), h)
	b := append([]byte("GIF89a"), size...)
	b = append(b, 0x80, 0, 0, 0, 0, 0, 255, 255, 255)                // two colours
	b = append(b, 0x21, 0xfe, 3, 'a', 'b', 'c', 0, 0x2c, 0, 0, 0, 0) // a comment, and where the frame lies
	return append(append(b, size...), 0, 2, 0, 0x3b)
}

// flatWebP is a lossless webp of one colour: its pixels take no bits.
func flatWebP(w, h uint32) []byte {
	var bits []byte
	n := 0
	put := func(v uint32, count int) {
		for i := range count {
			if n%8 == 0 {
				bits = append(bits, 0)
			}
			bits[n/8] |= byte(v>>i&1) << (n % 8)
			n++
		}
	}
	put(w-1, 14)
	put(h-1, 14)
	put(0, 1+3+1+1+1) // no alpha, version 0; no transforms, no cache of colours, one group of trees
	for range 4 {     // of one symbol each, of eight bits
		put(1, 1)
		put(0, 1)
		put(1, 1)
		put(200, 8)
	}
	put(1, 1) // distances: one symbol of a bit
	put(0, 3)
	body := append([]byte{0x2f}, bits...)
	if len(body)%2 == 1 {
		body = append(body, 0)
	}
	b := append([]byte("RIFF\x00\x00\x00\x00WEBPVP8L"), binary.LittleEndian.AppendUint32(nil, uint32(len(body)))...)
	b = append(b, body...)
	binary.LittleEndian.PutUint32(b[4:], uint32(len(b)-8))
	return b
}

// TestSmallFiles: a picture of few bytes is read where its format can say so much with them, and
// what it will cost is told before: by its pixels, not its bytes. One of the most pixels that there
// may be fits the part of the memory that decoding has.
func TestSmallFiles(t *testing.T) {
	//proves:T7 what a few bytes claim
	h, err := Look(flatWebP(8000, 5000), Limits{Memory: 352 << 20})
	if err != nil || h.Work < 40_000_000 {
		t.Errorf("%d of work, %v", h.Work, err)
	}
	data := flatWebP(400, 300)
	p, err := Decode(data, Limits{})
	if err != nil || len(data) > 44 || len(p.Pix) != 400*300*3 || p.Pix[0] == 255 ||
		bytes.Count(p.Pix, p.Pix[:1]) != len(p.Pix) {
		t.Errorf("%d bytes: %v", len(data), err)
	}
	frame := gifClaim(200, 100)
	if h, err := Look(frame, Limits{}); err != nil || h.Width != 200 {
		t.Errorf("a small gif: %v", err)
	}
	scans := read(t, "progressive.jpg")
	plain, err := Look(read(t, "420.jpg"), Limits{})
	many, err2 := Look(scans, Limits{})
	if err != nil || err2 != nil || many.Work*int64(plain.Width*plain.Height) <= plain.Work*int64(many.Width*many.Height) {
		t.Errorf("a progressive jpeg's work is %d, a plain one's %d: %v %v", many.Work, plain.Work, err, err2)
	}
}

// alter gives b with the bytes at at replaced.
func alter(b []byte, at int, with string) []byte {
	b = bytes.Clone(b)
	copy(b[at:], with)
	return b
}

// TestPictureLimits: each limit is kept to the last byte, and what is under it decodes.
func TestPictureLimits(t *testing.T) {
	data := read(t, "420.jpg") // 45 × 31
	h, err := Look(data, Limits{})
	if err != nil {
		t.Fatal(err)
	}
	for _, l := range []Limits{{Side: 44}, {Pixels: 45*31 - 1}, {Bytes: len(data) - 1}, {Memory: h.Memory - 1}} {
		if _, err := Look(data, l); !errors.Is(err, ErrLimit) {
			t.Errorf("%+v: %v", l, err)
		}
		if _, err := Decode(data, l); !errors.Is(err, ErrLimit) {
			t.Errorf("%+v: %v", l, err)
		}
	}
	if _, err := Decode(data, Limits{45, 45 * 31, len(data), h.Memory}); err != nil {
		t.Error(err)
	}
	// A strip is a picture like others.
	var b bytes.Buffer
	strip := image.NewGray(image.Rect(0, 0, 1, 10000))
	if err := png.Encode(&b, strip); err != nil {
		t.Fatal(err)
	}
	p, err := Decode(b.Bytes(), Limits{})
	if err != nil || p.Width != 1 || p.Height != 10000 {
		t.Fatal(p, err)
	}
	if p := p.Resize(448, 448); len(p.Pix) != 448*448*3 {
		t.Error("a strip was not resized")
	}
}

// TestPictureMemory: decoding takes no more than its header says it will.
func TestPictureMemory(t *testing.T) {
	//proves:T7
	const w, h = 1200, 900
	colours := image.NewNRGBA(image.Rect(0, 0, w, h))
	deep := image.NewNRGBA64(colours.Rect)
	few := image.NewPaletted(colours.Rect, color.Palette{color.Black, color.White})
	for i := range colours.Pix {
		colours.Pix[i] = byte(i * i >> 7)
	}
	copy(deep.Pix, colours.Pix)
	var files [4]bytes.Buffer
	for i, err := range []error{png.Encode(&files[0], colours), png.Encode(&files[1], deep), gif.Encode(&files[2], few, nil),
		jpeg.Encode(&files[3], colours, nil)} {
		if err != nil {
			t.Fatal(i, err)
		}
	}
	for i := range files {
		data := files[i].Bytes()
		head, err := Look(data, Limits{})
		if err != nil {
			t.Fatal(err)
		}
		most := fuzzguard.Peak(func() { _, err = Decode(data, Limits{}) })
		if err != nil || most > uint64(head.Memory)+2<<20 {
			t.Errorf("%s: %d KiB, its header says %d: %v", head.Format, most>>10, head.Memory>>10, err)
		}
		if head.Memory > 40<<20 {
			t.Errorf("%s: %d MiB for a megapixel", head.Format, head.Memory>>20)
		}
	}
}

// TestOrientations: what EXIF says is believed in either byte order, and nonsense is upright.
func TestOrientations(t *testing.T) {
	little := "Exif\x00\x00II*\x00\x08\x00\x00\x00\x01\x00\x12\x01\x03\x00\x01\x00\x00\x00\x06\x00\x00\x00\x00\x00\x00\x00"
	big := "MM\x00*\x00\x00\x00\x08\x00\x02\x01\x0f\x00\x02\x00\x00\x00\x01\x00\x00\x00\x00" +
		"\x01\x12\x00\x03\x00\x00\x00\x01\x00\x08\x00\x00\x00\x00\x00\x00"
	long := strings.Replace(little, "\x03\x00\x01", "\x04\x00\x01", 1)
	for _, c := range []struct {
		in   string
		want int
	}{
		{little, 6}, {big, 8}, {long, 6}, {"", 1}, {"II*\x00\xff\xff\xff\xff", 1}, {little[:20], 1},
		{strings.Replace(little, "\x06", "\x09", 1), 1},
		{strings.Replace(little, "\x06", "\x00", 1), 1}, {"XX*\x00\x08\x00\x00\x00\x00\x00", 1}, {little[:26], 1},
	} {
		if got := orientation([]byte(c.in)); got != c.want {
			t.Errorf("%q: %d, want %d", c.in, got, c.want)
		}
	}
}

// TestAfterTheEnd: what follows a jpeg's end, as phones put films and second pictures there,
// changes nothing.
func TestAfterTheEnd(t *testing.T) {
	data := read(t, "turned6.jpg")
	want, err := Decode(data, Limits{})
	if err != nil {
		t.Fatal(err)
	}
	got, err := Decode(append(bytes.Clone(data), bytes.Repeat([]byte("\xff\xda\x00\x02\xff\xd8"), 500)...), Limits{})
	if err != nil || !bytes.Equal(got.Pix, want.Pix) {
		t.Error(err)
	}
}

// FuzzPicture: no bytes take more memory than the limit, or a second, and what is decoded is whole.
func FuzzPicture(f *testing.F) {
	//proves:T7
	for _, seed := range fuzzguard.Seeds(f, 64<<10, "testdata/pictures/*") {
		f.Add(seed)
	}
	f.Add(pngClaim(16000, 2000, 8, 2, 100))
	limits := Limits{Memory: 24 << 20, Bytes: 1 << 20}
	f.Fuzz(func(t *testing.T, data []byte) {
		var p *Picture
		var err error
		fuzzguard.Check(t, len(data), func() { p, err = Decode(data, limits) })
		h, looked := Look(data, limits)
		if err != nil {
			for _, kind := range []error{ErrFormat, ErrLimit, ErrUnsupported, ErrDamaged} {
				if errors.Is(err, kind) {
					return
				}
			}
			t.Fatalf("an error of no kind: %v", err)
		}
		if looked != nil || p.Width != h.Width || p.Height != h.Height || len(p.Pix) != p.Width*p.Height*3 {
			t.Fatalf("%d×%d with %d bytes, header %+v: %v", p.Width, p.Height, len(p.Pix), h, looked)
		}
	})
}

// FuzzLayout: no shape and no file name panics, and what is accepted has the tensor's size.
func FuzzLayout(f *testing.F) {
	//proves:T7
	f.Add(1, 576, 512, 3, 0, 4, 144, "x.axmodel", true)
	f.Add(1, 2268, 3, 14, 14, 5, 0, "vit_576x768.axmodel", false)
	f.Add(630, 768, 0, 0, 0, 2, 0, "h336_w480", false)
	f.Fuzz(func(t *testing.T, a, b, c, d, e, rank, rows int, name string, bytes bool) {
		shape := []int{a, b, c, d, e}[:min(5, max(0, rank))]
		typ := F32
		size := 4
		if bytes {
			typ, size = U8, 1
		}
		var l Layout
		var err error
		fuzzguard.Check(t, len(name), func() { l, err = ReadLayout(shape, typ, Hints{Rows: rows, File: name}) })
		for _, n := range shape {
			size *= n
		}
		if err == nil && l.Bytes() != size {
			t.Fatalf("%v %v: %+v has %d bytes, not %d", shape, typ, l, l.Bytes(), size)
		}
	})
}
