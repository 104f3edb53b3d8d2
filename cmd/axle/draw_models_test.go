//go:build !scripted

package main

import (
	"image"
	"image/png"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/axle-llm/axle/internal/lane"
	"github.com/axle-llm/axle/models/modelstest"
)

// TestDrawPackage: without a server, a package of Stable Diffusion on the software card draws: the
// same picture for a seed, and another for another seed and for a picture to start from.
func TestDrawPackage(t *testing.T) {
	lane.NoRace(t)
	place := t.TempDir()
	if err := (modelstest.Diffusion{Layout: "Euler", Seed: 1}).Write(filepath.Join(place, "sd")); err != nil {
		t.Fatal(err)
	}
	t.Setenv("AXLE_MODEL_PATH", place)
	t.Setenv("AXLE_MODELS", t.TempDir())
	t.Setenv("AXLE_DEVICE", "soft")
	t.Setenv("AXLE_HOST", "127.0.0.1:1")
	t.Chdir(t.TempDir())
	drawn := map[string]string{}
	for _, tt := range []struct{ args, told string }{
		{"-o a.png --seed 6 -n 2", "a-1.png: 64x48, seed 6\na-2.png: 64x48, seed 7\n"},
		{"-o b.png --seed 7", "b.png: 64x48, seed 7\n"},
		{"-o c.png --seed 7 --from a-1.png --strength 0.5", "c.png: 64x48, seed 7\n"},
	} {
		out, _, err := axle(t, "", append(strings.Fields("draw a fox --steps 3"), strings.Fields(tt.args)...)...)
		if err != nil || out != tt.told {
			t.Fatalf("%s: %q %v", tt.args, out, err)
		}
		for line := range strings.Lines(out) {
			name, _, _ := strings.Cut(line, ":")
			drawn[name] = string(must(t, func() ([]byte, error) { return os.ReadFile(name) }))
			if img, err := png.Decode(strings.NewReader(drawn[name])); err != nil || img.Bounds() != image.Rect(0, 0, 64, 48) {
				t.Errorf("%s: %v", name, err)
			}
		}
	}
	if drawn["b.png"] != drawn["a-2.png"] {
		t.Error("the same seed gives another picture")
	}
	if drawn["b.png"] == drawn["a-1.png"] || drawn["b.png"] == drawn["c.png"] {
		t.Error("another seed, or a picture to start from, gives the same picture")
	}
}
