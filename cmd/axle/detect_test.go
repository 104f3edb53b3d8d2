//go:build !scripted

package main

import (
	"bytes"
	"encoding/json"
	"image"
	"image/color"
	"image/png"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/axle-llm/axle/cmd/internal/client"
)

// TestDetect: what a server finds is a table, JSON, and boxes in a picture; what cannot be is said
// with its name.
func TestDetect(t *testing.T) {
	scriptedServer(t)
	dir := t.TempDir()
	var b bytes.Buffer
	if err := png.Encode(&b, image.NewGray(image.Rect(0, 0, 400, 200))); err != nil {
		t.Fatal(err)
	}
	garden, out := filepath.Join(dir, "garden.png"), filepath.Join(dir, "found.png")
	if err := os.WriteFile(garden, b.Bytes(), 0o644); err != nil {
		t.Fatal(err)
	}
	text, _, err := command(t, "detect", "-o", out, garden)
	const want = "LABEL CONFIDENCE BOX person 0.90 100,50 to 300,150 cat 0.46 0,0 to 200,100"
	if err != nil || strings.Join(strings.Fields(text), " ") != want {
		t.Errorf("%v\n%s want\n%s", err, text, want)
	}
	f, err := os.Open(out)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	m, err := png.Decode(f)
	if err != nil || m.Bounds() != image.Rect(0, 0, 400, 200) {
		t.Fatal(err, m)
	}
	at := func(x, y int) color.RGBA { return color.RGBAModel.Convert(m.At(x, y)).(color.RGBA) }
	person, black := at(100, 50), color.RGBA{A: 255}
	for _, p := range []struct {
		x, y int
		want color.RGBA
	}{{299, 50, person}, {101, 149, person}, {298, 148, person}, {300, 100, black}, {102, 52, black}, {250, 150, black},
		{102, 147, black}, {100, 99, person}} {
		if got := at(p.x, p.y); got != p.want {
			t.Errorf("(%d, %d) is %v, want %v", p.x, p.y, got, p.want)
		}
	}
	if cat := at(0, 50); cat == black || cat == person || at(199, 99) != cat {
		t.Errorf("the cat's box is %v and %v", cat, at(199, 99))
	}
	white := 0
	for x := 100; x < 300; x++ {
		for y := 37; y < 50; y++ {
			if at(x, y) == (color.RGBA{255, 255, 255, 255}) {
				white++
			}
		}
	}
	if white < 50 {
		t.Errorf("%d pixels of a label", white)
	}

	in, err := os.Open(garden)
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	was := os.Stdin
	os.Stdin = in
	text, _, err = command(t, "detect", "--json", "--least", "0.5", "-m", "scripted-detecting", "-")
	os.Stdin = was
	var found []client.Found
	if err := json.Unmarshal([]byte(text), &found); err != nil || len(found) != 1 ||
		found[0] != (client.Found{Label: "person", Confidence: 0.9, XMin: 100, YMin: 50, XMax: 300, YMax: 150}) {
		t.Errorf("%v: %s", err, text)
	}
	if err != nil {
		t.Error(err)
	}
	if text, _, err := command(t, "detect", "--least", "0.95", garden); err != nil || !strings.HasPrefix(text, "nothing is in it") {
		t.Errorf("%v: %s", err, text)
	}
	if text, _, err := command(t, "detect", "--json", "--least", "0.95", garden); err != nil || text != "[]\n" {
		t.Errorf("%v: %s", err, text)
	}
	if text, _, err := command(t, "detect", "-o", "-", garden); err != nil || !strings.HasPrefix(text, "\x89PNG") {
		t.Errorf("%v: %.20q", err, text)
	}
	for _, c := range []struct{ args, want string }{
		{garden + "x", "no such file"},
		{"detect_test.go", "detect_test.go: the picture cannot be read"},
		{"-m scripted-chat " + garden, "scripted-chat:latest does not find things in pictures"},
		{"-m none " + garden, "model 'none' not found"},
		{"--least 2 " + garden, "--least must be between 0 and 1, got 2"},
		{"-o x.webp " + garden, "pictures are written as .png or .jpg, not .webp"},
		{"", "accepts 1 arg"},
	} {
		if _, _, err := command(t, append([]string{"detect"}, strings.Fields(c.args)...)...); err == nil ||
			!strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", c.args, err, c.want)
		}
	}
}
