package modelstest

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/axle-llm/axle/axcl"
	"github.com/axle-llm/axle/axmodel/axmodeltest"
)

// spliced is a file of noise between two ends.
type spliced struct {
	head string
	mid  Noise
	tail string
}

// Size is the length of all three.
func (s spliced) Size() int64 { return int64(len(s.head)) + s.mid.N + int64(len(s.tail)) }

// ReadAt reads across them.
func (s spliced) ReadAt(p []byte, off int64) (n int, err error) {
	at := int64(0)
	for _, part := range []Content{bytes.NewReader([]byte(s.head)), s.mid, bytes.NewReader([]byte(s.tail))} {
		if size := part.Size(); off+int64(n) < at+size && n < len(p) {
			k, err := part.ReadAt(p[n:min(int64(len(p)), int64(n)+at+size-off-int64(n))], off+int64(n)-at)
			n += k
			if err != nil && err != io.EOF {
				return n, err
			}
		}
		at += part.Size()
	}
	if n < len(p) {
		return n, io.EOF
	}
	return n, nil
}

// splice replaces the weights of an ONNX file, a run of zeros, by noise.
func splice(o axmodeltest.ONNX, weights int, seed uint64) Content {
	o.Weights = weights
	data := o.Marshal()
	zeros := make([]byte, weights)
	at := bytes.Index(data, zeros)
	return spliced{string(data[:at]), Noise{seed, int64(weights)}, string(data[at+weights:])}
}

// Big is a package of layout A in the vendor's container, with this many layers of this many bytes
// of weights: something to pull.
func Big(layers, weights int, seed uint64) map[string]Content {
	const vocab, hidden = 4096, 64
	out := map[string]Content{
		"model.embed_tokens.weight.bfloat16.bin": Noise{seed, vocab * hidden * 2},
		"qwen3_post.axmodel":                     splice(axmodeltest.VendorHead(hidden, vocab, 8, axcl.BF16, false), weights, seed+1),
		"qwen3_tokenizer.txt":                    bytes.NewReader([]byte("430 1\n0 0 0\n\n1\nYQ==\n")),
		"README.md":                              bytes.NewReader([]byte("# Big")),
		"main_ax650":                             Noise{seed, 100 << 10},
		"other-ax630c/qwen3_p128_l0.axmodel":     Noise{seed, 1 << 20},
	}
	for i := range layers {
		o := axmodeltest.VendorLayer(hidden, 16, 1, 8, axcl.Group{Rows: 1, Cells: 63}, axcl.Group{Rows: 16})
		out[fmt.Sprintf("qwen3_p16_l%d_together.axmodel", i)] = splice(o, weights, seed+2+uint64(i))
	}
	config, _ := json.Marshal(map[string]any{"model_name": "big", "tokenizer_type": "Qwen3", "url_tokenizer_model": "qwen3_tokenizer.txt",
		"template_filename_axmodel": "qwen3_p16_l%d_together.axmodel", "axmodel_num": layers, "filename_post_axmodel": "qwen3_post.axmodel",
		"filename_tokens_embed": "model.embed_tokens.weight.bfloat16.bin", "tokens_embed_num": vocab, "tokens_embed_size": hidden})
	out["config.json"] = bytes.NewReader(config)
	return out
}

// WriteContent writes a file of a package into dir, with the folders it needs.
func WriteContent(dir, name string, c Content) error {
	full := filepath.Join(dir, filepath.FromSlash(name))
	if err := os.MkdirAll(filepath.Dir(full), 0o755); err != nil {
		return err
	}
	f, err := os.Create(full)
	if err != nil {
		return err
	}
	_, err = io.Copy(f, io.NewSectionReader(c, 0, c.Size()))
	return errors.Join(err, f.Close())
}
