package soft_test

import (
	"context"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/axle-llm/axle/axcl/soft"
	"github.com/axle-llm/axle/axmodel"
	"github.com/axle-llm/axle/axmodel/axmodeltest"
	"github.com/axle-llm/axle/axmodel/compile"
)

// An encoder is not lenient: a picture in another order of pixels, of patches or of colours, or
// normed before, gives other rows.
func TestEncoderStrict(t *testing.T) {
	d := open(t, soft.Options{Threads: 1})
	for _, a := range axmodeltest.SightArchs() {
		path, c := sightEncoder(t, a)
		if err := axmodeltest.Strict(d, path, c, axmodeltest.RandomPicture(c, rand.New(rand.NewPCG(1, 1)))); err != nil {
			t.Errorf("%s: %v", a.Name, err)
		}
	}
}

// The rows of an encoder without weights spell a number that the picture and the row decide.
func TestEncoderShapeOnly(t *testing.T) {
	h := axmodel.Header{Kind: axmodel.Encoder, Flags: axmodel.FlagShapeOnly, Hidden: 8, Heads: 1, HeadDim: 8, Intermediate: 8, Out: 32,
		Activation: axmodel.GELU, Scale: 1, Pos: 1, Patch: 2, Merge: 2, Blocks: 2, Deep: 1, Down: 4, Across: 2}
	path := filepath.Join(t.TempDir(), "shape_vision.axmodel")
	if err := axmodel.WriteFile(path, h, []axmodel.SoftGroup{h.EncoderGroup()}, nil); err != nil {
		t.Fatal(err)
	}
	n, err := open(t, soft.Options{Threads: 1}).LoadNet(path)
	if err != nil {
		t.Fatal(err)
	}
	in, out := buffers(n, 0)
	copy(in["hidden_states"], []byte{200, 100, 1})
	if err := n.Run(0, in, out); err != nil {
		t.Fatal(err)
	}
	for r := range 2 {
		row, id := floats(out["hidden_states_out"])[r*32:][:32], 0
		for i, v := range row {
			if v != 0 && (v*v != 1 || i >= 24) {
				t.Fatalf("value %d of row %d is %v", i, r, v)
			}
			if v < 0 {
				id |= 1 << i
			}
		}
		if id != 301+r {
			t.Errorf("row %d spells %d", r, id)
		}
	}
	if slices.ContainsFunc(floats(out["deepstack_feature_0"]), func(v float32) bool { return v != 0 }) {
		t.Error("a shape-only encoder gives something to add")
	}
}

// What the header cannot tell is checked when an encoder is loaded: after which blocks rows are
// given, and what turns by which side.
func TestEncoderHostile(t *testing.T) {
	a := axmodeltest.SightArchs()[0]
	path, _ := sightEncoder(t, a)
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	m, err := axmodel.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	d := open(t, soft.Options{Threads: 1})
	for _, c := range []struct {
		tensor string
		at     int
		v      float32
	}{{"deep_at", 0, -1}, {"deep_at", 1, 3}, {"deep_at", 1, 0}, {"deep_at", 1, 1.5}, {"deep_at", 0, float32(math.NaN())},
		{"rope_axis", 0, 0}, {"rope_axis", 2, 3}, {"rope_axis", 1, float32(math.Inf(1))}} {
		e, _ := m.Soft.Entry(c.tensor)
		bad := slices.Clone(b)
		bits := math.Float32bits(c.v)
		copy(bad[int(e.Offset)+4*c.at:], []byte{byte(bits), byte(bits >> 8), byte(bits >> 16), byte(bits >> 24)})
		file := filepath.Join(t.TempDir(), "bad.axmodel")
		if err := os.WriteFile(file, bad, 0o644); err != nil {
			t.Fatal(err)
		}
		if n, err := d.LoadNet(file); err == nil || !strings.Contains(err.Error(), "bad.axmodel") {
			t.Errorf("%s %d is %v: %v, %v", c.tensor, c.at, c.v, n, err)
		}
	}
}

// sightEncoder is the encoder of a random model that sees.
func sightEncoder(t *testing.T, a axmodeltest.Arch) (string, *axmodeltest.Checkpoint) {
	t.Helper()
	dir := t.TempDir()
	c, err := axmodeltest.WriteCheckpoint(dir, a, 1)
	if err != nil {
		t.Fatal(err)
	}
	o := compile.Options{From: dir, Out: filepath.Join(dir, "p"), Context: 95, Chunk: 16, History: []int{0, 64}, Name: "m"}
	if a.Sight.Qwen {
		o.Width, o.Height = c.PictureSize()
	}
	if _, err := compile.Run(context.Background(), o); err != nil {
		t.Fatal(err)
	}
	return filepath.Join(dir, "p", "m_vision.axmodel"), c
}

func floats(b []byte) (out []float32) {
	for i := 0; i < len(b); i += 4 {
		out = append(out, math.Float32frombits(uint32(b[i])|uint32(b[i+1])<<8|uint32(b[i+2])<<16|uint32(b[i+3])<<24))
	}
	return out
}
