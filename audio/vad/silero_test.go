package vad

import (
	"bytes"
	"encoding/binary"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/axle-llm/axle/internal/fuzzguard"
	"github.com/axle-llm/axle/internal/npy"
)

// TestSilero: a net of Silero's form, its weights from a hash, gives the probabilities that
// testdata/make.py computes with NumPy. A second stream of the same net starts anew.
func TestSilero(t *testing.T) {
	m := silero(t)
	b, err := os.ReadFile("testdata/probabilities.npy")
	if err != nil {
		t.Fatal(err)
	}
	a, err := npy.Read(bytes.NewReader(b), 1<<10)
	if err != nil {
		t.Fatal(err)
	}
	want := floats(a.Data)
	sound := hashed(99, len(want)*Window)
	for i := range sound {
		sound[i] = float32(float64(sound[i]) * float64(i/Window/3*7%5) / 4)
	}
	low, high := float32(1), float32(0)
	for range 2 {
		if worst := compare(t, m, sound, want); worst > 1e-5 {
			t.Errorf("probabilities differ by %v", worst)
		}
	}
	for _, p := range want {
		low, high = min(low, p), max(high, p)
	}
	if low > 0.1 || high < 0.5 {
		t.Errorf("probabilities from %v to %v show little", low, high)
	}
}

// TestSileroModel compares with what an ONNX runtime makes of a real model. AXLE_TEST_SILERO is a
// folder that testdata/silero.mjs wrote: the model, some speech, and its probabilities.
func TestSileroModel(t *testing.T) {
	folder := os.Getenv("AXLE_TEST_SILERO")
	if folder == "" {
		t.Skip("SKIPPED: AXLE_TEST_SILERO names no folder: see audio/vad/testdata/silero.mjs")
	}
	read := func(name string) []byte {
		b, err := os.ReadFile(filepath.Join(folder, name))
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	m, err := ReadSilero(read("silero_vad.onnx"))
	if err != nil {
		t.Fatal(err)
	}
	want := floats(read("probabilities.f32"))
	if len(want) < 1800 {
		t.Fatalf("%d windows are less than a minute", len(want))
	}
	worst := compare(t, m, floats(read("speech.f32")), want)
	t.Logf("%d windows: probabilities differ by at most %.1e", len(want), worst)
	if worst > 1e-3 {
		t.Errorf("probabilities differ by %v", worst)
	}
}

// TestReadSileroRefuses: a file with one thing changed is refused, and the error says what.
func TestReadSileroRefuses(t *testing.T) {
	replace := func(name string, values ...float32) func(*file) {
		return func(f *file) {
			for i := range f.tensors {
				if f.tensors[i].name == name {
					copy(f.tensors[i].values, values)
				}
			}
		}
	}
	nan := float32(math.NaN())
	for _, c := range []struct {
		name   string
		change func(*file)
		want   string
	}{
		{"another net", func(f *file) { f.tensors = f.tensors[1:] }, "0 nets"},
		{"two nets", func(f *file) { f.tensors = append(f.tensors, f.tensors[0]) }, "2 nets"},
		{"a missing tensor", func(f *file) { f.tensors = f.tensors[:len(f.tensors)-1] }, "0 tensors decoder.decoder.2.bias"},
		{"a tensor twice", func(f *file) { f.tensors = append(f.tensors, f.tensors[3]) }, "2 tensors encoder.1"},
		{"another size", func(f *file) { f.tensors[1].dims[0] = 127 }, "is [127 129 3], not [128 129 3]"},
		{"too few values", func(f *file) { f.tensors[1].values = f.tensors[1].values[1:] }, "198144 bytes"},
		{"no number", replace("decoder.rnn.bias_hh", 1, nan), "bias_hh has NaN"},
		{"another order", func(f *file) { f.nodes[6], f.nodes[7] = f.nodes[7], f.nodes[6] }, "it computes"},
		{"an operation more", func(f *file) { f.nodes = append(f.nodes, node{op: "Tanh"}) }, "Tanh instead"},
		{"another stride", func(f *file) { f.nodes[8].stride = 1 }, "convolution 2"},
		{"other pads", func(f *file) { f.nodes[1].pad = 1 }, "convolution 0"},
		{"other weights", func(f *file) { f.nodes[10].weight = "encoder.1.reparam_conv.weight" }, "convolution 3"},
		{"another state", func(f *file) { f.hidden = 64 }, "LSTM of another form"},
		{"no state", func(f *file) { f.hidden = 0 }, "no LSTM"},
	} {
		f := sileroFile()
		c.change(f)
		_, err := ReadSilero(f.bytes())
		if err == nil || !strings.HasPrefix(err.Error(), "vad: ") || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v: it does not say %q", c.name, err, c.want)
		}
	}
	whole := sileroFile().bytes()
	for _, n := range []int{0, 1, 100, len(whole) / 2, len(whole) - 1} {
		if _, err := ReadSilero(whole[:n]); err == nil {
			t.Errorf("%d of %d bytes were read", n, len(whole))
		}
	}
}

// TestNext: what is no window leaves the stream as it was; a window allocates nothing.
func TestNext(t *testing.T) {
	m := silero(t)
	a, b := m.NewStream(), m.NewStream()
	window := hashed(5, Window)
	bad := slices.Clone(window)
	bad[77] = float32(math.Inf(1))
	for range 3 {
		if _, err := a.Next(window[:511]); err == nil || !strings.Contains(err.Error(), "511") {
			t.Error(err)
		}
		if _, err := a.Next(bad); err == nil || !strings.Contains(err.Error(), "sample 77") {
			t.Error(err)
		}
		p, err1 := a.Next(window)
		q, err2 := b.Next(window)
		if p != q || err1 != nil || err2 != nil {
			t.Errorf("%v, %v; %v, %v", p, err1, q, err2)
		}
	}
	if n := testing.AllocsPerRun(10, func() { _, _ = a.Next(window) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// FuzzSilero: no file of somebody's takes long, much memory, or a panic; what is read gives
// probabilities.
func FuzzSilero(f *testing.F) {
	//proves:T1
	small := sileroFile()
	for i := range small.tensors { // the form without the weights, which are a megabyte
		small.tensors[i].values = nil
	}
	f.Add(small.bytes())
	f.Add([]byte("\x3a\x00"))
	f.Fuzz(func(t *testing.T, b []byte) {
		var m *Silero
		var err error
		fuzzguard.Check(t, len(b), func() { m, err = ReadSilero(b) })
		if err != nil {
			if !strings.HasPrefix(err.Error(), "vad: ") {
				t.Fatal(err)
			}
			return
		}
		if p, err := m.NewStream().Next(make([]float32, Window)); err != nil || p != p {
			t.Fatal(p, err)
		}
	})
}

// compare gives the largest difference of a new stream's probabilities to want.
func compare(t *testing.T, m *Silero, sound, want []float32) (worst float64) {
	t.Helper()
	s := m.NewStream()
	for i, w := range want {
		p, err := s.Next(sound[i*Window:][:Window])
		if err != nil {
			t.Fatal(err)
		}
		if d := math.Abs(float64(p - w)); !(d <= worst) {
			worst = d
		}
	}
	return worst
}

func floats(b []byte) []float32 {
	v := make([]float32, len(b)/4)
	for i := range v {
		v[i] = math.Float32frombits(binary.LittleEndian.Uint32(b[4*i:]))
	}
	return v
}

// hashed is n numbers from −½ to ½, as testdata/make.py has them.
func hashed(seed, n int) []float32 {
	v := make([]float32, n)
	for i := range v {
		v[i] = float32(hash(seed, i))
	}
	return v
}

func hash(seed, i int) float64 {
	x := uint32(i) + uint32(seed*1000003)
	for range 2 {
		x = (x ^ x>>16) * 0x45d9f3b
	}
	return float64(x^x>>16)/(1<<32) - 0.5
}

// file is what an ONNX file of Silero's form has.
type file struct {
	tensors []tensor
	nodes   []node
	hidden  int // of the LSTM
}

type tensor struct {
	name   string
	dims   []int
	values []float32
}

type node struct {
	op, weight  string
	stride, pad int
}

// sileroFile has weights from a hash, as testdata/make.py has them.
func sileroFile() *file {
	f := &file{hidden: width}
	add := func(name string, seed int, scale float64, dims ...int) {
		n := 1
		for _, d := range dims {
			n *= d
		}
		v := make([]float32, n)
		for i := range v {
			v[i] = float32(hash(seed, i) * scale)
		}
		f.tensors = append(f.tensors, tensor{name, dims, v})
	}
	add("stft.forward_basis_buffer", 1, 0.5, 2*bins, 1, basis)
	f.nodes = []node{{op: "Pad"}, {"Conv", "stft.forward_basis_buffer", basis / 2, 0}, {op: "Pow"}, {op: "Pow"}, {op: "Add"}, {op: "Sqrt"}}
	for i, l := range layers {
		name := "encoder." + string(rune('0'+i)) + ".reparam_conv."
		add(name+"weight", 10+i, 0.25, l.out, l.in, 3)
		add(name+"bias", 20+i, 0.5, l.out)
		f.nodes = append(f.nodes, node{"Conv", name + "weight", l.stride, 1}, node{op: "Relu"})
	}
	add("decoder.rnn.weight_ih", 30, 1.5, 4*width, width)
	add("decoder.rnn.weight_hh", 31, 0.75, 4*width, width)
	add("decoder.rnn.bias_ih", 32, 0.5, 4*width)
	add("decoder.rnn.bias_hh", 33, 0.5, 4*width)
	add("decoder.decoder.2.weight", 74, 4, 1, width, 1)
	add("decoder.decoder.2.bias", 35, 0.5, 1)
	f.nodes = append(f.nodes, node{op: "Relu"}, node{"Conv", "decoder.decoder.2.weight", 1, 0}, node{op: "Sigmoid"}, node{op: "ReduceMean"})
	return f
}

// bytes writes the file as exporters do: the net is a branch, its weights are constants with other
// names, and beside it is a branch for another rate.
func (f *file) bytes() []byte {
	const prefix = "If_0_then_branch__"
	var net []byte
	for _, t := range f.tensors {
		var raw, dims []byte
		for _, v := range t.values {
			raw = binary.LittleEndian.AppendUint32(raw, math.Float32bits(v))
		}
		for _, d := range t.dims {
			dims = varint(dims, 1, uint64(d))
		}
		value := slices.Concat(dims, varint(nil, 2, 1), message(8, []byte(t.name)), message(9, raw))
		net = append(net, message(1, slices.Concat(message(2, []byte(prefix+t.name)), message(4, []byte("Constant")),
			message(5, slices.Concat(message(1, []byte("value")), message(5, value)))))...)
	}
	for i, n := range f.nodes {
		b := message(4, []byte(n.op))
		if n.op == "Conv" {
			pads := slices.Repeat(varint(nil, 8, uint64(n.pad)), 2)
			b = slices.Concat(message(1, []byte("x")), message(1, []byte(prefix+n.weight)), b,
				message(5, slices.Concat(message(1, []byte("strides")), varint(nil, 8, uint64(n.stride)))),
				message(5, slices.Concat(message(1, []byte("pads")), pads)))
		}
		net = append(net, message(1, b)...)
		if i == len(f.nodes)-5 && f.hidden > 0 {
			lstm := slices.Concat(message(4, []byte("LSTM")), message(5, slices.Concat(message(1, []byte("hidden_size")),
				varint(nil, 3, uint64(f.hidden)))))
			net = append(net, message(1, branch("else_branch", message(1, lstm)))...)
		}
	}
	other := message(5, slices.Concat(varint(nil, 1, 130), varint(nil, 1, 1), varint(nil, 1, 128),
		message(8, []byte("stft.forward_basis_buffer"))))
	return slices.Concat(varint(nil, 1, 8), message(7, slices.Concat(message(1, branch("else_branch", other)),
		message(1, branch("then_branch", net)))))
}

func branch(name string, graph []byte) []byte {
	return slices.Concat(message(4, []byte("If")), message(5, slices.Concat(message(1, []byte(name)), message(6, graph))))
}

func varint(b []byte, number int, v uint64) []byte {
	return binary.AppendUvarint(binary.AppendUvarint(b, uint64(number)<<3), v)
}

func message(number int, b []byte) []byte {
	return append(binary.AppendUvarint(binary.AppendUvarint(nil, uint64(number)<<3|2), uint64(len(b))), b...)
}

func silero(t testing.TB) *Silero {
	t.Helper()
	m, err := ReadSilero(sileroFile().bytes())
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// BenchmarkSilero: a window of 32 ms.
func BenchmarkSilero(b *testing.B) {
	s := silero(b).NewStream()
	window := hashed(5, Window)
	for b.Loop() {
		if _, err := s.Next(window); err != nil {
			b.Fatal(err)
		}
	}
}
