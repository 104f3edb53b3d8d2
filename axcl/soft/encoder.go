package soft

import (
	"encoding/binary"
	"fmt"
	"math"
	"slices"

	"github.com/axle-llm/axle/axcl/soft/kernel"
	"github.com/axle-llm/axle/axmodel"
)

// encoder computes pictures: pixels -> patches -> the tower's blocks, in which every patch sees
// every other -> rows, each of merge × merge patches side by side. Patches stand in the order of
// rows throughout: in blocks of merge × merge. All is float32; the memory is made once.
type encoder struct {
	*file
	pool *pool
	set  kernel.Set
	n    int // patches

	patch, qkv, o, fc1, fc2                       kernel.Weights
	patchBias, pos, qkvBias, oBias, fc1Bias, bias []float32 // bias is fc2's
	norms                                         [2]affineNorm
	merge                                         merger
	deep                                          []merger // by the order of outputs
	cos, sin                                      []float32

	pixels, x, a, qkvs, att, mid, ones []float32
	rows, out                          []float32
	work                               []sightroom

	// the task at hand
	w          kernel.Weights
	in, dst, b []float32
	of         int // rows of in
	block      int
	multiply   func(worker, i int)
	attend     func(worker, i int)
}

// sightroom is what a worker computes a head's attention in.
type sightroom struct {
	*kernel.Scratch
	q, k, v, score, out []float32
}

// affineNorm is a LayerNorm's factors and addends, those of block after block.
type affineNorm struct{ weight, bias []float32 }

// merger makes rows of patches.
type merger struct {
	after            int  // the block whose result it takes; the last merger's is the last
	wide             bool // normalises merge × merge patches together, not each
	norm             affineNorm
	fc1, fc2         kernel.Weights // fc1 has no rows where there is one matrix only
	fc1Bias, fc2Bias []float32
}

// queries is how many patches of a head attend at a time.
const queries = 32

func newEncoder(f *file, p *pool, set kernel.Set) (*encoder, error) {
	e := &encoder{file: f, pool: p, set: set, n: f.Down * f.Across}
	if f.Flags&axmodel.FlagShapeOnly != 0 {
		return e, nil
	}
	e.patch, e.qkv, e.o, e.fc1, e.fc2 = f.matrix("patch"), f.matrix("qkv"), f.matrix("o"), f.matrix("fc1"), f.matrix("fc2")
	all := func(name string) []float32 {
		w := f.matrix(name)
		out := make([]float32, w.Rows*w.Cols)
		for r := range w.Rows {
			w.Row(out[r*w.Cols:(r+1)*w.Cols], r)
		}
		return out
	}
	norm := func(name string) affineNorm { return affineNorm{all(name), all(name + "_bias")} }
	e.patchBias, e.pos, e.qkvBias, e.oBias, e.fc1Bias, e.bias = all("patch_bias"), all("pos"), all("qkv_bias"), all("o_bias"),
		all("fc1_bias"), all("fc2_bias")
	e.norms = [2]affineNorm{norm("norm1"), norm("norm2")}
	e.merge = merger{after: f.Blocks - 1, norm: norm("merge_norm"), fc1: f.matrix("merge_fc1"), fc2: f.matrix("merge_fc2"),
		fc1Bias: all("merge_fc1_bias"), fc2Bias: all("merge_fc2_bias")}
	m, last := f.Merged(), -1
	for i, at := range all("deep_at") {
		if at != float32(int(at)) || int(at) <= last || int(at) >= f.Blocks {
			return nil, &axmodel.Error{Path: f.path, What: fmt.Sprintf("gives output %d after block %v of %d", i+1, at, f.Blocks)}
		}
		last = int(at)
		n, out := affineNorm{all("deep_norm")[i*m:][:m], all("deep_norm_bias")[i*m:][:m]}, f.Out
		e.deep = append(e.deep, merger{after: last, wide: true, norm: n, fc1: rowsOf(f.matrix("deep_fc1"), i*m, m),
			fc2: rowsOf(f.matrix("deep_fc2"), i*out, out), fc1Bias: all("deep_fc1_bias")[i*m:][:m],
			fc2Bias: all("deep_fc2_bias")[i*out:][:out]})
	}
	if err := e.angles(all("inv_freq"), all("rope_axis")); err != nil {
		return nil, err
	}
	return e, nil
}

// rowsOf is a part of a matrix.
func rowsOf(w kernel.Weights, from, n int) kernel.Weights {
	at, to := from*w.Cols, (from+n)*w.Cols
	w.Rows = n
	if w.F32 != nil {
		w.F32 = w.F32[at:to]
	} else {
		w.BF16 = w.BF16[at:to]
	}
	return w
}

// place is the row and the column of patch i.
func (e *encoder) place(i int) (y, x int) {
	m := e.Merge
	block, in := i/(m*m), i%(m*m)
	return block/(e.Across/m)*m + in/m, block%(e.Across/m)*m + in%m
}

// angles fills the table of rotations: a frequency turns by its patch's row, axis 1, or its column,
// axis 2.
func (e *encoder) angles(freq, axis []float32) error {
	half := len(freq)
	e.cos, e.sin = make([]float32, e.n*half), make([]float32, e.n*half)
	for i := range e.n {
		y, x := e.place(i)
		for k, f := range freq {
			at := y
			switch axis[k] {
			case 1:
			case 2:
				at = x
			default:
				return &axmodel.Error{Path: e.path, What: fmt.Sprintf("turns a patch by side %v: 1 is down and 2 across", axis[k])}
			}
			s, c := math.Sincos(float64(float32(at) * f))
			e.cos[i*half+k], e.sin[i*half+k] = float32(c), float32(s)
		}
	}
	return nil
}

// bytes is what room makes.
func (e *encoder) bytes() int64 {
	if e.Flags&axmodel.FlagShapeOnly != 0 {
		return 0
	}
	worker := 4*((2*e.n+2*queries)*e.HeadDim+queries*e.n) + int(kernel.ScratchBytes(e.n, 1, 1))
	return int64(4*(e.n*(e.PatchValues()+6*e.Hidden+e.Intermediate)+e.Intermediate+e.Groups[0].Rows*(e.Merged()+e.Out)) +
		e.pool.n*worker)
}

// room makes the memory to compute in.
func (e *encoder) room() {
	if e.Flags&axmodel.FlagShapeOnly != 0 {
		return
	}
	f := func(n, each int) []float32 { return make([]float32, n*each) }
	rows, d, hd := e.Groups[0].Rows, e.Hidden, e.HeadDim
	e.pixels, e.x, e.a, e.qkvs, e.att, e.mid = f(e.n, e.PatchValues()), f(e.n, d), f(e.n, d), f(e.n, 3*d), f(e.n, d), f(e.n, e.Intermediate)
	e.rows, e.out = f(rows, e.Merged()), f(rows, e.Out)
	e.ones = slices.Repeat([]float32{1}, e.Intermediate)
	for range e.pool.n {
		e.work = append(e.work, sightroom{Scratch: kernel.NewScratch(e.n, 1, 1), q: f(queries, hd), k: f(e.n, hd), v: f(e.n, hd),
			score: f(queries, e.n), out: f(queries, hd)})
	}
	e.multiply, e.attend = e.doMultiply, e.doAttend
}

// run computes a picture: out has the rows, then the further outputs, nil where one is not wanted.
func (e *encoder) run(picture []byte, out [][]byte) {
	if e.Flags&axmodel.FlagShapeOnly != 0 {
		e.spell(picture, out)
		return
	}
	e.look(picture)
	d, m := e.Hidden, e.Intermediate
	e.times(e.x, e.pixels, e.patch, e.patchBias, e.n)
	e.set.Add(e.x, e.pos)
	deep := 0
	for b := range e.Blocks {
		e.block = b
		e.normalise(e.a, e.x, e.norms[0].of(b, d), d)
		e.times(e.qkvs, e.a, rowsOf(e.qkv, b*3*d, 3*d), e.qkvBias[b*3*d:][:3*d], e.n)
		e.pool.each(e.Heads, 2*e.n*e.n*e.HeadDim, e.attend)
		e.times(e.a, e.att, rowsOf(e.o, b*d, d), e.oBias[b*d:][:d], e.n)
		e.set.Add(e.x, e.a)
		e.normalise(e.a, e.x, e.norms[1].of(b, d), d)
		e.times(e.mid, e.a, rowsOf(e.fc1, b*m, m), e.fc1Bias[b*m:][:m], e.n)
		for i := 0; i < len(e.mid); i += m {
			e.set.GELU(e.mid[i:i+m], e.ones)
		}
		e.times(e.a, e.mid, rowsOf(e.fc2, b*d, d), e.bias[b*d:][:d], e.n)
		e.set.Add(e.x, e.a)
		if deep < len(e.deep) && e.deep[deep].after == b {
			e.give(&e.deep[deep], out[1+deep])
			deep++
		}
	}
	e.give(&e.merge, out[0])
}

// look takes the picture apart: bytes become numbers from -1 to 1, patch after patch.
func (e *encoder) look(picture []byte) {
	value := func(b byte) float32 { return float32(b)/127.5 - 1 }
	if e.Order == axmodel.InBlocks {
		for i, b := range picture {
			//rule:G21 TestEncoderStrict value(b) => value(max(b, picture[i-i%3], picture[i-i%3+1], picture[i-i%3+2]))
			e.pixels[i] = value(b)
		}
		return
	}
	line := e.Patch * 3 // of a patch
	for i := range e.n {
		y, x := e.place(i)
		for r := range e.Patch {
			from := picture[((y*e.Patch+r)*e.Across+x)*line:][:line]
			to := e.pixels[i*e.PatchValues()+r*line:]
			for k, b := range from {
				to[k] = value(b)
			}
		}
	}
}

func (n affineNorm) of(block, width int) affineNorm {
	return affineNorm{n.weight[block*width:][:width], n.bias[block*width:][:width]}
}

// normalise gives each width of x a mean of zero and a deviation of one, and then the norm's own.
func (e *encoder) normalise(dst, x []float32, norm affineNorm, width int) {
	for i := 0; i < len(x); i += width {
		mean, square := 0.0, 0.0
		for _, v := range x[i : i+width] {
			mean += float64(v)
		}
		mean /= float64(width)
		for _, v := range x[i : i+width] {
			square += (float64(v) - mean) * (float64(v) - mean)
		}
		scale := 1 / math.Sqrt(square/float64(width)+float64(e.Eps))
		for k, v := range x[i : i+width] {
			dst[i+k] = float32((float64(v)-mean)*scale)*norm.weight[k] + norm.bias[k]
		}
	}
}

// times sets dst = w · each of n rows of in + bias, where there is one.
func (e *encoder) times(dst, in []float32, w kernel.Weights, bias []float32, n int) {
	e.dst, e.in, e.w, e.b, e.of = dst, in, w, bias, n
	e.pool.each((w.Rows+kernel.Block-1)/kernel.Block, n*w.Cols*kernel.Block, e.multiply)
}

func (e *encoder) doMultiply(worker, i int) {
	from := i * kernel.Block
	to := min(from+kernel.Block, e.w.Rows)
	e.set.Mul(e.dst, &e.w, kernel.Input{F: e.in[:e.of*e.w.Cols]}, e.of, from, to, e.work[worker].Scratch)
	if len(e.b) == 0 {
		return
	}
	for r := range e.of {
		e.set.Add(e.dst[r*e.w.Rows+from:r*e.w.Rows+to], e.b[from:to])
	}
}

// doAttend computes one head's attention: every patch sees all.
func (e *encoder) doAttend(worker, head int) {
	room, d, hd := &e.work[worker], e.Hidden, e.HeadDim
	at := func(i, which int) []float32 { return e.qkvs[(3*i+which)*d+head*hd:][:hd] }
	for i := range e.n {
		k := room.k[i*hd : (i+1)*hd]
		copy(k, at(i, 1))
		e.turn(k, i)
		for c, v := range at(i, 2) {
			room.v[c*e.n+i] = v
		}
	}
	keys, values := kernel.Weights{Rows: e.n, Cols: hd, F32: room.k}, kernel.Weights{Rows: hd, Cols: e.n, F32: room.v}
	for from := 0; from < e.n; from += queries {
		n := min(queries, e.n-from)
		for i := range n {
			q := room.q[i*hd : (i+1)*hd]
			copy(q, at(from+i, 0))
			e.turn(q, from+i)
			for c := range q {
				q[c] *= e.Scale
			}
		}
		e.set.Mul(room.score, &keys, kernel.Input{F: room.q[:n*hd]}, n, 0, e.n, room.Scratch)
		for i := range n {
			e.set.Softmax(room.score[i*e.n : (i+1)*e.n])
		}
		e.set.Mul(room.out, &values, kernel.Input{F: room.score[:n*e.n]}, n, 0, hd, room.Scratch)
		for i := range n {
			copy(e.att[(from+i)*d+head*hd:], room.out[i*hd:(i+1)*hd])
		}
	}
}

// turn rotates patch i's head by its place.
func (e *encoder) turn(x []float32, i int) {
	half := e.Rotary / 2
	cos, sin := e.cos[i*half:][:half], e.sin[i*half:][:half]
	for k, c := range cos {
		a, b, s := x[k], x[k+half], sin[k]
		x[k], x[k+half] = a*c-b*s, b*c+a*s
	}
}

// give makes rows of what the tower has so far.
func (e *encoder) give(m *merger, out []byte) {
	if out == nil {
		return
	}
	width := e.Hidden
	if m.wide {
		width = e.Merged()
	}
	e.normalise(e.a, e.x, m.norm, width)
	n, in := e.Groups[0].Rows, e.a
	if m.fc1.Rows > 0 {
		e.times(e.rows, e.a, m.fc1, m.fc1Bias, n)
		for i, v := range e.rows {
			e.rows[i] = float32(float64(v) * 0.5 * (1 + math.Erf(float64(v)/math.Sqrt2)))
		}
		in = e.rows
	}
	e.times(e.out, in, m.fc2, m.fc2Bias, n)
	for i, v := range e.out {
		binary.LittleEndian.PutUint32(out[4*i:], math.Float32bits(v))
	}
}

// spell is what an encoder without weights does: row r spells the sum of the picture's bytes plus
// r, as a shape-only package's embedding rows spell a token; further outputs are zero.
func (e *encoder) spell(picture []byte, out [][]byte) {
	sum := uint32(0)
	for _, b := range picture {
		sum += uint32(b)
	}
	for i, b := range out {
		clear(b)
		if i > 0 || b == nil {
			continue
		}
		for r := range e.Groups[0].Rows {
			for bit := range 24 {
				v := float32(1)
				if (sum+uint32(r))>>bit&1 != 0 {
					v = -1
				}
				binary.LittleEndian.PutUint32(b[4*(r*e.Out+bit):], math.Float32bits(v))
			}
		}
	}
}
