// Package axmodeltest makes models for tests: files in the vendor's container, random checkpoints
// in Hugging Face's format, and an oracle that computes those checkpoints straight, in float64 and
// without a cache. Only tests import it. Its functions may be called from any goroutine.
package axmodeltest

import (
	"encoding/binary"
	"fmt"
	"path/filepath"

	"github.com/axle-llm/axle/axcl"
	"github.com/axle-llm/axle/axmodel"
)

// ONNX writes the vendor's container: protobuf wire format, by hand.
type ONNX struct {
	Producer string // "Pulsar2" when empty
	Doc      string // the tool's version lines when empty
	Weights  int    // bytes of the shared parameter blob
	Groups   []ONNXGroup
}

// ONNXGroup is one shape group. Names are written as they are: give them the group's suffix.
type ONNXGroup struct {
	Inputs, Outputs []axcl.Tensor
}

var elems = map[axcl.Type]uint64{axcl.FP32: 1, axcl.Uint8: 2, axcl.Int8: 3, axcl.Uint16: 4, axcl.Int16: 5, axcl.Int32: 6, axcl.Int64: 7,
	axcl.FP16: 10, axcl.FP64: 11, axcl.Uint32: 12, axcl.Uint64: 13, axcl.BF16: 16}

// Varint appends a protobuf field of wire type 0.
func Varint(b []byte, num int, v uint64) []byte {
	return binary.AppendUvarint(binary.AppendUvarint(b, uint64(num)<<3), v)
}

// Bytes appends a protobuf field of wire type 2.
func Bytes[T string | []byte](b []byte, num int, v T) []byte {
	return append(binary.AppendUvarint(binary.AppendUvarint(b, uint64(num)<<3|2), uint64(len(v))), v...)
}

// ValueInfo is an ONNX ValueInfoProto.
func ValueInfo(t axcl.Tensor) []byte {
	var shape []byte
	for _, d := range t.Shape {
		shape = Bytes(shape, 1, Varint(nil, 1, uint64(d)))
	}
	typ := Bytes(Varint(nil, 1, elems[t.Type]), 2, shape)
	return Bytes(Bytes(nil, 1, t.Name), 2, Bytes(nil, 1, typ))
}

// Marshal gives the file's bytes.
func (o ONNX) Marshal() []byte {
	producer, doc := o.Producer, o.Doc
	if producer == "" {
		producer = "Pulsar2"
	}
	if doc == "" {
		doc = "Pulsar2 Version:  1.6\nPulsar2 Commit: d9911bc5\n"
	}
	var g []byte
	for i, grp := range o.Groups {
		var n []byte
		for _, t := range grp.Inputs {
			n = Bytes(n, 1, t.Name)
		}
		for _, t := range grp.Outputs {
			n = Bytes(n, 2, t.Name)
		}
		n = Bytes(n, 3, fmt.Sprintf("neu_%d", i))
		n = Bytes(n, 4, "neu mode")
		n = Bytes(n, 5, Bytes(Bytes(nil, 1, "neu_name"), 4, fmt.Sprintf("npu_%d", i)))
		g = Bytes(g, 1, n)
	}
	g = Bytes(g, 2, "ax-model")
	w := Varint(nil, 1, uint64(o.Weights))
	w = Varint(w, 2, 2)
	w = Bytes(w, 8, "npu_params")
	g = Bytes(g, 5, Bytes(w, 9, make([]byte, o.Weights)))
	for _, grp := range o.Groups {
		for _, t := range grp.Inputs {
			g = Bytes(g, 11, ValueInfo(t))
		}
	}
	for _, grp := range o.Groups {
		for _, t := range grp.Outputs {
			g = Bytes(g, 12, ValueInfo(t))
		}
	}
	b := Varint(nil, 1, 7)
	b = Bytes(b, 2, producer)
	b = Bytes(b, 6, doc)
	b = Bytes(b, 7, g)
	b = Bytes(b, 8, Varint(nil, 2, 13))
	return Bytes(b, 14, Bytes(Bytes(nil, 1, "extra_data"), 2, ""))
}

// VendorLayer is a decoder layer as the vendor's tool writes it. Each group gives rows n and cells
// h; a group without cells has a dummy cache row.
func VendorLayer(hidden, kv, pos, weights int, groups ...axcl.Group) ONNX {
	o := ONNX{Weights: weights}
	for i, g := range groups {
		t := func(name string, typ axcl.Type, shape ...int) axcl.Tensor {
			if i > 0 {
				name = fmt.Sprintf("%s_%d", name, i)
			}
			return axcl.Tensor{Name: name, Type: typ, Shape: shape}
		}
		n, h := g.Rows, g.Cells
		o.Groups = append(o.Groups, ONNXGroup{
			Inputs: []axcl.Tensor{t("K_cache", axcl.BF16, 1, max(h, 1), kv), t("V_cache", axcl.BF16, 1, max(h, 1), kv),
				t("indices", axcl.Uint32, pos, n),
				t("input", axcl.BF16, 1, n, hidden), t("mask", axcl.BF16, 1, n, h+n)},
			Outputs: []axcl.Tensor{t("K_cache_out", axcl.BF16, 1, n, kv), t("V_cache_out", axcl.BF16, 1, n, kv),
				t("output", axcl.BF16, 1, n, hidden)},
		})
	}
	return o
}

// VendorState is a layer with a state as the vendor's tool writes it: the two states have their
// shapes and types in every group, which gives its rows. indices and mask are not among the inputs
// where hidden says so.
func VendorState(width, weights int, k, v axcl.Tensor, hidden bool, rows ...int) ONNX {
	o := ONNX{Weights: weights}
	for i, n := range rows {
		t := func(name string, typ axcl.Type, shape ...int) axcl.Tensor {
			if i > 0 {
				name = fmt.Sprintf("%s_%d", name, i)
			}
			return axcl.Tensor{Name: name, Type: typ, Shape: shape}
		}
		g := ONNXGroup{
			Inputs: []axcl.Tensor{t("K_cache", k.Type, k.Shape...), t("V_cache", v.Type, v.Shape...),
				t("input", axcl.BF16, 1, n, width)},
			Outputs: []axcl.Tensor{t("K_cache_out", k.Type, k.Shape...), t("V_cache_out", v.Type, v.Shape...),
				t("output", axcl.BF16, 1, n, width)},
		}
		if !hidden {
			g.Inputs = append(g.Inputs, t("indices", axcl.Uint32, 1, n), t("mask", axcl.BF16, 1, n))
		}
		o.Groups = append(o.Groups, g)
	}
	return o
}

// VendorDecoder is a whole decoder in one file: embeddings, K and V of all layers in, logits and K
// and V out, whole or the call's rows alone. Each group gives its rows.
func VendorDecoder(hidden, layers, kv, cells, vocab int, whole bool, rows ...int) ONNX {
	o := ONNX{Weights: 100}
	for i, n := range rows {
		t := func(name string, typ axcl.Type, shape ...int) axcl.Tensor {
			if i > 0 {
				name = fmt.Sprintf("%s_%d", name, i)
			}
			return axcl.Tensor{Name: name, Type: typ, Shape: shape}
		}
		kept := n
		if whole {
			kept = cells
		}
		o.Groups = append(o.Groups, ONNXGroup{
			Inputs: []axcl.Tensor{t("input_embeds", axcl.BF16, 1, n, hidden), t("k_caches", axcl.BF16, 1, layers, cells, kv),
				t("v_caches", axcl.BF16, 1, layers, cells, kv), t("indices", axcl.Uint32, 1, n), t("mask", axcl.BF16, 1, n, cells+n)},
			Outputs: []axcl.Tensor{t("logits", axcl.FP32, 1, n, vocab), t("k_cache", axcl.BF16, 1, layers, kept, kv),
				t("v_cache", axcl.BF16, 1, layers, kept, kv)},
		})
	}
	return o
}

// VendorHead is a post model as the vendor's tool writes it; logits is BF16 or FP32.
func VendorHead(hidden, vocab, weights int, logits axcl.Type, argmax bool) ONNX {
	g := ONNXGroup{Inputs: []axcl.Tensor{{Name: "input", Type: axcl.BF16, Shape: []int{1, 1, hidden}}},
		Outputs: []axcl.Tensor{{Name: "output", Type: logits, Shape: []int{1, 1, vocab}}}}
	if argmax {
		g.Outputs = append(g.Outputs, axcl.Tensor{Name: "indices", Type: axcl.Uint32, Shape: []int{1, 1}})
	}
	return ONNX{Weights: weights, Groups: []ONNXGroup{g}}
}

// WholeFiles names a whole decoder's files in a package that was compiled with this many rows a
// prefill call, into one file or two.
func WholeFiles(dir, whole string, chunk int) []string {
	switch {
	case whole == "one":
		return []string{filepath.Join(dir, axmodel.WholeFile)}
	case chunk > 1:
		return []string{filepath.Join(dir, axmodel.DecodeFile), filepath.Join(dir, axmodel.PrefillFile)}
	}
	return []string{filepath.Join(dir, axmodel.DecodeFile)}
}
