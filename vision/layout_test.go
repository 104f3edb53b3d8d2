package vision

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
)

// TestReadLayout: the shapes of the encoders that are known.
func TestReadLayout(t *testing.T) {
	//proves:G21
	for _, c := range []struct {
		name  string
		shape []int
		typ   Type
		hints Hints
		want  Layout
	}{
		{"Qwen2.5-VL", []int{1, 1024, 392, 3}, U8, Hints{Rows: 256}, Layout{Qwen, U8, 448, 448, 14}},
		{"Qwen2.5-VL video", []int{1, 484, 392, 3}, U8, Hints{Rows: 121}, Layout{Qwen, U8, 308, 308, 14}},
		{"Qwen3-VL", []int{1, 576, 512, 3}, U8, Hints{Rows: 144, Width: 448, Height: 448}, Layout{Qwen, U8, 384, 384, 16}},
		{"Qwen3-Omni", []int{1, 576, 512, 3}, F32, Hints{Rows: 144}, Layout{Qwen, F32, 384, 384, 16}},
		{"Qwen wide, by config", []int{1, 512, 512, 3}, U8, Hints{Rows: 128, Width: 1024, Height: 128}, Layout{Qwen, U8, 1024, 128, 16}},
		{"Qwen wide, by name", []int{1, 512, 512, 3}, U8, Hints{Rows: 128, File: "vision_h1024_w128.axmodel"},
			Layout{Qwen, U8, 128, 1024, 16}},
		{"Qwen wide, by itself", []int{1, 512, 512, 3}, U8, Hints{Rows: 128}, Layout{Qwen, U8, 512, 256, 16}},
		{"SmolVLM", []int{1, 512, 512, 3}, U8, Hints{Rows: 64}, Layout{Rows, U8, 512, 512, 0}},
		{"no square under the width", []int{1, 448, 448, 3}, U8, Hints{}, Layout{Rows, U8, 448, 448, 0}},
		{"FastVLM", []int{1, 1024, 1024, 3}, U8, Hints{Rows: 256, File: "image_encoder_1024x1024.axmodel"}, Layout{}}, // see below
		{"InternVL3", []int{1, 3, 448, 448}, F32, Hints{Rows: 256}, Layout{Planes, F32, 448, 448, 0}},
		{"planes of bytes", []int{1, 3, 336, 480}, U8, Hints{}, Layout{Planes, U8, 480, 336, 0}},
		{"PaddleOCR-VL", []int{1, 2268, 3, 14, 14}, F32, Hints{Rows: 567, File: "vit_576x768.axmodel"}, Layout{Patches, F32, 756, 588, 14}},
		{"PaddleOCR-VL, rank 4", []int{2268, 3, 14, 14}, F32, Hints{File: "vit_576x768.axmodel"}, Layout{Patches, F32, 756, 588, 14}},
		{"LocateAnything", []int{1600, 3, 14, 14}, F32, Hints{}, Layout{Patches, F32, 560, 560, 14}},
		{"MiniCPM-V-4.6", []int{1, 3, 14, 14336}, F32, Hints{Rows: 64}, Layout{Strip, F32, 448, 448, 14}},
		{"MiniCPM-V-4.6, bytes", []int{1, 3, 14, 14336}, U8, Hints{}, Layout{Strip, U8, 448, 448, 14}},
		{"Gemma-4", []int{630, 768}, F32, Hints{File: "gemma4_h336_w480_t70.axmodel"}, Layout{Flat, F32, 480, 336, 16}},
		{"Gemma-4, 140", []int{1260, 768}, F32, Hints{File: "gemma4_h480_w672_t140.axmodel"}, Layout{Flat, F32, 672, 480, 16}},
		{"Gemma-4, 280", []int{2520, 768}, F32, Hints{File: "gemma4_h672_w960_t280.axmodel"}, Layout{Flat, F32, 960, 672, 16}},
		{"a name with more numbers", []int{600, 768}, F32, Hints{File: "vit_1x480x320x3.axmodel"}, Layout{Flat, F32, 320, 480, 16}},
	} {
		if c.want.Kind == 0 { // 1024 is 2 · 512, which is no patch: whole
			c.want = Layout{Rows, U8, 1024, 1024, 0}
		}
		got, err := ReadLayout(c.shape, c.typ, c.hints)
		if err != nil || got != c.want {
			t.Errorf("%s: %+v, %v; want %+v", c.name, got, err, c.want)
		}
		size := 1
		for _, n := range c.shape {
			size *= n
		}
		if c.typ == F32 {
			size *= 4
		}
		if err == nil && got.Bytes() != size {
			t.Errorf("%s: %d bytes, the tensor has %d", c.name, got.Bytes(), size)
		}
	}
}

// TestLayoutRefused: what cannot be told apart, or is not known, is refused with the shape.
func TestLayoutRefused(t *testing.T) {
	//proves:G21
	for _, c := range []struct {
		shape []int
		typ   Type
		hints Hints
		want  string
	}{
		{[]int{1, 512, 512, 3}, U8, Hints{}, "would tell"},
		{[]int{1, 576, 512, 3}, U8, Hints{}, "would tell"},
		{[]int{17, 1024, 768}, F32, Hints{}, "SmolVLM2"},
		{[]int{5, 3, 448, 448}, F32, Hints{}, "takes 5 pictures"},
		{[]int{1, 3, 512, 3}, U8, Hints{}, "nothing tells them apart"},
		{[]int{1, 448, 448, 3}, F32, Hints{}, "no known layout"},
		{[]int{1, 4, 448, 448}, F32, Hints{}, "no known layout"},
		{[]int{1, 3, 20, 50}, F32, Hints{}, "no known layout"},
		{[]int{1, 576, 512, 3}, F32, Hints{Rows: 576}, "no known layout"},
		{[]int{1, 20, 512, 3}, F32, Hints{}, ""},
		{[]int{1, 28, 512, 3}, F32, Hints{}, ""},
		{[]int{1, 36, 512, 3}, F32, Hints{}, ""},
		{[]int{1, 12, 512, 3}, F32, Hints{}, ""},
		{[]int{1, 3, 3, 1 << 20}, F32, Hints{}, "no known"},
		{[]int{1, 3, 20000, 20000}, F32, Hints{}, "limit"},
		{[]int{1, 3, 7000, 7000}, F32, Hints{}, "limit"},
		{[]int{1, 3, 0, 448}, F32, Hints{}, "so long"},
		{[]int{1, 3, -448, 448}, F32, Hints{}, "so long"},
		{[]int{1, 3, 448, 448}, 0, Hints{}, "type 0"},
		{nil, F32, Hints{}, "no known"},
	} {
		l, err := ReadLayout(c.shape, c.typ, c.hints)
		if c.want == "" {
			if across, down := l.Grid(); err != nil || across*down != c.shape[1] || across%2+down%2 > 0 {
				t.Errorf("%v: %+v, %v", c.shape, l, err)
			}
			continue
		}
		if err == nil || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), fmt.Sprint(c.shape)) {
			t.Errorf("%v: %+v, %v", c.shape, l, err)
		}
	}
}

// numbered is a picture whose value at (x, y, c) is (w·y + x)·3 + c.
func numbered(w, h int) *Picture {
	p := &Picture{w, h, make([]byte, w*h*3)}
	for i := range p.Pix {
		p.Pix[i] = byte(i)
	}
	return p
}

// TestQwenOrder: the printed example.
func TestQwenOrder(t *testing.T) {
	l := Layout{Qwen, U8, 12, 8, 2}
	out, err := l.Append(nil, numbered(12, 8), Own)
	if err != nil {
		t.Fatal(err)
	}
	var corners []int
	for k := range 24 {
		corners = append(corners, int(out[k*24]))
		if !bytes.Equal(out[k*24:k*24+12], out[k*24+12:k*24+24]) {
			t.Fatal("the second frame is another")
		}
	}
	want := []int{0, 6, 72, 78, 12, 18, 84, 90, 24, 30, 96, 102, 144, 150, 216, 222, 156, 162, 228, 234, 168, 174, 240, 246}
	if !slices.Equal(corners, want) {
		t.Errorf("%v, want %v", corners, want)
	}
	if got := out[:12]; !bytes.Equal(got, []byte{0, 1, 2, 3, 4, 5, 36, 37, 38, 39, 40, 41}) {
		t.Errorf("the first patch is %v", got)
	}
}

// TestLayouts: each kind, read back by its definition.
func TestLayouts(t *testing.T) {
	//proves:G21
	const w, h, p = 8, 4, 2
	pic := numbered(w, h)
	at := map[Kind]func(x, y, c int) int{
		Rows:    func(x, y, c int) int { return (y*w+x)*3 + c },
		Planes:  func(x, y, c int) int { return c*w*h + y*w + x },
		Patches: func(x, y, c int) int { k := y/p*(w/p) + x/p; return ((k*3+c)*p+y%p)*p + x%p },
		Strip:   func(x, y, c int) int { k := y/p*(w/p) + x/p; return (c*p+y%p)*(w*h/p) + k*p + x%p },
		Flat:    func(x, y, c int) int { k := y/p*(w/p) + x/p; return ((k*p+y%p)*p+x%p)*3 + c },
	}
	for kind, at := range at {
		for _, typ := range []Type{U8, F32} {
			l := Layout{kind, typ, w, h, p}
			if kind == Rows || kind == Planes {
				l.Patch = 0
			}
			norm := Own
			if typ == F32 {
				norm = Unit
			}
			out, err := l.Append([]byte("x"), pic, norm)
			if err != nil || out[0] != 'x' {
				t.Fatalf("%v: %v", kind, err)
			}
			out = out[1:]
			for i, v := range pic.Pix {
				o := at(i/3%w, i/3/w, i%3)
				if typ == U8 && out[o] != v {
					t.Fatalf("%v %v: value %d is %d, want %d", kind, typ, o, out[o], v)
				}
				if typ == F32 {
					if f := math.Float32frombits(binary.LittleEndian.Uint32(out[4*o:])); f != float32(v)/255 {
						t.Fatalf("%v %v: value %d is %v, want %v", kind, typ, o, f, float32(v)/255)
					}
				}
			}
		}
	}
}

// TestNorms: the arithmetic, each layout's own, and what is refused.
func TestNorms(t *testing.T) {
	p := &Picture{1, 1, []byte{0, 128, 255}}
	floats := func(k Kind, n Norm) (f [3]float64) {
		out, err := Layout{Kind: k, Type: F32, Width: 1, Height: 1, Patch: 1}.Append(nil, p, n)
		if err != nil {
			t.Fatal(err)
		}
		for i := range f {
			f[i] = float64(math.Float32frombits(binary.LittleEndian.Uint32(out[4*i:])))
		}
		return f
	}
	near := func(got, want [3]float64) bool {
		for i := range got {
			if math.Abs(got[i]-want[i]) > 1e-6 {
				return false
			}
		}
		return true
	}
	signed, unit := [3]float64{-1, 128/127.5 - 1, 1}, [3]float64{0, 128. / 255, 1}
	imagenet := [3]float64{-.485 / .229, (128./255 - .456) / .224, (1 - .406) / .225}
	clip := [3]float64{-.48145466 / .26862954, (128./255 - .4578275) / .26130258, (1 - .40821073) / .27577711}
	for _, c := range []struct {
		kind Kind
		norm Norm
		want [3]float64
	}{
		{Planes, CLIP, clip}, {Rows, Signed, signed}, {Rows, Unit, unit}, {Planes, ImageNet, imagenet}, {Planes, Own, imagenet},
		{Patches, Own, signed}, {Strip, Own, signed}, {Flat, Own, unit}, {Planes, Unit, unit},
	} {
		if got := floats(c.kind, c.norm); !near(got, c.want) {
			t.Errorf("%v, norm %d: %v, want %v", c.kind, c.norm, got, c.want)
		}
	}
	l := Layout{Kind: Rows, Type: U8, Width: 1, Height: 1}
	if _, err := l.Append(nil, p, Unit); err == nil {
		t.Error("bytes were normed")
	}
	if err := l.Write(make([]byte, 2), p, Own); err == nil {
		t.Error("a short buffer was taken")
	}
	if err := l.Write(make([]byte, 3), numbered(2, 1), Own); err == nil {
		t.Error("a picture of another size was written")
	}
	l.Type = F32
	if _, err := l.Append(nil, p, 9); err == nil {
		t.Error("norm 9 was taken")
	}
}

// TestTiles: the tiles are parts of the larger picture, row by row, and the last is the whole.
func TestTiles(t *testing.T) {
	p := numbered(9, 7)
	tiles := p.Tiles(2, 2, 6, 4)
	if len(tiles) != 5 {
		t.Fatalf("%d tiles", len(tiles))
	}
	all := p.Resize(12, 8)
	for i, tile := range tiles[:4] {
		for y := range 4 {
			from := ((i/2*4+y)*12 + i%2*6) * 3
			if !bytes.Equal(tile.Pix[y*18:(y+1)*18], all.Pix[from:from+18]) {
				t.Fatalf("tile %d, row %d", i, y)
			}
		}
	}
	if !bytes.Equal(tiles[4].Pix, p.Resize(6, 4).Pix) {
		t.Error("the last tile is not the whole picture")
	}
}
