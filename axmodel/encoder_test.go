package axmodel_test

import (
	"bytes"
	"errors"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/axle-llm/axle/axcl"
	"github.com/axle-llm/axle/axmodel"
)

// An encoder's file tells the tensors that the vendor's have, for both orders of pixels.
func TestEncoder(t *testing.T) {
	h := encoderHeader()
	b := linearFile(t, h, []axmodel.SoftGroup{h.EncoderGroup()})
	m, err := axmodel.Read(bytes.NewReader(b), int64(len(b)))
	if err != nil {
		t.Fatal(err)
	}
	if m.Soft.Header != h {
		t.Errorf("read %+v, wrote %+v", m.Soft.Header, h)
	}
	g := m.Groups[0]
	if in := g.Input("hidden_states"); in.Type != axcl.Uint8 || !slices.Equal(in.Shape, []int{1, 24, 32, 3}) {
		t.Errorf("input %+v", in)
	}
	for _, name := range []string{"hidden_states_out", "deepstack_feature_0", "deepstack_feature_1"} {
		if out := g.Output(name); out.Type != axcl.FP32 || !slices.Equal(out.Shape, []int{6, 32}) {
			t.Errorf("%s: %+v", name, out)
		}
	}
	h.Order = axmodel.InRows
	b = linearFile(t, h, []axmodel.SoftGroup{h.EncoderGroup()})
	if m, err = axmodel.Read(bytes.NewReader(b), int64(len(b))); err != nil {
		t.Fatal(err)
	}
	g = m.Groups[0]
	if in, out := g.Input("pixel_values"), g.Output("output"); !slices.Equal(in.Shape, []int{1, 16, 24, 3}) ||
		!slices.Equal(out.Shape, []int{1, 6, 32}) {
		t.Errorf("input %+v, output %+v", in, out)
	}
	if _, err := m.Layer(); err == nil {
		t.Error("an encoder passes for a decoder layer")
	}
}

// Whatever of an encoder's header does not fit is refused.
func TestEncoderHostile(t *testing.T) {
	h := encoderHeader()
	s := linearFile(t, h, []axmodel.SoftGroup{h.EncoderGroup()})
	const group = 192
	for _, c := range []struct {
		name string
		file []byte
		want string
	}{
		{"heads of another width", patch(s, 52, uint32(3)), "do not make a width"},
		{"no heads", patch(patch(s, 52, uint32(0)), 60, uint32(0)), "do not make a width"},
		{"no intermediate", patch(s, 64, uint32(0)), "intermediate"},
		{"rows of nothing", patch(s, 68, uint32(0)), "rows of 0"},
		{"SiLU", patch(s, 44, uint32(0)), "activation"},
		{"QK norm", patch(s, 40, uint32(axmodel.FlagQKNorm)), "flags"},
		{"no merger", patch(s, 40, uint32(0)), `"merge_fc1`},
		{"patches of nothing", patch(s, 176, uint32(0)), "patches of 0"},
		{"patches of 257", patch(s, 176, uint32(257)), "patches of 257"},
		{"rows of no patch", patch(s, 180, uint32(0)), "0 × 0 patches"},
		{"an unknown order", patch(s, 184, uint32(2)), "unknown order"},
		{"no blocks", patch(s, 188, uint32(0)), "0 blocks"},
		{"blocks of 2³²−1", patch(s, 188, uint32(math.MaxUint32)), "blocks"},
		{"another number of blocks", patch(s, 188, uint32(4)), "the header asks for"},
		{"more outputs than blocks", patch(s, 104, uint32(4)), "further outputs"},
		{"an odd rotary", patch(s, 80, uint32(7)), "rotary"},
		{"a rotary wider than a head", patch(s, 80, uint32(10)), "rotary"},
		{"a scale of no number", patch(s, 76, float32(math.NaN())), "scale"},
		{"a grid that is not whole", patch(s, group+4, uint32(5)), "rows of 5 × 6"},
		{"a grid of nothing", patch(s, group+8, uint32(0)), "rows of 4 × 0"},
		{"a grid without end", patch(patch(s, group+4, uint32(1<<20)), group+8, uint32(1<<20)), "rows of"},
		{"other rows", patch(s, group, uint32(7)), "7 rows"},
		{"another grid", patch(patch(s, group+8, uint32(8)), group, uint32(8)), "the header asks for"},
		{"a merger on a layer", patch(patch(patch(s, 12, uint32(axmodel.Affine)), 40, uint32(axmodel.FlagMerger)), 68, uint32(1)),
			"merger"},
		{"a kind after it", patch(s, 12, uint32(axmodel.Net+1)), "unknown kind"},
	} {
		_, err := axmodel.Read(bytes.NewReader(c.file), int64(len(c.file)))
		if err == nil || !errors.Is(err, axcl.ErrModel) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want an error that says %q", c.name, err, c.want)
		}
	}
	// Integers are refused: they would cost a picture more than text.
	var ts []axmodel.Tensor
	for _, e := range h.Wants() {
		typ := axmodel.F32
		if e.Name == "qkv" {
			typ = axmodel.Int8Groups
		}
		ts = append(ts, axmodel.Tensor{Name: e.Name, Type: typ, Rows: e.Rows, Cols: e.Cols, Row: func([]float32, int) error { return nil }})
	}
	if err := axmodel.Write(new(bytes.Buffer), h, []axmodel.SoftGroup{h.EncoderGroup()}, ts); err == nil ||
		!strings.Contains(err.Error(), "f32 or bf16") {
		t.Error(err)
	}
}

// encoderHeader is a small encoder: 4 × 6 patches of 4 pixels, three blocks, two further outputs.
func encoderHeader() axmodel.Header {
	return axmodel.Header{Kind: axmodel.Encoder, Flags: axmodel.FlagMerger, Hidden: 16, Heads: 2, HeadDim: 8, Intermediate: 24, Out: 32,
		Activation: axmodel.GELU, Eps: 1e-6, Scale: 0.35, Rotary: 8, Magnitude: 1, Pos: 1, Patch: 4, Merge: 2, Blocks: 3, Deep: 2, Down: 4,
		Across: 6, Tool: "test"}
}
