package modelstest

import (
	"cmp"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"

	"github.com/axle-llm/axle/axcl"
	"github.com/axle-llm/axle/axmodel/graph"
)

// CLIP says how a pair of encoders of texts and of pictures is made: two transformers of random
// weights, with all the kinds of operations of such models, narrow and shallow.
type CLIP struct {
	Seed   uint64
	Layout string // "CLIP", "CN-CLIP", "jina", "SigLIP2", or "Immich": CLIP's in folders
	Only   string // "text" or "picture": the other net is missing
	Bytes  bool   // pictures are bytes in rows of pixels, and not planes of floats
	Side   int    // of its pictures, a multiple of 8; 0 means 32
	Dims   int    // of its vectors; 0 means 24
}

const (
	clipWide   = 32
	clipHeads  = 4
	clipLayers = 2
	clipPatch  = 8
	clipEps    = 1e-5
)

func (e CLIP) side() int { return cmp.Or(e.Side, 32) }

// family is the layout but for its folders.
func (e CLIP) family() string {
	if e.Layout == "Immich" {
		return "CLIP"
	}
	return e.Layout
}

// Length is how many tokens a text has.
func (e CLIP) Length() int {
	return map[string]int{"CLIP": 77, "CN-CLIP": 52, "jina": 50, "SigLIP2": 64}[e.family()]
}

// Text and Picture are the nets of a package that Write made in dir.
func (e CLIP) Text(dir string) string {
	name := map[string]string{"CLIP": "clip_vit_l14_336px_text_encoder_u16", "CN-CLIP": "cnclip_vit_l14_336px_text_u16",
		"Immich": "textual/model"}[e.Layout]
	return filepath.Join(dir, filepath.FromSlash(cmp.Or(name, "text_encoder")+".axmodel"))
}

// Picture is the net of pictures.
func (e CLIP) Picture(dir string) string {
	name := map[string]string{"CLIP": "clip_vit_l14_336px_image_encoder_all_u16_fc_u8", "CN-CLIP": "cnclip_vit_l14_336px_vision_u16u8",
		"Immich": "visual/model"}[e.Layout]
	return filepath.Join(dir, filepath.FromSlash(cmp.Or(name, "image_encoder")+".axmodel"))
}

// Write makes a package of random weights, which every software card runs.
func (e CLIP) Write(dir string) error {
	if err := layout("CLIP", e.Layout, "CLIP", "CN-CLIP", "jina", "SigLIP2", "Immich"); err != nil {
		return err
	}
	w := e.weights()
	f := &writer{dir: dir}
	save := func(path string, g *graph.Graph) {
		if f.err == nil {
			f.err = os.MkdirAll(filepath.Dir(path), 0o755)
		}
		if f.err == nil {
			f.err = g.Save(path)
		}
	}
	if e.Only != "picture" {
		save(e.Text(dir), e.textGraph(w))
		for name, text := range e.tokenizer() {
			f.text(name, text)
		}
	}
	if e.Only != "text" {
		save(e.Picture(dir), e.pictureGraph(w))
	}
	if e.Layout == "Immich" {
		for _, part := range []string{"textual", "visual"} {
			f.text(part+"/config.json", `{"embed_dim": 24}`)
		}
	}
	return f.err
}

func (e CLIP) weights() *weights {
	e.Only, e.Bytes = "", false
	e.Layout = e.family()
	return draw(e, e.Seed, e.draw)
}

func (e CLIP) draw(w *weights) {
	layers := func(part string) {
		for i := range clipLayers {
			name := fmt.Sprintf("%s.%d", part, i)
			w.norm(name+".norm1", clipWide)
			w.norm(name+".norm2", clipWide)
			for _, p := range []string{".q", ".k", ".v"} {
				w.linear(name+p, 1.5, clipWide, clipWide)
			}
			w.linear(name+".o", 0.5, clipWide, clipWide)
			w.linear(name+".up", 1, clipWide, 2*clipWide)
			w.linear(name+".down", 0.5, 2*clipWide, clipWide)
		}
		w.norm(part+".norm", clipWide)
		w.linear(part+".leave", 1, clipWide, cmp.Or(e.Dims, 24))
	}
	w.normal("text.table", 0, 1, e.vocab(), clipWide)
	w.normal("text.place", 0, 0.3, e.Length(), clipWide)
	layers("text")
	patches := e.side() / clipPatch * e.side() / clipPatch
	w.normal("picture.patch.weight", 0, 1/math.Sqrt(3*clipPatch*clipPatch), clipWide, 3, clipPatch, clipPatch)
	w.normal("picture.patch.bias", 0, 0.1, clipWide)
	w.normal("picture.place", 0, 0.3, patches+1, clipWide) // the last is not used where there is no class
	w.normal("picture.class", 0, 1, 1, clipWide)
	w.norm("picture.enter", clipWide)
	for _, p := range []string{"q", "k", "v", "o"} {
		w.linear("picture.pool."+p, 1, clipWide, clipWide)
	}
	layers("picture")
}

// layers are the transformer's.
func (e CLIP) layers(g builder, x, mask graph.Value, part string) graph.Value {
	act := g.GELU
	switch e.family() {
	case "CLIP":
		act = g.GELUFast
	case "SigLIP2":
		act = g.GELUTanh
	}
	for i := range clipLayers {
		name := fmt.Sprintf("%s.%d", part, i)
		h := g.norm(x, name+".norm1", clipEps)
		a := g.Attention(g.linear(h, name+".q"), g.linear(h, name+".k"), g.linear(h, name+".v"), mask, clipHeads,
			float32(1/math.Sqrt(clipWide/clipHeads)))
		x = g.Add(x, g.linear(a, name+".o"))
		x = g.Add(x, g.linear(act(g.linear(g.norm(x, name+".norm2", clipEps), name+".up")), name+".down"))
	}
	return g.norm(x, part+".norm", clipEps)
}

func (e CLIP) textGraph(w *weights) *graph.Graph {
	g, n := newBuilder(w), e.Length()
	ids := g.Input(map[bool]string{true: "inputs_id", false: "text"}[e.Layout == "jina"], axcl.Int32, 1, n)
	x := g.Gather(g.weight("text.table"), g.Reshape(ids, n), 0)
	x = g.Reshape(g.Add(x, g.weight("text.place")), 1, n, clipWide)
	number := g.Reshape(g.Float(ids), 1, n, 1)
	var mask, row graph.Value
	there := g.Min(number, g.Scalar(1)) // 0 where a token only fills up
	switch e.family() {
	case "CLIP": // each sees those before it; the last token's row counts, whose id is the largest
		later := make([]float32, n*n)
		for i := range later {
			if i%n > i/n {
				later[i] = -10000
			}
		}
		mask = g.Const(graph.Float32(later, 1, 1, n, n))
		row = g.Max(g.Sub(number, g.Scalar(float32(e.vocab()-2))), g.Scalar(0))
	case "jina": // the mean row counts; 1 fills up
		far := g.Max(g.Sub(number, g.Scalar(1)), g.Sub(g.Scalar(1), number))
		there = g.Min(far, g.Scalar(1))
		row = g.Div(there, g.Sum(there, 1))
		fallthrough
	case "CN-CLIP":
		mask = g.Reshape(g.Mul(g.Sub(there, g.Scalar(1)), g.Scalar(10000)), 1, 1, 1, n)
	}
	x = e.layers(g, x, mask, "text")
	switch e.family() {
	case "CN-CLIP":
		x = g.Slice(x, 1, 0, 1)
	case "SigLIP2":
		x = g.Slice(x, 1, n-1, 1)
	default:
		x = g.Sum(g.Mul(x, row), 1)
	}
	g.Output("text_features", axcl.FP32, g.linear(g.Reshape(x, 1, clipWide), "text.leave"))
	return g.Graph
}

func (e CLIP) pictureGraph(w *weights) *graph.Graph {
	g, s := newBuilder(w), e.side()
	var x graph.Value
	if e.Bytes {
		x = g.Transpose(g.Float(g.Input("image", axcl.Uint8, 1, s, s, 3)), 0, 3, 1, 2)
		mean, by := e.norm()
		shift, scale := make([]float32, 3), make([]float32, 3)
		for c := range 3 {
			shift[c], scale[c] = float32(-255*mean[c]), float32(1/(255*by[c]))
		}
		x = g.Mul(g.Add(x, g.Const(graph.Float32(shift, 1, 3, 1, 1))), g.Const(graph.Float32(scale, 1, 3, 1, 1)))
	} else {
		x = g.Input(map[bool]string{true: "image", false: "pixel_values"}[e.family() == "CLIP"], axcl.FP32, 1, 3, s, s)
	}
	x = g.Conv2D(x, g.weight("picture.patch.weight"), g.weight("picture.patch.bias"), graph.Conv{Stride: graph.Both(clipPatch)})
	n := s / clipPatch * s / clipPatch
	x = g.Transpose(g.Reshape(x, 1, clipWide, n), 0, 2, 1)
	place := g.Reshape(g.weight("picture.place"), 1, n+1, clipWide)
	if e.family() == "SigLIP2" {
		x = e.layers(g, g.Add(x, g.Slice(place, 1, 0, n)), graph.Value{}, "picture")
		probe := g.linear(g.Reshape(g.weight("picture.class"), 1, 1, clipWide), "picture.pool.q")
		x = g.linear(g.Attention(probe, g.linear(x, "picture.pool.k"), g.linear(x, "picture.pool.v"), graph.Value{}, clipHeads,
			float32(1/math.Sqrt(clipWide/clipHeads))), "picture.pool.o")
	} else {
		x = g.Add(g.Concat(1, g.Reshape(g.weight("picture.class"), 1, 1, clipWide), x), place)
		x = g.Slice(e.layers(g, g.norm(x, "picture.enter", clipEps), graph.Value{}, "picture"), 1, 0, 1)
	}
	g.Output("image_features", axcl.FP32, g.linear(g.Reshape(x, 1, clipWide), "picture.leave"))
	return g.Graph
}

// norm are the means and deviations of what the net of pictures takes.
func (e CLIP) norm() (mean, deviation [3]float64) {
	if e.family() == "SigLIP2" {
		return [3]float64{.5, .5, .5}, [3]float64{.5, .5, .5}
	}
	return [3]float64{.48145466, .4578275, .40821073}, [3]float64{.26862954, .26130258, .27577711}
}

// layers64 are the transformer's, in float64.
func (e CLIP) layers64(w *weights, x rows, part string, sees func(i, j int) bool) rows {
	act := gelu64
	switch e.family() {
	case "CLIP":
		act = func(v float64) float64 { return v * sigmoid64(1.702*v) }
	case "SigLIP2":
		act = func(v float64) float64 { return v / 2 * (1 + math.Tanh(math.Sqrt(2/math.Pi)*(v+0.044715*v*v*v))) }
	}
	for i := range clipLayers {
		name := fmt.Sprintf("%s.%d", part, i)
		h := w.norm64(x, name+".norm1", clipEps)
		a := attend(w.linear64(h, name+".q"), w.linear64(h, name+".k"), w.linear64(h, name+".v"), clipHeads, sees)
		x = x.plus(w.linear64(a, name+".o"))
		x = x.plus(w.linear64(w.linear64(w.norm64(x, name+".norm2", clipEps), name+".up").each(act), name+".down"))
	}
	return w.norm64(x, part+".norm", clipEps)
}

// OracleText is the vector of a text, in float64. ids are all that the net takes.
func (e CLIP) OracleText(ids []int32) []float64 {
	w := e.weights()
	table, place := w.get("text.table"), w.get("text.place")
	var x rows
	for i, id := range ids {
		row := table.row(int(id))
		for k, v := range place.row(i) {
			row[k] += v
		}
		x = append(x, row)
	}
	var sees func(i, j int) bool
	switch e.family() {
	case "CLIP":
		sees = func(i, j int) bool { return j <= i }
	case "CN-CLIP":
		sees = func(_, j int) bool { return ids[j] != 0 }
	case "jina":
		sees = func(_, j int) bool { return ids[j] != 1 }
	}
	x = e.layers64(w, x, "text", sees)
	row := x[0]
	switch e.family() {
	case "CLIP":
		for i, id := range ids {
			if int(id) == e.vocab()-1 {
				row = x[i]
			}
		}
	case "SigLIP2":
		row = x[len(x)-1]
	case "jina":
		var real rows
		for i, id := range ids {
			if id != 1 {
				real = append(real, x[i])
			}
		}
		row = real.mean()
	}
	return w.linear64(rows{row}, "text.leave")[0]
}

// OraclePicture is the vector of a picture, in float64. pix has three bytes for each pixel, row by
// row.
func (e CLIP) OraclePicture(pix []byte) []float64 {
	w, s := e.weights(), e.side()
	mean, by := e.norm()
	x := newPlanes(3, s, s)
	for i, v := range pix {
		x.v[i%3][i/3] = (float64(v)/255 - mean[i%3]) / by[i%3]
	}
	seen := w.conv2D64(x, "picture.patch", clipPatch, 0).v.turned()
	place := w.get("picture.place")
	var all rows
	if e.family() == "SigLIP2" {
		all = seen
	} else {
		all = append(rows{w.get("picture.class").row(0)}, seen...)
	}
	for i := range all {
		for k, v := range place.row(i) {
			all[i][k] += v
		}
	}
	if e.family() == "SigLIP2" {
		all = e.layers64(w, all, "picture", nil)
		probe := w.linear64(rows{w.get("picture.class").row(0)}, "picture.pool.q")
		all = attend(probe, w.linear64(all, "picture.pool.k"), w.linear64(all, "picture.pool.v"), clipHeads, nil)
		all = w.linear64(all, "picture.pool.o")
	} else {
		all = e.layers64(w, w.norm64(all, "picture.enter", clipEps), "picture", nil)
	}
	return w.linear64(all[:1], "picture.leave")[0]
}

// vocab is how many tokens there are.
func (e CLIP) vocab() int {
	return map[string]int{"CLIP": 512 + 3 + 2, "CN-CLIP": 103 + len(clipChinese), "jina": 4 + len(clipPieces),
		"SigLIP2": 4 + len(clipSigns)}[e.family()]
}

var (
	clipChinese = []string{"[MASK]", "\u2028", "一", "只", "猫", "狗", ",", "cat", "##s", "a"}
	clipPieces  = []string{"▁a", "▁cat", "▁dog", "s", "▁", "c", "a", "t", "d", "o", "g", ",", "猫"}
	clipSigns   = strings.Split("▁ a b c d e f g h i j k l m n o p q r s t u v w x y z , . ! A C", " ")
)

// tokenizer is the files of the tokenizer, by name.
func (e CLIP) tokenizer() map[string]string {
	switch e.Layout {
	case "CN-CLIP":
		list := "[PAD]\n"
		for i := range 99 {
			list += fmt.Sprintf("[unused%d]\n", i+1)
		}
		return map[string]string{"cn_vocab.txt": list + "[UNK]\n[CLS]\n[SEP]\n" + strings.Join(clipChinese, "\n") + "\n"}
	case "jina":
		pieces := []any{[]any{"<s>", 0}, []any{"<pad>", 0}, []any{"</s>", 0}, []any{"<unk>", 0}}
		for i, p := range clipPieces {
			pieces = append(pieces, []any{p, -1 - float64(i)/10})
		}
		return map[string]string{"tokenizer.json": text(map[string]any{
			"added_tokens":   specials("<s>", "<pad>", "</s>", "<unk>"),
			"pre_tokenizer":  map[string]any{"type": "Metaspace", "replacement": "▁", "add_prefix_space": true},
			"decoder":        map[string]any{"type": "Metaspace", "replacement": "▁", "add_prefix_space": true},
			"post_processor": map[string]any{"type": "RobertaProcessing", "cls": []any{"<s>", 0}, "sep": []any{"</s>", 2}},
			"model":          map[string]any{"type": "Unigram", "unk_id": 3, "vocab": pieces},
		})}
	case "SigLIP2":
		vocab := map[string]int{"<pad>": 0, "<eos>": 1, "<bos>": 2, "<unk>": 3}
		for i, s := range clipSigns {
			vocab[s] = 4 + i
		}
		return map[string]string{"tokenizer.json": text(map[string]any{
			"added_tokens":   specials("<pad>", "<eos>", "<bos>", "<unk>"),
			"normalizer":     map[string]any{"type": "Replace", "pattern": map[string]any{"String": " "}, "content": "▁"},
			"post_processor": map[string]any{"type": "RobertaProcessing", "cls": []any{"<bos>", 2}, "sep": []any{"<eos>", 1}},
			"model":          map[string]any{"type": "BPE", "unk_token": "<unk>", "fuse_unk": true, "vocab": vocab, "merges": []string{}},
		})}
	}
	signs := clipAlphabet()
	list := strings.Join(signs, "\n") + "\n" + strings.Join(signs, "</w>\n") + "</w>\nca\ncat</w>\ndo\n<|startoftext|>\n<|endoftext|>\n"
	if e.Layout == "Immich" {
		return map[string]string{"textual/vocab.txt": list}
	}
	return map[string]string{"vocab.txt": list}
}

// specials are added tokens whose ids are their places.
func specials(names ...string) (all []any) {
	for i, name := range names {
		all = append(all, map[string]any{"id": i, "content": name, "special": true})
	}
	return all
}

// clipAlphabet is the signs of the 256 bytes, in CLIP's order: those that can be printed, then the
// others as signs from U+0100 on.
func clipAlphabet() (signs []string) {
	printed := func(b int) bool { return b >= '!' && b <= '~' || b >= 0xa1 && b <= 0xac || b >= 0xae }
	for b := range 256 {
		if printed(b) {
			signs = append(signs, string(rune(b)))
		}
	}
	for n := range 256 - len(signs) {
		signs = append(signs, string(rune(0x100+n)))
	}
	return signs
}
