package modelstest

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"fmt"
	"math"
	"path/filepath"
	"strings"

	"github.com/axle-llm/axle/axcl"
	"github.com/axle-llm/axle/axmodel/graph"
	"github.com/axle-llm/axle/internal/npy"
)

// Diffusion says how a model that draws is made: Stable Diffusion 1.5 of random weights, with all
// of its kinds of operations, narrow and shallow, in one of its three packings.
type Diffusion struct {
	Seed          uint64
	Layout        string    // "LCM", "DPM++" or "Euler"
	Width, Height int       // of its pictures, multiples of 16; 0: 64×48
	Blind         bool      // has no encoder of pictures
	Given, States axcl.Type // of a prompt's states, as its net gives them and as the denoiser takes them; 0 means FP32
	Folder        string    // of its files; empty: the layout's
}

const (
	drawIDs   = 77 // of a prompt
	drawWords = 16 // values of an id's state
	drawWide  = 8  // channels
	drawDeep  = 12 // likewise, of half the size
	drawTime  = 24 // values of a time's embedding
	drawWaves = 16 // of a timestep, before it is embedded
	drawKeep  = 0.1
)

func (e Diffusion) size() (width, height int) { return cmp.Or(e.Width, 64), cmp.Or(e.Height, 48) }

// latent is the size of a latent's planes.
func (e Diffusion) latent() (height, width int) {
	w, h := e.size()
	return h / 8, w / 8
}

func (e Diffusion) folder() string {
	switch {
	case e.Folder != "":
		return e.Folder + "/"
	case e.Layout == "Euler":
		return ""
	}
	return "models/"
}

func (e Diffusion) text() string {
	name := e.folder() + "text_encoder/sd15_text_encoder_sim.axmodel"
	if e.Layout == "Euler" {
		name = strings.Replace(name, "text_encoder/", "", 1)
	}
	return name
}

// time is the denoiser's second input.
func (e Diffusion) time() string {
	if e.Layout == "Euler" {
		return "timestep"
	}
	return "/down_blocks.0/resnets.0/act_1/Mul_output_0"
}

func (e Diffusion) decoded() string {
	if e.Layout == "LCM" {
		return "x"
	}
	return "latent"
}

// drawMerges are those of the tokenizer, whose other tokens are the bytes.
var drawMerges = []string{"c a", "ca t</w>", "d o", "do g</w>", "r e", "re d</w>"}

// drawTokens are the tokens, by id. The last two go around a prompt.
func drawTokens() (all []string) {
	var symbols []string
	for b := range 256 {
		if b > ' ' && b < 127 || b > 160 && b != 173 {
			symbols = append(symbols, string(rune(b)))
		}
	}
	for i := 0; len(symbols) < 256; i++ {
		symbols = append(symbols, string(rune(256+i)))
	}
	all = append(all, symbols...)
	for _, s := range symbols {
		all = append(all, s+"</w>")
	}
	for _, m := range drawMerges {
		all = append(all, strings.ReplaceAll(m, " ", ""))
	}
	return append(all, "<|startoftext|>", "<|endoftext|>")
}

// Times are the timesteps whose embeddings the package has; none where the denoiser takes them.
func (e Diffusion) Times() []int {
	switch e.Layout {
	case "LCM":
		return []int{999, 759, 499, 259}
	case "DPM++":
		return []int{999, 962, 921, 876, 827, 772, 710, 640, 561, 474, 380, 285, 197, 123, 69, 35, 15, 6, 2, 0}
	}
	return nil
}

// Write makes a package of random weights, which every software card runs. Oracle draws what it
// draws.
func (e Diffusion) Write(dir string) error {
	if err := layout("Diffusion", e.Layout, "LCM", "DPM++", "Euler"); err != nil {
		return err
	}
	f := &writer{dir: dir}
	w := e.weights()
	at := e.folder()
	for name, g := range map[string]*graph.Graph{e.text(): e.prompts(w), at + "unet.axmodel": e.denoiser(w),
		at + "vae_decoder.axmodel": e.decoder(w), at + "vae_encoder.axmodel": e.encoder(w)} {
		if e.Blind && strings.HasSuffix(name, "encoder.axmodel") && strings.Contains(name, "vae") {
			continue
		}
		f.mkdir(filepath.ToSlash(filepath.Dir(name)))
		f.do(g.Save(f.path(name)))
	}
	for name, data := range e.texts(func(times []int) []byte {
		x := e.embedded(w, times)
		return npyRows(len(x), drawTime, flat(x))
	}) {
		f.text(name, data)
	}
	return f.err
}

// texts are the files beside the nets. rows makes the one of times.
func (e Diffusion) texts(rows func(times []int) []byte) map[string]string {
	at := e.folder()
	vocab := map[string]int{}
	for i, s := range drawTokens() {
		vocab[s] = i
	}
	files := map[string]string{at + "tokenizer/vocab.json": text(vocab),
		at + "tokenizer/merges.txt": "#version: 0.2\n" + strings.Join(drawMerges, "\n") + "\n"}
	switch e.Layout {
	case "LCM":
		files["config.json"] = ""
		files[at+"time_input_txt2img.npy"] = string(rows(e.Times()))
		files[at+"time_input_img2img.npy"] = string(rows([]int{499, 259}))
	case "DPM++":
		files[at+"time_input_dpmpp_20steps.npy"] = string(rows(e.Times()))
	case "Euler":
		files["scheduler/scheduler_config.json"] = text(map[string]any{"_class_name": "EulerDiscreteScheduler", "beta_end": 0.012,
			"beta_schedule": "scaled_linear", "beta_start": 0.00085, "num_train_timesteps": 1000, "prediction_type": "epsilon",
			"steps_offset": 1, "timestep_spacing": "leading"})
	}
	return files
}

// npyRows is a file of rows of numbers as NumPy writes it; nil stands for zeros.
func npyRows(n, width int, v []float64) []byte {
	data := make([]byte, 4*n*width)
	for i, f := range v {
		binary.LittleEndian.PutUint32(data[4*i:], math.Float32bits(float32(f)))
	}
	var b bytes.Buffer
	_ = npy.Write(&b, &npy.Array{Type: "<f4", Dims: []int{n, width}, Data: data}) // to memory
	return b.Bytes()
}

func (e Diffusion) weights() *weights {
	e.Given, e.States, e.Folder, e.Blind = 0, 0, "", false // the same weights
	return draw(e, e.Seed, e.draw)
}

func (e Diffusion) draw(w *weights) {
	conv := func(name string, in, out, k int, scale float64) {
		w.normal(name+".weight", 0, scale/math.Sqrt(float64(in*k*k)), out, in, k, k)
		w.normal(name+".bias", 0, 0.1*scale, out)
	}
	residual := func(name string, in, out, time int) {
		w.norm(name+".norm1", in)
		conv(name+".conv1", in, out, 3, 1)
		if time > 0 {
			w.linear(name+".time", 1, time, out)
		}
		w.norm(name+".norm2", out)
		conv(name+".conv2", out, out, 3, 1)
		if in != out {
			conv(name+".skip", in, out, 1, 1)
		}
	}
	attention := func(name string, wide, of int) {
		w.linear(name+".q", 2, wide, wide)
		w.linear(name+".k", 2, of, wide)
		w.linear(name+".v", 1, of, wide)
		w.linear(name+".out", 1, wide, wide)
	}
	// The text's net.
	w.normal("words", 0, 1, len(drawTokens()), drawWords)
	w.normal("places", 0, 0.3, drawIDs, drawWords)
	for _, name := range []string{"text.norm1", "text.norm2", "text.norm3"} {
		w.norm(name, drawWords)
	}
	attention("text", drawWords, drawWords)
	w.linear("text.up", 1, drawWords, 4*drawWords)
	w.linear("text.down", 1, 4*drawWords, drawWords)
	// The denoiser.
	w.linear("time.1", 1, drawWaves, drawTime)
	w.linear("time.2", 2, drawTime, drawTime)
	conv("unet.in", 4, drawWide, 3, 1)
	residual("unet.res1", drawWide, drawWide, drawTime)
	w.norm("unet.mix.norm", drawWide)
	w.linear("unet.mix.in", 1, drawWide, drawWide)
	for _, name := range []string{"unet.mix.norm1", "unet.mix.norm2", "unet.mix.norm3"} {
		w.norm(name, drawWide)
	}
	attention("unet.mix.self", drawWide, drawWide)
	attention("unet.mix.cross", drawWide, drawWords)
	w.linear("unet.mix.up", 1, drawWide, 8*drawWide)
	w.linear("unet.mix.down", 1, 4*drawWide, drawWide)
	w.linear("unet.mix.out", 1, drawWide, drawWide)
	conv("unet.down", drawWide, drawDeep, 3, 1)
	residual("unet.res2", drawDeep, drawDeep, drawTime)
	conv("unet.up", drawDeep, drawWide, 3, 1)
	residual("unet.res3", 2*drawWide, drawWide, drawTime)
	w.norm("unet.norm", drawWide)
	conv("unet.out", drawWide, 4, 3, drawKeep)
	// The two of pictures.
	conv("vae.post", 4, 4, 1, 1)
	conv("vae.in", 4, drawWide, 3, 1)
	residual("vae.res1", drawWide, drawWide, 0)
	w.norm("vae.norm1", drawWide)
	attention("vae.mid", drawWide, drawWide)
	for i := range 3 {
		conv(fmt.Sprintf("vae.up%d", i), drawWide, drawWide, 3, 1)
	}
	w.norm("vae.norm2", drawWide)
	conv("vae.out", drawWide, 3, 3, 0.7)
	conv("see.in", 3, drawWide, 3, 2)
	for i := range 3 {
		conv(fmt.Sprintf("see.down%d", i), drawWide, drawWide, 3, 1)
	}
	residual("see.res", drawWide, drawWide, 0)
	w.norm("see.norm", drawWide)
	conv("see.out", drawWide, 8, 3, 3)
	conv("see.quant", 8, 8, 1, 1.5)
}

// drawNet is a graph in the making, with the parts of these nets.
type drawNet struct{ builder }

func (g drawNet) conv(x graph.Value, name string, stride int) graph.Value {
	c := graph.Conv{Stride: graph.Both(stride), Pad: g.w.get(name + ".weight").dims[2] / 2}
	return g.Conv2D(x, g.weight(name+".weight"), g.weight(name+".bias"), c)
}

func (g drawNet) group(x graph.Value, name string, eps float32) graph.Value {
	return g.GroupNorm(x, g.weight(name+".weight"), g.weight(name+".bias"), 4, eps)
}

func (g drawNet) residual(x, time graph.Value, name string) graph.Value {
	y := g.conv(g.SiLU(g.group(x, name+".norm1", 1e-5)), name+".conv1", 1)
	if g.w.has(name + ".time.weight") {
		t := g.linear(time, name+".time")
		y = g.Add(y, g.Reshape(t, 1, g.Dims(t)[1], 1, 1))
	}
	y = g.conv(g.SiLU(g.group(y, name+".norm2", 1e-5)), name+".conv2", 1)
	if g.w.has(name + ".skip.weight") {
		x = g.conv(x, name+".skip", 1)
	}
	return g.Add(x, y)
}

func (g drawNet) attention(x, of, mask graph.Value, name string, heads int) graph.Value {
	q := g.linear(x, name+".q")
	d := g.Dims(q)[2] / heads
	x = g.Attention(q, g.linear(of, name+".k"), g.linear(of, name+".v"), mask, heads, float32(1/math.Sqrt(float64(d))))
	return g.linear(x, name+".out")
}

// places are channels of places as rows of places, and planes turns them back.
func (g drawNet) places(x graph.Value) graph.Value {
	d := g.Dims(x)
	return g.Transpose(g.Reshape(x, 1, d[1], d[2]*d[3]), 0, 2, 1)
}

func (g drawNet) planes(x graph.Value, height, width int) graph.Value {
	return g.Reshape(g.Transpose(x, 0, 2, 1), 1, g.Dims(x)[2], height, width)
}

func (g drawNet) doubled(x graph.Value) graph.Value {
	d := g.Dims(x)
	return g.Nearest(x, 2*d[2], 2*d[3])
}

func (e Diffusion) prompts(w *weights) *graph.Graph {
	g := drawNet{newBuilder(w)}
	ids := g.Input("input_ids", axcl.Int32, 1, drawIDs)
	x := g.Reshape(g.Gather(g.weight("words"), g.Reshape(ids, drawIDs), 0), 1, drawIDs, drawWords)
	x = g.Add(x, g.Reshape(g.weight("places"), 1, drawIDs, drawWords))
	later := make([]float32, drawIDs*drawIDs)
	for i := range later {
		if i%drawIDs > i/drawIDs {
			later[i] = -1e9
		}
	}
	mask := g.Const(graph.Float32(later, 1, 1, drawIDs, drawIDs))
	y := g.norm(x, "text.norm1", 1e-5)
	x = g.Add(x, g.attention(y, y, mask, "text", 2))
	y = g.linear(g.norm(x, "text.norm2", 1e-5), "text.up")
	y = g.Mul(y, g.Sigmoid(g.Mul(y, g.Scalar(1.702))))
	x = g.Add(x, g.linear(y, "text.down"))
	g.Output("last_hidden_state", cmp.Or(e.Given, axcl.FP32), g.norm(x, "text.norm3", 1e-5))
	return g.Graph
}

func (e Diffusion) denoiser(w *weights) *graph.Graph {
	g := drawNet{newBuilder(w)}
	height, width := e.latent()
	sample := g.Input("sample", axcl.FP32, 1, 4, height, width)
	var time graph.Value
	if e.Layout == "Euler" {
		rates := make([]float32, drawWaves/2)
		for i := range rates {
			rates[i] = float32(math.Exp(-math.Log(10000) * float64(i) / float64(len(rates))))
		}
		angles := g.Mul(g.Float(g.Reshape(g.Input(e.time(), axcl.Int32, 1), 1, 1)), g.Const(graph.Float32(rates, 1, len(rates))))
		time = g.SiLU(g.linear(g.SiLU(g.linear(g.Concat(1, g.Cos(angles), g.Sin(angles)), "time.1")), "time.2"))
	} else {
		time = g.Input(e.time(), axcl.FP32, 1, drawTime)
	}
	states := g.Input("encoder_hidden_states", cmp.Or(e.States, axcl.FP32), 1, drawIDs, drawWords)
	x := g.residual(g.conv(sample, "unet.in", 1), time, "unet.res1")
	y := g.linear(g.places(g.group(x, "unet.mix.norm", 1e-6)), "unet.mix.in")
	z := g.norm(y, "unet.mix.norm1", 1e-5)
	y = g.Add(y, g.attention(z, z, graph.Value{}, "unet.mix.self", 2))
	y = g.Add(y, g.attention(g.norm(y, "unet.mix.norm2", 1e-5), states, graph.Value{}, "unet.mix.cross", 2))
	z = g.linear(g.norm(y, "unet.mix.norm3", 1e-5), "unet.mix.up")
	halves := g.Split(z, 2, 4*drawWide, 4*drawWide)
	y = g.Add(y, g.linear(g.Mul(halves[0], g.GELU(halves[1])), "unet.mix.down"))
	x = g.Add(x, g.planes(g.linear(y, "unet.mix.out"), height, width))
	y = g.residual(g.conv(x, "unet.down", 2), time, "unet.res2")
	y = g.conv(g.doubled(y), "unet.up", 1)
	x = g.residual(g.Concat(1, y, x), time, "unet.res3")
	// What there is of noise at the end of training is the latent itself.
	g.Output("noise_pred", axcl.FP32, g.Add(sample, g.conv(g.SiLU(g.group(x, "unet.norm", 1e-5)), "unet.out", 1)))
	return g.Graph
}

func (e Diffusion) decoder(w *weights) *graph.Graph {
	g := drawNet{newBuilder(w)}
	height, width := e.latent()
	x := g.conv(g.conv(g.Input(e.decoded(), axcl.FP32, 1, 4, height, width), "vae.post", 1), "vae.in", 1)
	x = g.residual(x, graph.Value{}, "vae.res1")
	y := g.places(g.group(x, "vae.norm1", 1e-6))
	x = g.Add(x, g.planes(g.attention(y, y, graph.Value{}, "vae.mid", 1), height, width))
	for i := range 3 {
		x = g.conv(g.doubled(x), fmt.Sprintf("vae.up%d", i), 1)
	}
	g.Output("image", axcl.FP32, g.conv(g.SiLU(g.group(x, "vae.norm2", 1e-6)), "vae.out", 1))
	return g.Graph
}

func (e Diffusion) encoder(w *weights) *graph.Graph {
	g := drawNet{newBuilder(w)}
	width, height := e.size()
	x := g.conv(g.Input("image_sample", axcl.FP32, 1, 3, height, width), "see.in", 1)
	for i := range 3 {
		x = g.conv(x, fmt.Sprintf("see.down%d", i), 2)
	}
	x = g.SiLU(g.group(g.residual(x, graph.Value{}, "see.res"), "see.norm", 1e-6))
	g.Output("latent_dist", axcl.FP32, g.conv(g.conv(x, "see.out", 1), "see.quant", 1))
	return g.Graph
}
