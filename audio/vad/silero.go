package vad

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/axle-llm/axle/audio/onnx"
)

// Window is how many samples a [Silero] hears at a time: 32 ms.
const Window = 512

const (
	before = 64  // samples of the window before that it hears again
	basis  = 256 // samples of a transform
	bins   = basis/2 + 1
	spans  = 4   // transforms of a window, half a transform apart
	width  = 128 // of the state
)

// Silero is the net "Silero VAD", of version 5 or 6: a transform, four convolutions, a recurrent
// layer, and one number from its state.
type Silero struct {
	transform matrix
	convs     [4]conv
	recurrent matrix // rows in fours: the gates of one place of the state, over input and state
	bias      []float32
	last      []float32
	lastBias  float32
}

// layers are the convolutions: of three values, padded by one on each side.
var layers = [4]struct{ in, out, stride int }{{bins, 128, 1}, {128, 64, 2}, {64, 64, 2}, {64, 128, 1}}

// conv has a matrix for each of its three values.
type conv struct {
	taps [3]matrix
	bias []float32
}

// ReadSilero reads the net's weights from its ONNX file, which has it once for 16,000 samples a
// second and may have it once more for 8,000. Another net, a net of that name in another form,
// damaged and hostile files are errors.
func ReadSilero(file []byte) (*Silero, error) {
	g, err := onnx.Read(file)
	if err != nil {
		return nil, fmt.Errorf("vad: %w", err)
	}
	const mark = "stft.forward_basis_buffer"
	var form []*onnx.Graph
	g.Walk(func(g *onnx.Graph) {
		for _, t := range g.Tensors {
			if strings.HasSuffix(t.Name, mark) && slices.Equal(t.Dims, []int{2 * bins, 1, basis}) {
				form = append(form, g)
			}
		}
	})
	if len(form) != 1 {
		return nil, fmt.Errorf("vad: the file has %d nets with the transform of Silero VAD 5 and 6 for 16,000 samples a second, not one: "+
			"other versions are not read", len(form))
	}
	r := weights{graph: form[0]}
	m := &Silero{transform: newMatrix(r.take(mark, 2*bins, 1, basis), 2*bins, basis)}
	names := []string{r.name}
	for i, l := range layers {
		w := r.take(fmt.Sprintf("encoder.%d.reparam_conv.weight", i), l.out, l.in, 3)
		names = append(names, r.name)
		for tap := range m.convs[i].taps {
			of := make([]float32, 0, len(w)/3)
			for at := tap; at < len(w); at += 3 {
				of = append(of, w[at])
			}
			m.convs[i].taps[tap] = newMatrix(of, l.out, l.in)
		}
		m.convs[i].bias = r.take(fmt.Sprintf("encoder.%d.reparam_conv.bias", i), l.out)
	}
	input, state := r.take("decoder.rnn.weight_ih", 4*width, width), r.take("decoder.rnn.weight_hh", 4*width, width)
	inputBias, stateBias := r.take("decoder.rnn.bias_ih", 4*width), r.take("decoder.rnn.bias_hh", 4*width)
	m.last = r.take("decoder.decoder.2.weight", 1, width, 1)
	names = append(names, r.name)
	lastBias := r.take("decoder.decoder.2.bias", 1)
	if r.err != nil {
		return nil, r.err
	}
	if err := check(form[0], names); err != nil {
		return nil, fmt.Errorf("vad: the file names its weights as Silero VAD 5 and 6 do, but %w", err)
	}
	m.lastBias = lastBias[0]
	both := make([]float32, 0, 2*len(input))
	for i := range width {
		for gate := range 4 {
			row := gate*width + i
			both = append(append(both, input[row*width:][:width]...), state[row*width:][:width]...)
			m.bias = append(m.bias, inputBias[row]+stateBias[row])
		}
	}
	m.recurrent = newMatrix(both, 4*width, 2*width)
	return m, nil
}

// weights takes tensors from a graph, until one is not as it should be.
type weights struct {
	graph *onnx.Graph
	name  string // of the one taken last
	err   error
}

// take takes the values of the tensor whose name ends so, or as many zeros if there is an error.
func (r *weights) take(ending string, dims ...int) []float32 {
	n := 1
	for _, d := range dims {
		n *= d
	}
	none := make([]float32, n)
	if r.err != nil {
		return none
	}
	var found []onnx.Tensor
	for _, t := range r.graph.Tensors {
		if strings.HasSuffix(t.Name, ending) {
			found = append(found, t)
		}
	}
	if len(found) != 1 {
		r.err = fmt.Errorf("vad: Silero's net has %d tensors %s, not one", len(found), ending)
		return none
	}
	t := found[0]
	if !slices.Equal(t.Dims, dims) {
		r.err = fmt.Errorf("vad: Silero's tensor %s is %v, not %v", ending, t.Dims, dims)
		return none
	}
	v, err := t.Float32s()
	if err != nil {
		r.err = fmt.Errorf("vad: %w", err)
		return none
	}
	for _, x := range v {
		if x-x != 0 {
			r.err = fmt.Errorf("vad: Silero's tensor %s has %v: the file is damaged", ending, x)
			return none
		}
	}
	r.name = t.Name
	return v
}

// check looks whether a graph computes what this package does: the operations that are more than
// moving numbers, their order, and the strides and pads of convolutions.
func check(g *onnx.Graph, weights []string) error {
	var ops []string
	convs, nested := 0, 0
	for i := range g.Nodes {
		n := &g.Nodes[i]
		if strings.Contains(moves, " "+n.Op+" ") {
			continue
		}
		ops = append(ops, n.Op)
		if n.Op != "Conv" {
			continue
		}
		stride, pads := []int64{1}, []int64{0, 0}
		switch convs {
		case 0:
			stride = []int64{basis / 2}
		case 1, 2, 3, 4:
			stride, pads = []int64{int64(layers[convs-1].stride)}, []int64{1, 1}
		}
		if convs < len(weights) && (len(n.Inputs) < 2 || n.Inputs[1] != weights[convs]) ||
			!slices.Equal(n.Find("strides").Ints, stride) || !slices.Equal(n.Find("pads").Ints, pads) {
			return fmt.Errorf("convolution %d has other weights, strides or pads", convs)
		}
		convs++
	}
	if got := strings.Join(ops, " "); got != computes {
		return fmt.Errorf("it computes %.200s instead of %s", got, computes)
	}
	var err error
	g.Walk(func(inner *onnx.Graph) {
		for i := range inner.Nodes {
			n := &inner.Nodes[i]
			switch {
			case inner == g || strings.Contains(moves, " "+n.Op+" "):
			case n.Op != "LSTM" || n.Find("hidden_size").Int != width || n.Find("direction").Text != "":
				err = fmt.Errorf("it has a %.40s of another form within", n.Op)
			default:
				nested++
			}
		}
	})
	if err == nil && nested == 0 {
		err = errors.New("it has no LSTM")
	}
	return err
}

const (
	computes = "Pad Conv Pow Pow Add Sqrt Conv Relu Conv Relu Conv Relu Conv Relu Relu Conv Sigmoid ReduceMean"
	moves    = " Cast Concat Constant ConstantOfShape Equal Gather Identity If Not Reshape Shape Size Slice Squeeze Transpose Unsqueeze "
)

// Stream is what a [Silero] remembers of one source of sound.
type Stream struct {
	net   *Silero
	heard [before + Window + before]float32 // the last samples of the window before, the window, its end mirrored
	input [2 * width]float32                // of the recurrent layer: what the convolutions found, and the state
	cell  [width]float32

	spectrum [2*bins + 2]float32
	gates    [4 * width]float32
	values   [5][spans][]float32 // before, between and after the convolutions
}

// NewStream begins a stream, in silence.
func (m *Silero) NewStream() *Stream {
	s := &Stream{net: m}
	for at := range s.values {
		n := bins
		if at > 0 {
			n = layers[at-1].out
		}
		for span := range s.values[at] {
			s.values[at][span] = make([]float32, n)
		}
	}
	return s
}

// Next gives the probability that somebody speaks in the next [Window] samples. Another number of
// samples, or a sample that is no number, is an error, and the stream is as before. It allocates
// nothing.
func (s *Stream) Next(window []float32) (float32, error) {
	if len(window) != Window {
		return 0, fmt.Errorf("vad: a window of %d samples, not %d", len(window), Window)
	}
	for i, x := range window {
		if x-x != 0 {
			return 0, fmt.Errorf("vad: sample %d of a window is %v", i, x)
		}
	}
	heard := s.heard[:]
	copy(heard, heard[Window:][:before])
	copy(heard[before:], window)
	for i := range before {
		heard[before+Window+i] = heard[before+Window-2-i]
	}
	for span := range spans {
		s.net.transform.times(s.spectrum[:], heard[span*basis/2:][:basis], false)
		for i := range bins {
			re, im := s.spectrum[i], s.spectrum[bins+i]
			s.values[0][span][i] = float32(math.Sqrt(float64(re*re + im*im)))
		}
	}
	n := spans
	for at := range s.net.convs {
		n = s.net.convs[at].run(s.values[at+1][:], s.values[at][:n], layers[at].stride)
	}
	copy(s.input[:], s.values[len(s.values)-1][0])
	copy(s.gates[:], s.net.bias)
	s.net.recurrent.times(s.gates[:], s.input[:], true)
	sum := s.net.lastBias
	for i := range width {
		in, forget, cell, out := s.gates[4*i], s.gates[4*i+1], s.gates[4*i+2], s.gates[4*i+3]
		s.cell[i] = sigmoid(forget)*s.cell[i] + sigmoid(in)*tanh(cell)
		h := sigmoid(out) * tanh(s.cell[i])
		s.input[width+i] = h
		sum += max(h, 0) * s.net.last[i]
	}
	return sigmoid(sum), nil
}

func sigmoid(x float32) float32 { return float32(1 / (1 + math.Exp(-float64(x)))) }
func tanh(x float32) float32    { return float32(math.Tanh(float64(x))) }

// run computes a layer, and says how many values in time it has.
func (c *conv) run(to, from [][]float32, stride int) int {
	n := (len(from)-1)/stride + 1
	for t := range n {
		copy(to[t], c.bias)
		for tap := range c.taps {
			if at := t*stride + tap - 1; at >= 0 && at < len(from) {
				c.taps[tap].times(to[t], from[at], true)
			}
		}
		for i, v := range to[t] {
			to[t][i] = max(v, 0)
		}
	}
	return n
}

// matrix has a multiple of four rows; the last may be zeros.
type matrix struct {
	cols int
	w    []float32
}

func newMatrix(w []float32, rows, cols int) matrix {
	return matrix{cols, append(w, make([]float32, (rows+3)/4*4*cols-len(w))...)}
}

// times writes the product with x to y, or adds it. Four rows at a time keep four sums going.
func (m *matrix) times(y, x []float32, add bool) {
	n := m.cols
	x = x[:n]
	for i, w := 0, m.w; len(w) > 0; i, w = i+4, w[4*n:] {
		a, b, c, d := w[:n], w[n:][:n], w[2*n:][:n], w[3*n:][:n]
		var s0, s1, s2, s3 float32
		for k, v := range x {
			s0 += a[k] * v
			s1 += b[k] * v
			s2 += c[k] * v
			s3 += d[k] * v
		}
		out := y[i:][:4]
		if add {
			s0, s1, s2, s3 = s0+out[0], s1+out[1], s2+out[2], s3+out[3]
		}
		out[0], out[1], out[2], out[3] = s0, s1, s2, s3
	}
}
