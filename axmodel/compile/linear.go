package compile

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/axle-llm/axle/axmodel"
)

// states settles which layers have a state instead of a cache, and checks what such a layer is made
// of.
func (a *architecture) states() (err error) {
	if a.family != "qwen3_5" {
		return nil
	}
	if a.linear, err = a.layersOf("linear_attention", "full_attention_interval", a.Interval); err != nil {
		return err
	}
	if !slices.Contains(a.linear, false) {
		return fmt.Errorf("none of %d layers has full attention", a.Layers)
	}
	for _, v := range []struct {
		name     string
		v, least int
		most     int
	}{{"linear_num_key_heads", a.KeyHeads, 1, 1024}, {"linear_num_value_heads", a.ValueHeads, 1, 1024},
		{"linear_key_head_dim", a.KeyDim, 1, 1 << 12}, {"linear_value_head_dim", a.ValueDim, 1, 1 << 12},
		{"linear_conv_kernel_dim", a.Convolution, 2, 64}} {
		if v.v < v.least || v.v > v.most {
			return fmt.Errorf("%s is %d", v.name, v.v)
		}
	}
	if a.ValueHeads%a.KeyHeads != 0 {
		return fmt.Errorf("%d value heads cannot share %d key heads", a.ValueHeads, a.KeyHeads)
	}
	return nil
}

// settleStates checks the options that layers with a state have.
func (j *job) settleStates() error {
	types := map[string]axmodel.State{"bf16": axmodel.StateBF16, "fp16": axmodel.StateFP16, "fp32": axmodel.StateFP32}
	var ok bool
	if j.state, ok = types[cmp.Or(j.State, "fp32")]; !ok {
		return fmt.Errorf("compile: state is %q, bf16, fp16 and fp32 are possible", j.State)
	}
	if j.Warm < 0 || j.Warm > len(j.History) {
		return fmt.Errorf("compile: %d prefill groups of layers with a state, 0 to %d are possible", j.Warm, len(j.History))
	}
	return nil
}

// linearGroups are the shape groups of a layer with a state.
func (j *job) linearGroups() []axmodel.SoftGroup {
	return axmodel.LinearLadder(j.Chunk, cmp.Or(j.Warm, len(j.History)))
}

// linear plans a gated delta-net layer.
func (j *job) linear(i int, flags uint32) (f file, err error) {
	a := j.a
	f.header = axmodel.Header{Kind: axmodel.Linear, Flags: flags, Hidden: a.Hidden, Heads: a.ValueHeads, KVHeads: a.KeyHeads,
		HeadDim: a.KeyDim, ValueDim: a.ValueDim, Conv: a.Convolution, State: j.state, Intermediate: a.Intermediate, Eps: float32(*a.Eps),
		Pos: 1, Index: i, Tool: j.Tool}
	values, channels := a.ValueHeads*a.ValueDim, f.header.Channels()
	// What decides how long a state remembers is a thousandth of a layer: it keeps its bits.
	small := axmodel.BF16Fours
	return f, j.parts(&f.tensors, fmt.Sprintf("%slayers.%d.", j.prefix, i), []part{
		{"input_norm", "input_layernorm.weight", axmodel.F32, 1, a.Hidden},
		{"qkv", "linear_attn.in_proj_qkv.weight", j.dtype, channels, a.Hidden},
		{"z", "linear_attn.in_proj_z.weight", j.dtype, values, a.Hidden},
		{"b", "linear_attn.in_proj_b.weight", small, a.ValueHeads, a.Hidden},
		{"a", "linear_attn.in_proj_a.weight", small, a.ValueHeads, a.Hidden},
		{"conv", "linear_attn.conv1d.weight", axmodel.F32, channels, a.Convolution},
		{"dt_bias", "linear_attn.dt_bias", axmodel.F32, 1, a.ValueHeads},
		{"a_log", "linear_attn.A_log", axmodel.F32, 1, a.ValueHeads},
		{"norm", "linear_attn.norm.weight", axmodel.F32, 1, a.ValueDim},
		{"o", "linear_attn.out_proj.weight", j.dtype, a.Hidden, values},
		{"post_norm", "post_attention_layernorm.weight", axmodel.F32, 1, a.Hidden},
		{"gate", "mlp.gate_proj.weight", j.dtype, a.Intermediate, a.Hidden},
		{"up", "mlp.up_proj.weight", j.dtype, a.Intermediate, a.Hidden},
		{"down", "mlp.down_proj.weight", j.dtype, a.Hidden, a.Intermediate}})
}
