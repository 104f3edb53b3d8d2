// Hearing writes what train.py learned as a package in SenseVoice's layout, and the recordings of recordings.py as FLAC files:
//
//	go run ./testdata/hearing build/hearing models/hearing/pocket-hearing models/hearing/testdata
//
// The net is the one of model.py, with matrices in bf16. It finds out which rows are sound: those that are not all zeros.
package main

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"

	"github.com/axle-llm/axle/audio"
	"github.com/axle-llm/axle/axcl"
	"github.com/axle-llm/axle/axmodel/graph"
)

// As in speech.py and model.py.
const (
	rows   = 84
	width  = 560
	blocks = 5
	kernel = 7
	eps    = 1e-5

	extra   = 4  // rows before those of sound
	prompts = 16 // numbers that a prompt may hold
)

// said is what the first rows say for each number of the prompt: the language, which is English whatever was asked for, the emotion, the
// event, and whether numbers would be written as such.
var said = [prompts]string{1: "<|NEUTRAL|>", 2: "<|Speech|>", 14: "<|withitn|>", 15: "<|woitn|>"}

const language = "<|en|>"

func main() {
	if len(os.Args) != 4 {
		fmt.Fprintln(os.Stderr, "hearing: say where training wrote, the package's folder, and that of the recordings")
		os.Exit(2)
	}
	if err := errors.Join(export(os.Args[1], os.Args[2]), recordings(filepath.Join(os.Args[1], "recordings"), os.Args[3])); err != nil {
		fmt.Fprintln(os.Stderr, "hearing:", err)
		os.Exit(1)
	}
}

func export(from, into string) error {
	list, err := os.ReadFile(filepath.Join(from, "tokens.txt"))
	if err != nil {
		return err
	}
	w, err := read(filepath.Join(from, "weights.safetensors"))
	if err != nil {
		return err
	}
	if err := os.MkdirAll(into, 0o755); err != nil {
		return err
	}
	path := filepath.Join(into, "model-5-seconds.axmodel")
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	if err := net(w, strings.Split(strings.TrimSpace(string(list)), "\n")).Save(path); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(into, "tokens.txt"), list, 0o644)
}

// recordings copies a folder; WAV files become FLAC.
func recordings(from, into string) error {
	if err := os.MkdirAll(into, 0o755); err != nil {
		return err
	}
	all, err := os.ReadDir(from)
	for _, file := range all {
		b, err := os.ReadFile(filepath.Join(from, file.Name()))
		if err != nil {
			return err
		}
		name, wav := strings.CutSuffix(file.Name(), ".wav")
		if wav {
			samples, info, err := audio.Decode(b, 0, audio.Limits{})
			if err != nil {
				return fmt.Errorf("%s: %w", file.Name(), err)
			}
			name, b = name+".flac", audio.AppendFLAC(nil, samples, info.Rate)
		}
		if err := os.WriteFile(filepath.Join(into, name), b, 0o644); err != nil {
			return err
		}
	}
	return err
}

// net is the graph. A tensor that is missing, or of another shape, is the graph's mistake.
func net(w weights, tokens []string) *graph.Graph {
	g := graph.New()
	vocab := len(tokens)
	table := make([]float32, prompts*vocab)
	for id, token := range said {
		if token == "" {
			token = language
		}
		for i, line := range tokens {
			if strings.HasPrefix(line, token+" ") {
				table[id*vocab+i] = 20
			}
		}
	}
	x := g.Input("x", axcl.FP32, 1, rows, width)
	prompt := g.Input("prompt", axcl.Int32, extra)
	head := g.Reshape(g.Gather(g.Const(graph.Float32(table, prompts, vocab)), prompt, 0), 1, extra, vocab)

	linear := func(x graph.Value, name string) graph.Value {
		return g.Linear(x, g.Const(w[name+".weight"]), g.Const(w[name+".bias"]))
	}
	norm := func(x graph.Value, name string) graph.Value {
		return g.LayerNorm(x, g.Const(w[name+".weight"]), g.Const(w[name+".bias"]), eps)
	}
	one := g.Scalar(1)
	real := g.Min(g.Sum(g.Mul(x, x), 2), one)
	part := g.Div(real, g.Max(g.Sum(real, 1), one))
	x = linear(g.Mul(g.Add(x, g.Const(w["shift"])), g.Const(w["scale"])), "enter")
	for i := range blocks {
		name := fmt.Sprintf("blocks.%d.", i)
		h := g.Mul(g.SiLU(linear(norm(x, name+"norm"), name+"up")), real)
		wide := g.Dims(h)[len(g.Dims(h))-1]
		h = g.Conv1D(g.Transpose(h, 0, 2, 1), g.Const(w[name+"near.weight"]), g.Const(w[name+"near.bias"]),
			graph.Conv{Pad: kernel / 2, Groups: wide})
		h = g.SiLU(g.Transpose(h, 0, 2, 1))
		whole := g.Sum(g.Mul(h, part), 1)
		h = g.Mul(h, g.Sigmoid(linear(g.ReLU(linear(whole, name+"gate_in")), name+"gate_out")))
		x = g.Add(x, linear(h, name+"down"))
		if g.Err() != nil {
			return g
		}
	}
	g.Output("logits", axcl.FP32, g.Concat(1, head, linear(norm(x, "norm"), "leave")))
	return g
}

// weights are tensors by name: matrices are kept in bf16, the others as they are.
type weights map[string]*graph.Weight

// read reads a file that train.py wrote: the length of a header, the header, and float32 values.
func read(path string) (weights, error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	damaged := fmt.Errorf("%s is no file of train.py", path)
	if len(b) < 8 || binary.LittleEndian.Uint64(b) > uint64(len(b)-8) {
		return nil, damaged
	}
	n := 8 + int(binary.LittleEndian.Uint64(b))
	var header map[string]struct {
		Shape   []int
		Offsets [2]int `json:"data_offsets"`
	}
	if err := json.Unmarshal(b[8:n], &header); err != nil {
		return nil, fmt.Errorf("%w: %w", damaged, err)
	}
	w := weights{}
	for name, t := range header {
		if t.Offsets[0] < 0 || t.Offsets[1] < t.Offsets[0] || t.Offsets[1] > len(b)-n {
			return nil, fmt.Errorf("%w: %s lies outside of it", damaged, name)
		}
		data := b[n+t.Offsets[0] : n+t.Offsets[1]]
		values := make([]float32, len(data)/4)
		for i := range values {
			values[i] = math.Float32frombits(binary.LittleEndian.Uint32(data[4*i:]))
		}
		if len(t.Shape) > 1 {
			w[name] = graph.BFloat16(values, t.Shape...)
		} else {
			w[name] = graph.Float32(values, t.Shape...)
		}
	}
	return w, nil
}
