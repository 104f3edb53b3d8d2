package axmodel_test

import (
	"bytes"
	"errors"
	"math"
	"strings"
	"testing"

	"github.com/axle-llm/axle/axcl"
	"github.com/axle-llm/axle/axmodel"
	"github.com/axle-llm/axle/models"
)

// A linear layer's file tells its two states, in every group alike.
func TestLinear(t *testing.T) {
	h := linearHeader()
	for state, want := range map[axmodel.State]axcl.Type{axmodel.StateBF16: axcl.BF16, axmodel.StateFP16: axcl.FP16,
		axmodel.StateFP32: axcl.FP32} {
		h.State = state
		b := linearFile(t, h, axmodel.LinearLadder(16, 2))
		m, err := axmodel.Read(bytes.NewReader(b), int64(len(b)))
		if err != nil {
			t.Fatal(err)
		}
		if m.Soft.Header != h {
			t.Errorf("read %+v, wrote %+v", m.Soft.Header, h)
		}
		l, ok, err := m.Linear()
		if err != nil || !ok {
			t.Fatalf("%v: linear %v, %v", state, ok, err)
		}
		width := map[axcl.Type]int{axcl.BF16: 2, axcl.FP16: 2, axcl.FP32: 4}[want]
		if l.Hidden != 16 || l.K.Size != 56*3*width || l.V.Size != 4*8*6*width || l.K.Type != want || l.V.Type != want || !l.Listed ||
			len(l.Rows) != 3 || l.Rows[0] != 1 || l.Rows[2] != 16 {
			t.Errorf("%v: %+v", state, l)
		}
		if _, err := m.Layer(); err == nil {
			t.Errorf("%v: a layer with a state passes for one with a cache", state)
		}
	}
	b := softLayer(t)
	m, err := axmodel.Read(bytes.NewReader(b), int64(len(b)))
	if err != nil {
		t.Fatal(err)
	}
	if _, ok, err := m.Linear(); ok || err != nil {
		t.Errorf("a layer with a cache passes for one with a state: %v, %v", ok, err)
	}
}

// linearHeader is a small linear layer: 4 value heads of 6 over 2 key heads of 8.
func linearHeader() axmodel.Header {
	return axmodel.Header{Kind: axmodel.Linear, Flags: axmodel.FlagNormOne, Hidden: 16, Heads: 4, KVHeads: 2, HeadDim: 8, ValueDim: 6,
		Conv: 4, State: axmodel.StateFP16, Intermediate: 24, Eps: 1e-6, Pos: 1, Index: 3, Tool: "test"}
}

func linearFile(tb testing.TB, h axmodel.Header, groups []axmodel.SoftGroup) []byte {
	tb.Helper()
	var ts []axmodel.Tensor
	for _, e := range h.Wants() {
		t := axmodel.BF16
		if e.Type != 0 {
			t = e.Type
		}
		ts = append(ts, axmodel.Tensor{Name: e.Name, Type: t, Rows: e.Rows, Cols: e.Cols, Row: func([]float32, int) error { return nil }})
	}
	var b bytes.Buffer
	if err := axmodel.Write(&b, h, groups, ts); err != nil {
		tb.Fatal(err)
	}
	return b.Bytes()
}

// Whatever of a linear layer's header does not fit is refused.
func TestLinearHostile(t *testing.T) {
	//proves:T1 layers with a state
	s := linearFile(t, linearHeader(), axmodel.LinearLadder(16, 1))
	for _, c := range []struct {
		name string
		file []byte
		want string
	}{
		{"no value head", patch(s, 52, uint32(0)), "value heads"},
		{"3 value heads over 2", patch(s, 52, uint32(3)), "value heads"},
		{"no key head", patch(s, 56, uint32(0)), "value heads"},
		{"key heads of 0", patch(s, 60, uint32(0)), "value heads"},
		{"value heads of 0", patch(s, 176, uint32(0)), "value heads"},
		{"value heads of 2²⁰", patch(s, 176, uint32(1<<20)), "too many"},
		{"value heads of 2³²−1", patch(s, 176, uint32(math.MaxUint32)), "value head dim"},
		{"a state of 8 GiB", patch(patch(patch(s, 60, uint32(1<<16)), 176, uint32(1<<13)), 52, uint32(4)), "MiB"},
		{"a convolution of 1", patch(s, 180, uint32(1)), "convolution"},
		{"a convolution of 65", patch(s, 180, uint32(65)), "convolution"},
		{"another convolution", patch(s, 180, uint32(3)), "the header asks for"},
		{"states of type 3", patch(s, 184, uint32(3)), "unknown type"},
		{"no intermediate", patch(s, 64, uint32(0)), "intermediate"},
		{"GELU", patch(s, 44, uint32(1)), "activation"},
		{"QK norm", patch(s, 40, uint32(axmodel.FlagQKNorm)), "flags"},
		{"a gate", patch(s, 40, uint32(axmodel.FlagGate)), "flags"},
		{"rotary", patch(s, 80, uint32(4)), "rotary"},
		{"three positions", patch(s, 92, uint32(3)), "position"},
		{"cells", patch(s, 192+4, uint32(8)), "looks back"},
		{"cache rows", patch(s, 192+16+8, uint32(1)), "looks back"},
		{"a layer's kind", patch(s, 12, uint32(axmodel.Layer)), ""},
		{"a gate on a head", patch(patch(patch(s, 12, uint32(axmodel.Affine)), 40, uint32(axmodel.FlagGate)), 68, uint32(1)), "gate"},
	} {
		_, err := axmodel.Read(bytes.NewReader(c.file), int64(len(c.file)))
		if err == nil || !errors.Is(err, axcl.ErrModel) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", c.name, err)
		}
	}
}

// The tensors of a layer with a state must agree, group by group; any card's file is read so.
func TestLinearTensors(t *testing.T) {
	x := func(name string, typ axcl.Type, size int, shape ...int) axcl.Tensor {
		return axcl.Tensor{Name: name, Type: typ, Shape: shape, Size: size}
	}
	group := func(n int) axmodel.GroupMeta {
		return axmodel.GroupMeta{Inputs: []axcl.Tensor{x("input", axcl.BF16, 32*n, 1, n, 16), x("indices", axcl.Uint32, 4*n, 1, n),
			x("mask", axcl.BF16, 2*n, 1, n), x("K_cache", axcl.FP16, 48, 8, 3), x("V_cache", axcl.FP32, 64, 4, 4)},
			Outputs: []axcl.Tensor{x("K_cache_out", axcl.FP16, 48, 8, 3), x("V_cache_out", axcl.FP32, 64, 4, 4),
				x("output", axcl.BF16, 32*n, 1, n, 16)}}
	}
	read := func(change func(gs []axmodel.GroupMeta)) (axmodel.LinearShape, bool, error) {
		gs := []axmodel.GroupMeta{group(1), group(8)}
		change(gs)
		return (&axmodel.Meta{Groups: gs}).Linear()
	}
	if l, ok, err := read(func([]axmodel.GroupMeta) {}); !ok || err != nil || !l.Listed || l.K.Size != 48 || l.V.Size != 64 {
		t.Errorf("%+v, %v, %v", l, ok, err)
	}
	unlist := func(gs []axmodel.GroupMeta) { gs[0].Inputs = append(gs[0].Inputs[:1:1], gs[0].Inputs[3:]...) }
	if l, ok, err := read(unlist); !ok || err != nil || l.Listed {
		t.Errorf("unlisted inputs: %+v, %v, %v", l, ok, err)
	}
	for name, c := range map[string]struct {
		want   string
		change func(gs []axmodel.GroupMeta)
	}{
		"a state that comes out smaller": {"replaced", func(gs []axmodel.GroupMeta) { gs[1].Outputs[1].Size = 32 }},
		"a state of another type":        {"replaced", func(gs []axmodel.GroupMeta) { gs[0].Outputs[0].Type = axcl.BF16 }},
		"a state of 2 GB": {"at most", func(gs []axmodel.GroupMeta) {
			gs[0].Inputs[4].Size, gs[0].Outputs[1].Size = 2<<30, 2<<30
		}},
		"groups that shrink": {"the same in every group", func(gs []axmodel.GroupMeta) {
			gs[1].Inputs[3].Size, gs[1].Outputs[0].Size = 24, 24
		}},
		"no state out":       {"no tensor", func(gs []axmodel.GroupMeta) { gs[0].Outputs = gs[0].Outputs[1:] }},
		"a mask of a cache":  {"for each of", func(gs []axmodel.GroupMeta) { gs[1].Inputs[2].Shape = []int{1, 8, 8} }},
		"an output of fewer": {"output", func(gs []axmodel.GroupMeta) { gs[1].Outputs[2].Shape = []int{1, 4, 16} }},
	} {
		if _, ok, err := read(c.change); !ok || err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, %v", name, ok, err)
		}
	}
}

// A package without weights may have layers with a state: models finds which, and what they keep.
func TestShapeStates(t *testing.T) {
	dir := t.TempDir()
	s := axmodel.Qwen35Small()
	s.Vocab, s.Linear.Warm = 300, 2
	if err := axmodel.WriteShape(dir, s); err != nil {
		t.Fatal(err)
	}
	p, err := models.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	for i, f := range p.Facts {
		if linear := i%4 != 3; (f.Kind == models.LinearAttention) != linear || linear && len(f.State.Rows) != 3 {
			t.Errorf("layer %d: %+v", i, f)
		}
	}
	if got := p.StateBytes(); got != 18*2*(6144*3+16*128*128) {
		t.Errorf("states of %d bytes", got)
	}
}
