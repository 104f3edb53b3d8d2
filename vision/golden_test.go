package vision

import (
	"bytes"
	"image"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/axle-llm/axle/internal/goldentest"
)

// TestGoldenPictures: every picture has Pillow's pixels, a jpeg's within three levels, the others'
// exactly.
func TestGoldenPictures(t *testing.T) {
	g := goldens(t)
	files, err := filepath.Glob("testdata/pictures/*")
	if err != nil || len(files) < 40 || len(files) != len(g.Pictures) {
		t.Fatalf("%d files, %d goldens: %v", len(files), len(g.Pictures), err)
	}
	turned, ran := map[int]bool{}, 0
	for _, file := range files {
		name := filepath.Base(file)
		t.Run(name, func(t *testing.T) {
			ran++
			data, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			want, ok := g.Pictures[name]
			if !ok {
				t.Fatal("no golden")
			}
			h, err := Look(data, Limits{})
			if err != nil {
				t.Fatal(err)
			}
			p, err := Decode(data, Limits{})
			if err != nil {
				t.Fatal(err)
			}
			if p.Width != want.W || p.Height != want.H || h.Width != want.W || h.Height != want.H {
				t.Fatalf("%d×%d, header %d×%d, want %d×%d", p.Width, p.Height, h.Width, h.Height, want.W, want.H)
			}
			if strings.HasSuffix(name, ".jpg") {
				turned[h.Orientation] = true
			}
			most := 0
			if h.Format == "jpeg" {
				most = 3
			}
			worst, at, unlike := 0, 0, 0
			for i, v := range p.Pix {
				d := max(int(v)-int(want.RGB[i]), int(want.RGB[i])-int(v))
				if d > 0 {
					unlike++
				}
				if d > worst {
					worst, at = d, i
				}
			}
			t.Logf("off by at most %d, %d of %d", worst, unlike, len(p.Pix))
			if worst > most {
				t.Errorf("off by %d at pixel %d, %d, channel %d; %d of %d values are other", worst, at/3%p.Width, at/3/p.Width, at%3,
					unlike, len(p.Pix))
			}
		})
	}
	if ran == len(files) && len(turned) != 8 {
		t.Errorf("of the orientations these were seen: %v", turned)
	}
}

type golden struct {
	W, H int
	RGB  []byte
}

// goldens are what Pillow made: testdata/make.py.
func goldens(t *testing.T) (g struct {
	Pictures map[string]golden
	Sizes    []struct {
		golden
		ToW, ToH int
		Want     []byte
	}
}) {
	t.Helper()
	goldentest.JSON(t, "testdata/goldens.json.gz", &g)
	return g
}

// TestGoldenSizes: resizing gives Pillow's bytes.
func TestGoldenSizes(t *testing.T) {
	for _, s := range goldens(t).Sizes {
		p := &Picture{s.W, s.H, s.RGB}
		if got := p.Resize(s.ToW, s.ToH); !bytes.Equal(got.Pix, s.Want) {
			t.Errorf("%d×%d → %d×%d is not Pillow's", s.W, s.H, s.ToW, s.ToH)
		}
	}
	// The example of the arithmetic.
	p := &Picture{4, 3, []byte{0, 0, 0, 255, 0, 0, 0, 255, 0, 0, 0, 255, 255, 255, 255, 10, 20, 30, 40, 50, 60, 70, 80, 90, 1, 2, 3, 250,
		251, 252, 128, 128, 128, 5, 200, 5}}
	want := []byte{119, 65, 47, 33, 90, 97, 128, 130, 138, 74, 133, 79}
	if got := p.Resize(2, 2); !bytes.Equal(got.Pix, want) {
		t.Errorf("%v, want %v", got.Pix, want)
	}
	if p.Resize(4, 3) != p {
		t.Error("a picture of the right size is not given as it is")
	}
}

// TestGoldenFilters: so it does with the other filters.
func TestGoldenFilters(t *testing.T) {
	var all []struct {
		golden
		By       string
		ToW, ToH int
		Want     []byte
	}
	goldentest.JSON(t, "testdata/filters.json.gz", &all)
	if len(all) < 20 {
		t.Fatalf("%d goldens", len(all))
	}
	for _, s := range all {
		by := map[string]Filter{"bilinear": Bilinear, "lanczos": Lanczos}[s.By]
		p := &Picture{s.W, s.H, s.RGB}
		if got := p.ResizeBy(s.ToW, s.ToH, by); by == 0 || !bytes.Equal(got.Pix, s.Want) {
			t.Errorf("%s: %d×%d → %d×%d is not Pillow's", s.By, s.W, s.H, s.ToW, s.ToH)
		}
	}
}

// TestUpsample: chroma becomes what libjpeg-turbo makes of it, to the last bit: near rows and
// samples weigh three times the far ones, and what is between two levels is rounded down and up in
// turn.
func TestUpsample(t *testing.T) {
	s := []byte{10, 20, 41, 7, 100, 3} // two rows of three
	for _, c := range []struct {
		ratio image.YCbCrSubsampleRatio
		w, h  int
		y     int
		want  []byte
	}{
		{image.YCbCrSubsampleRatio444, 3, 2, 1, []byte{7, 100, 3}},
		{image.YCbCrSubsampleRatio422, 6, 2, 0, []byte{10, 13, 17, 25, 36, 41}},
		{image.YCbCrSubsampleRatio422, 5, 2, 0, []byte{10, 13, 17, 25, 36}},
		{image.YCbCrSubsampleRatio440, 3, 4, 1, []byte{9, 40, 32}},             // (3·10+7+2)/4, …
		{image.YCbCrSubsampleRatio440, 3, 4, 0, []byte{10, 20, 41}},            // the row above the first is the first
		{image.YCbCrSubsampleRatio440, 3, 4, 2, []byte{8, 80, 12}},             // (3·7+10+1)/4, …
		{image.YCbCrSubsampleRatio420, 6, 4, 1, []byte{9, 17, 32, 38, 34, 31}}, // sums 37 160 126: (4·37+8)/16, (3·37+160+7)/16, …
		{image.YCbCrSubsampleRatio420, 6, 4, 3, []byte{7, 30, 77, 76, 27, 3}},  // the row below the last is the last
		{image.YCbCrSubsampleRatio411, 9, 2, 0, []byte{10, 10, 10, 10, 20, 20, 20, 20, 41}},
	} {
		p := newPlane(s, 3, c.w, c.h, c.ratio)
		got := make([]byte, c.w)
		if p.row(got, c.y); !bytes.Equal(got, c.want) {
			t.Errorf("%v, row %d: %v, want %v", c.ratio, c.y, got, c.want)
		}
	}
}
