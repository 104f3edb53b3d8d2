package compile

import (
	"bufio"
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"math"
	"slices"

	"github.com/axle-llm/axle/axcl"
	"github.com/axle-llm/axle/axmodel"
)

// This file is what Gemma-4 has of its own: heads as long as the layer's kind says, layers at the
// end that use the K and V of earlier ones, and layer inputs: rows that every layer takes in
// addition to the hidden state. The package has the table and the weights that the host makes them
// with.

// Files of a package whose layers have layer inputs.
const (
	layerInputTable   = "model.embed_tokens_per_layer.weight.bfloat16.bin"
	layerInputProject = "model.per_layer_model_projection.weight.npy"
	layerInputNorm    = "model.per_layer_projection_norm.weight.npy"
)

// fourth fills in what Hugging Face's Gemma4TextConfig assumes where the file is silent, and checks
// what is Gemma-4's own.
func (a *architecture) fourth() error {
	def(&a.HeadDim, 256)
	def(&a.GlobalDim, 512)
	def(&a.Pattern, 5)
	a.QueryScalar = 1
	def(&a.Window, new(512))
	if len(a.Parameters) == 0 || string(a.Parameters) == "null" {
		a.Scaling = &ropeConfig{Type: "proportional", Theta: 1_000_000, Partial: new(0.25)}
	}
	switch {
	case a.Experts:
		return fmt.Errorf("enable_moe_block: layers of experts cannot be compiled: take E2B or E4B")
	case a.KIsV:
		return fmt.Errorf("attention_k_eq_v: layers without values of their own cannot be compiled: take E2B or E4B")
	case a.LayerInputs < 1 || a.LayerInputs > 1<<12:
		return fmt.Errorf("hidden_size_per_layer_input is %d: of Gemma-4 those whose layers have inputs of their own can be compiled, "+
			"E2B and E4B", a.LayerInputs)
	case a.LayerInputVocab != 0 && a.LayerInputVocab != a.Vocab:
		return fmt.Errorf("vocab_size_per_layer_input is %d for %d tokens: every token must have a row", a.LayerInputVocab, a.Vocab)
	case a.Shared < 0 || a.Shared >= max(a.Layers, 1):
		return fmt.Errorf("num_kv_shared_layers is %d of %d layers", a.Shared, a.Layers)
	case a.GlobalDim < 2 || a.GlobalDim > 1<<12 || a.GlobalDim%2 != 0:
		return fmt.Errorf("global_head_dim is %d", a.GlobalDim)
	case a.FinalCap != nil && !(*a.FinalCap > 0 && *a.FinalCap < 1e6):
		return fmt.Errorf("final_logit_softcapping is %v", *a.FinalCap)
	}
	return nil
}

// sources checks that every layer that has no K and V of its own finds some: those of the last
// layer of its kind that has.
func (a *architecture) sources() error {
	own := a.Layers - a.Shared
	for i := own; i < a.Layers; i++ {
		if !slices.Contains(a.local[:own], a.local[i]) {
			return fmt.Errorf("layer %d uses the K and V of an earlier %s layer, and there is none", i, a.layerTypes()[i])
		}
	}
	return nil
}

// heads is how layer i's attention is cut: kv heads and the length of a head; shares says that K
// and V are another layer's.
func (a *architecture) heads(i int) (kv, dim int, shares bool) {
	kv, dim = a.KVHeads, a.HeadDim
	if a.family == "gemma4" && !a.local[i] {
		dim = a.GlobalDim
	}
	return kv, dim, i >= a.Layers-a.Shared
}

// inner is the width of layer i's MLP.
func (a *architecture) inner(i int) int {
	if a.Double && i >= a.Layers-a.Shared {
		return 2 * a.Intermediate
	}
	return a.Intermediate
}

// proportion is how many of a head's pairs are turned.
func proportion(partial *float64, dim int) (int, error) {
	if partial == nil {
		return dim / 2, nil
	}
	if !(*partial > 0 && *partial <= 1) {
		return 0, fmt.Errorf("partial_rotary_factor is %v", *partial)
	}
	return int(*partial * float64(dim) / 2), nil
}

// sharing are the shape groups of a layer that uses another's K and V: the rows of a call stand
// behind those of the cache.
func sharing(groups []axmodel.SoftGroup) []axmodel.SoftGroup {
	var out []axmodel.SoftGroup
	for _, g := range groups {
		g.Cache = g.Cells + g.Rows
		out = append(out, g)
	}
	return out
}

// layerInputParts are the tensors of a layer that has layer inputs.
func (j *job) layerInputParts() []part {
	a := j.a
	return []part{{"per_gate", "per_layer_input_gate.weight", j.dtype, a.LayerInputs, a.Hidden},
		{"per_proj", "per_layer_projection.weight", j.dtype, a.Hidden, a.LayerInputs},
		{"per_norm", "post_per_layer_input_norm.weight", axmodel.F32, 1, a.Hidden}}
}

// scalar plans what a layer's result is multiplied by: 1 where the checkpoint does not say.
func (j *job) scalar(f *file, name string) error {
	if j.c.weights[name] == nil {
		f.tensors = append(f.tensors, axmodel.Vector("scalar", axmodel.F32, []float32{1}))
		return nil
	}
	return j.tensor(&f.tensors, "scalar", name, axmodel.F32, 1, 1)
}

// layerInputTensor is a tensor that the host makes layer inputs with: its name in the checkpoint,
// its file, and what config.json calls that.
type layerInputTensor struct {
	name, file, key string
	rows, cols      int
	npy             bool // float32 as numpy has it, else bf16
}

// layerInputTensors are what the host makes layer inputs with.
func (j *job) layerInputTensors() []layerInputTensor {
	all := j.a.Layers * j.a.LayerInputs
	return []layerInputTensor{
		{"embed_tokens_per_layer.weight", layerInputTable, "filename_tokens_embed_per_layer", j.vocab, all, false},
		{"per_layer_model_projection.weight", layerInputProject, "filename_per_layer_model_projection", all, j.a.Hidden, true},
		{"per_layer_projection_norm.weight", layerInputNorm, "filename_per_layer_projection_norm", 1, j.a.LayerInputs, true},
	}
}

// layerInputs finds what the host makes layer inputs with, and counts its bytes.
func (j *job) layerInputs() error {
	for _, t := range j.layerInputTensors() {
		if _, err := j.find(j.prefix+t.name, t.rows, t.cols); err != nil {
			return err
		}
		width := int64(2)
		if t.npy {
			width = 4
		}
		j.total += int64(t.rows) * int64(t.cols) * width
	}
	for _, part := range []string{"vision", "audio"} {
		if j.c.holds("model."+part+"_tower.") || j.c.holds("model.embed_"+part+".") {
			j.notes = append(j.notes, "the checkpoint's "+part+" part is left out: the package takes text")
		}
	}
	return nil
}

// writeLayerInputs writes the table by token, and what else the rows are made with.
func (j *job) writeLayerInputs(ctx context.Context, dir string, config map[string]any) error {
	for _, t := range j.layerInputTensors() {
		config[t.key] = t.file
		row := j.c.weights[j.prefix+t.name].reader(t.name)
		if err := j.create(dir, t.file, func(w io.Writer) error { return j.rows(ctx, w, t.rows, t.cols, t.npy, row) }); err != nil {
			return err
		}
	}
	return nil
}

// rows writes a matrix: as bf16 without a header, or as numpy writes float32.
func (j *job) rows(ctx context.Context, w io.Writer, rows, cols int, npy bool, row func([]float32, int) error) error {
	buf := bufio.NewWriterSize(w, 1<<16)
	if npy {
		npyHeader(buf, rows, cols)
	}
	v, b := make([]float32, cols), make([]byte, 0, 4*cols)
	for r := range rows {
		if r%256 == 0 && ctx.Err() != nil {
			return ctx.Err()
		}
		if err := row(v, r); err != nil {
			return err
		}
		b = b[:0]
		for _, x := range v {
			if npy {
				b = binary.LittleEndian.AppendUint32(b, math.Float32bits(x))
			} else {
				b = binary.LittleEndian.AppendUint16(b, axcl.BFloat16(x))
			}
		}
		if _, err := buf.Write(b); err != nil {
			return err
		}
	}
	return buf.Flush()
}
