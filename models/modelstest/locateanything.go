package modelstest

import (
	"context"
	"encoding/base64"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/axle-llm/axle/axcl"
	"github.com/axle-llm/axle/axmodel"
	"github.com/axle-llm/axle/axmodel/axmodeltest"
	"github.com/axle-llm/axle/axmodel/compile"
	"github.com/axle-llm/axle/axmodel/graph"
)

// LocateAnything says how a model is made that answers with places in a picture: a LocateAnything
// of random weights, whose encoder takes and gives what the vendor's does, narrow and shallow,
// before a language model of three layers.
type LocateAnything struct {
	Seed uint64
	Old  bool // the configuration names neither encoder nor vlm_type, as those of the first packages
}

const (
	locateSide   = 40 // patches across and down
	locatePatch  = 14 // pixels
	locateWidth  = 32 // of a patch's row in the encoder
	locateHeads  = 2
	locateEps    = 1e-6
	locatePlaces = 1001
	locateFirst  = 299 // the token <0>
	locateVocab  = locateFirst + locatePlaces
)

// locateWords are the tokens after those of the bytes.
var locateWords = []string{"<|endoftext|>", "<|im_start|>", "<|im_end|>", "<ref>", "</ref>", "<box>", "</box>", "<IMG_CONTEXT>", "<img>",
	"</img>"}

// locateTokens is a tokenizer in the vendor's form, in which all tokens after the bytes are listed
// as special: bytes, locateWords, and the places.
func locateTokens() string {
	var b, special strings.Builder
	for id := 256; id < 256+len(locateWords); id++ {
		fmt.Fprintf(&special, "%d ", id)
	}
	for id := locateFirst; id < locateVocab; id++ {
		fmt.Fprintf(&special, "%d ", id)
	}
	fmt.Fprintf(&b, "430 1\n%d 1 0\n%s258\n%d\n", len(locateWords)+locatePlaces, special.String(), locateVocab)
	for id := range locateVocab {
		text := []byte{byte(id)}
		switch {
		case id >= locateFirst:
			text = fmt.Appendf(nil, "<%d>", id-locateFirst)
		case id >= 256+len(locateWords):
			text = fmt.Appendf(nil, " w%d", id)
		case id >= 256:
			text = []byte(locateWords[id-256])
		}
		fmt.Fprintln(&b, base64.StdEncoding.EncodeToString(text))
	}
	return b.String()
}

// Write makes a package of random weights in dir, with the vendor's files and tensors, which every
// software card runs. It returns the language model's checkpoint, from which an oracle computes
// what the model says: its rows of a picture are those of Look.
func (e LocateAnything) Write(dir string) (*axmodeltest.Checkpoint, error) {
	arch, ok := axmodeltest.Find("qwen2")
	if !ok {
		return nil, fmt.Errorf("modelstest: there is no qwen2")
	}
	arch.Vocab = locateVocab
	from, err := os.MkdirTemp("", "locateanything")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(from)
	c, err := axmodeltest.WriteCheckpoint(from, arch, e.Seed)
	if err != nil {
		return nil, err
	}
	var history []int
	for cells := 0; cells < 511; cells += 64 {
		history = append(history, cells)
	}
	out := filepath.Join(from, "package")
	if _, err := compile.Run(context.Background(), compile.Options{From: from, Out: out, Context: 575, Chunk: 64, History: history,
		Name: "qwen2"}); err != nil {
		return nil, err
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	layers, head := axmodel.Files(out, "qwen2", 64, arch.Layers)
	for _, file := range append(layers, head, filepath.Join(out, axmodel.EmbedFile)) {
		if err := os.Rename(file, filepath.Join(dir, filepath.Base(file))); err != nil {
			return nil, err
		}
	}
	if err := e.graph().Save(filepath.Join(dir, "image_encoder_mlp.axmodel")); err != nil {
		return nil, err
	}
	f := &writer{dir: dir}
	f.text("qwen2_tokenizer.txt", locateTokens())
	config := map[string]any{"template_filename_axmodel": "qwen2_p64_l%d_together.axmodel", "axmodel_num": arch.Layers,
		"filename_post_axmodel": filepath.Base(head), "filename_tokens_embed": axmodel.EmbedFile, "tokens_embed_num": locateVocab,
		"tokens_embed_size": arch.Hidden, "url_tokenizer_model": "qwen2_tokenizer.txt"}
	if !e.Old {
		config["vlm_type"], config["tokenizer_type"], config["model_name"] = "LocateAnythingVL", "LocateAnything", "LocateAnything-3B"
		config["filename_image_encoder_axmodel"] = "image_encoder_mlp.axmodel"
	}
	f.json("config.json", config)
	return c, f.err
}

func (e LocateAnything) weights() *weights { return draw(e.Seed^0x10ca7e, e.Seed, e.draw) }

func (e LocateAnything) draw(w *weights) {
	const d = locateWidth
	hidden, _ := axmodeltest.Find("qwen2")
	w.linear("patch", 3, 3*locatePatch*locatePatch, d)
	w.normal("places", 0, 0.7, locateSide*locateSide, d)
	w.norm("norm1", d)
	for _, name := range []string{"q", "k", "v", "o"} {
		w.linear(name, 1.5, d, d)
	}
	w.norm("norm2", 4*d)
	w.linear("fc1", 1.5, 4*d, 2*d)
	w.linear("fc2", 1.5, 2*d, hidden.Hidden)
}

// graph is the encoder: patches, a block in which each sees all, and the four patches of a row side
// by side through two matrices.
func (e LocateAnything) graph() *graph.Graph {
	g := newBuilder(e.weights())
	const n, d = locateSide * locateSide, locateWidth
	x := g.Input("pixel_values", axcl.FP32, n, 3, locatePatch, locatePatch)
	x = g.linear(g.Reshape(x, 1, n, 3*locatePatch*locatePatch), "patch")
	x = g.Add(x, g.Reshape(g.weight("places"), 1, n, d))
	a := g.norm(x, "norm1", locateEps)
	x = g.Add(x, g.linear(g.Attention(g.linear(a, "q"), g.linear(a, "k"), g.linear(a, "v"), graph.Value{}, locateHeads,
		float32(1/root(d/locateHeads))), "o"))
	x = g.Transpose(g.Reshape(x, locateSide/2, 2, locateSide/2, 2*d), 0, 2, 1, 3)
	x = g.norm(g.Reshape(x, 1, n/4, 4*d), "norm2", locateEps)
	g.Output("image_features", axcl.FP32, g.linear(g.GELU(g.linear(x, "fc1")), "fc2"))
	return g.Graph
}

// Side is how many pixels the encoder's pictures have across and down.
func (LocateAnything) Side() int { return locateSide * locatePatch }

// Look computes the encoder for a picture of Side × Side pixels, red, green and blue of each row by
// row, in float64: its rows.
func (e LocateAnything) Look(picture []byte) [][]float64 {
	w := e.weights()
	x := make(rows, locateSide*locateSide)
	for i := range x {
		top, left := i/locateSide*locatePatch, i%locateSide*locatePatch
		for channel := range 3 {
			for dy := range locatePatch {
				for dx := range locatePatch {
					x[i] = append(x[i], float64(picture[((top+dy)*e.Side()+left+dx)*3+channel])/127.5-1)
				}
			}
		}
	}
	x = w.linear64(x, "patch").plus(w.get("places").rows())
	a := w.norm64(x, "norm1", locateEps)
	x = x.plus(w.linear64(attend(w.linear64(a, "q"), w.linear64(a, "k"), w.linear64(a, "v"), locateHeads, nil), "o"))
	var merged rows
	for y := 0; y < locateSide; y += 2 {
		for col := 0; col < locateSide; col += 2 {
			var four []float64
			for _, at := range []int{y*locateSide + col, y*locateSide + col + 1, (y+1)*locateSide + col, (y+1)*locateSide + col + 1} {
				four = append(four, x[at]...)
			}
			merged = append(merged, four)
		}
	}
	return w.linear64(w.linear64(w.norm64(merged, "norm2", locateEps), "fc1").each(gelu64), "fc2")
}
