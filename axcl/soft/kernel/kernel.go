// Package kernel is the arithmetic of the software card: products of weights with rows, attention,
// and the functions applied to each value of a row.
//
// There is a set of kernels for each kind of processor; [Best] is the fastest that this one can
// run, and [Go] runs everywhere. Sets differ in rounding, by a bound that the tests state. Within a
// set a row's result depends on that row alone: not on how many rows are computed together, nor on
// how the weights are cut into blocks. Every function may be called from many goroutines at once,
// if each has its own results. Nothing is allocated.
package kernel

import (
	"fmt"
	"strings"

	"github.com/axle-llm/axle/internal/bf16"
)

//go:generate go run -C avo . -out ../avx2_amd64.s -stubs ../avx2_amd64.go -pkg kernel
//go:generate go run -C avo . -avx512 -out ../avx512_amd64.s -stubs ../avx512_amd64.go -pkg kernel
//go:generate gofmt -w avx2_amd64.go avx512_amd64.go

// Set is the kernels for one kind of processor.
type Set uint8

// The sets there are.
const (
	Go     Set = iota // plain Go, everywhere
	NEON              // every arm64
	Dot               // arm64 with the dot product instructions: a Raspberry Pi 5, for one
	AVX2              // x86 with AVX2 and FMA
	AVX512            // and with AVX-512, its instructions for integers (VNNI) among it
	sets
)

var names = [sets]string{"Go", "NEON", "NEON+dotprod", "AVX2", "AVX512"}

func (s Set) String() string { return names[s] }

// Available lists the sets that this processor can run, the fastest last.
func Available() []Set { return append([]Set{Go}, available()...) }

// Best is the fastest set that this processor can run.
func Best() Set { all := Available(); return all[len(all)-1] }

// Parse finds a set by its name, in small letters; empty means the best. It fails where the
// processor cannot run it.
func Parse(name string) (Set, error) {
	if name == "" {
		return Best(), nil
	}
	var can []string
	for _, s := range Available() {
		if strings.EqualFold(names[s], name) {
			return s, nil
		}
		can = append(can, strings.ToLower(names[s]))
	}
	return Go, fmt.Errorf("kernels %q are not among those that this processor can run: %s", name, strings.Join(can, ", "))
}

// Weights is a matrix as it lies in a file. One of the slices holds the values.
//
// What is read for every token lies in the order in which it is multiplied, so that memory is read
// from one end to the other. Fours are four rows after four, and of four rows 32 values of each in
// turn. Q8 and Q4 are eight rows after eight, and of eight rows blocks of 32 columns in turn: four
// values of each row after four. What is missing of four or eight rows, or of 32 columns, is zeros.
type Weights struct {
	Rows, Cols int
	F32        []float32
	BF16       []uint16
	Fours      []uint16 // bf16 in fours
	Q8         []byte   // in eights: byte 32j + 4r + k of a block is row r's value 4j+k
	Q4         []byte   // the same, two values a byte: the low half is row r's value 4j+k, the high half value 16+4j+k, each plus 8
	Groups     []uint16 // of Q8 and Q4, in eights: eight rows' bf16 scales of each group in turn
	Group      int      // 32 or 128 values
}

const (
	four     = 4           // rows that lie together in fours
	line     = 32          // and how many values of each
	fourLine = four * line // values from one line of a row to the next
	eight    = 8           // rows that lie together in eights
)

// FourValues is how many values a matrix in fours has in memory.
func FourValues(rows, cols int) int { return up(rows, four) * up(cols, line) }

// EightValues is the same of one in eights, and EightScales how many scales it has.
func EightValues(rows, cols int) int { return up(rows, eight) * up(cols, block) }

// EightScales is how many scales a matrix in eights has.
func EightScales(rows, cols, group int) int { return up(rows, eight) * ((cols + group - 1) / group) }

func up(n, to int) int { return (n + to - 1) / to * to }

// at is where a value of a matrix of numbers lies.
func (w *Weights) at(o, i int) int {
	if w.Fours != nil {
		return o/four*four*up(w.Cols, line) + i/line*fourLine + o%four*line + i%line
	}
	return o*w.Cols + i
}

// scale is the scale of row o's block b.
func (w *Weights) scale(o, b int) float32 {
	return wide(w.Groups[(o/eight*((w.Cols+w.Group-1)/w.Group)+b*block/w.Group)*eight+o%eight])
}

// Quantised says whether the weights are multiplied as integers, so that the input must be, too.
func (w *Weights) Quantised() bool { return w.Q8 != nil || w.Q4 != nil }

// Row gives the values of row o.
func (w *Weights) Row(dst []float32, o int) {
	var v [block]int8
	for i := range w.Cols {
		switch {
		case w.Quantised():
			if i%block == 0 {
				w.unpack(&v, o, i/block)
			}
			dst[i] = float32(v[i%block]) * w.scale(o, i/block)
		default:
			dst[i] = w.value(o, i)
		}
	}
}

// value is one of a matrix that is not quantised.
func (w *Weights) value(o, i int) float32 {
	at := w.at(o, i)
	switch {
	case w.Fours != nil:
		return wide(w.Fours[at])
	case w.BF16 != nil:
		return wide(w.BF16[at])
	}
	return w.F32[at]
}

// A quantised block of an input holds its values twice. Weights of eight bits are multiplied with
// sixteen bits of a value, as cards do it: with eight, the input would lose as much as the weights
// have lost. Beside what weights of four bits lose, eight bits lose nothing, and sixteen would take
// twice as long.
const (
	block      = 32       // values of a block
	blockBytes = 128      // of a block of an input
	fineScale  = 40       // where it has the float32 scale of its values of 16 bits; that of those of eight stands behind these
	fine       = 64       // and these values, in the order in which a processor takes them (fineWord)
	finest     = 127 << 8 // the largest of them, so that the largest of eight bits is it exactly
)

func blocks(cols int) int { return (cols + block - 1) / block }

// QuantisedBytes is what a row of an input takes once it is quantised.
func QuantisedBytes(cols int) int { return blocks(cols) * blockBytes }

// Input is n rows to be multiplied: F for weights that are numbers, Q for those that are quantised.
type Input struct {
	F []float32 // n × cols
	Q []byte    // n × QuantisedBytes(cols), made by Quantise
}

// NewInput makes room for n rows of cols values that are multiplied with w.
func NewInput(w *Weights, cols, n int) Input {
	in := Input{F: make([]float32, n*cols)}
	if w.Quantised() {
		in.Q = make([]byte, n*QuantisedBytes(cols))
	}
	return in
}

// From is the input from row r on; what has not been made is left out.
func (in Input) From(r, cols int) Input {
	return Input{F: in.F[r*cols:], Q: in.Q[min(r*QuantisedBytes(cols), len(in.Q)):]}
}

// Block is how many rows of weights are best multiplied in one call.
const Block = 32

// Together is how many rows are enough for weights to be unpacked before they are multiplied.
const Together = 12

const (
	depth  = 768 // columns that are unpacked at a time: a panel of Block rows of them fits the second cache, three rows of input the first
	height = 132 // rows of input that share a panel
)

// Scratch is memory to compute in. Each goroutine needs its own.
type Scratch struct {
	panel []float32 // Block × depth
	sums  []float32 // height × Block × 8
	tile  []float64 // cells of V
	prob  []float64 // and what they weigh
	keys  []uint16
	lanes []float32 // results of integer products
}

// quantRows is how many rows of input at most are multiplied together as integers, with eight of
// weights or sixteen.
const quantRows = 16

// cellTile is how many cells attention takes at a time.
const cellTile = 32

// NewScratch makes room for calls of at most this many rows, and for attention of this many heads
// at a time, of headDim values.
func NewScratch(rows, heads, headDim int) *Scratch {
	s := &Scratch{tile: make([]float64, cellTile*headDim), prob: make([]float64, cellTile*heads), keys: make([]uint16, cellTile*headDim),
		lanes: make([]float32, quantRows*2*eight)}
	if rows >= Together {
		s.panel, s.sums = make([]float32, Block*depth), make([]float32, height*Block*8)
	}
	return s
}

// ScratchBytes is what NewScratch allocates.
func ScratchBytes(rows, heads, headDim int) int64 {
	n := int64(cellTile)*int64(10*headDim+8*heads) + 4*quantRows*2*eight
	if rows >= Together {
		n += 4 * (Block*depth + height*Block*8)
	}
	return n
}

// Mul sets dst[r·w.Rows + o] = w[o] · row r of in, for n rows and o in [from, to).
func (s Set) Mul(dst []float32, w *Weights, in Input, n, from, to int, scratch *Scratch) {
	if n == 0 || to <= from {
		return
	}
	_ = dst[(n-1)*w.Rows+to-1]
	if w.Quantised() {
		_ = in.Q[n*QuantisedBytes(w.Cols)-1]
		_ = w.Groups[EightScales(to, w.Cols, w.Group)-1]
		if w.Q8 != nil {
			_ = w.Q8[EightValues(to, w.Cols)-1]
		} else {
			_ = w.Q4[EightValues(to, w.Cols)/2-1]
		}
		s.mulQuantised(dst, w, in.Q, n, from, to, scratch)
		return
	}
	_ = in.F[n*w.Cols-1]
	switch {
	case w.Fours != nil:
		_ = w.Fours[FourValues(to, w.Cols)-1]
	case w.BF16 != nil:
		_ = w.BF16[to*w.Cols-1]
	default:
		_ = w.F32[to*w.Cols-1]
	}
	s.mulFloat(dst, w, in.F, n, from, to, scratch)
	for r := range n {
		y := dst[r*w.Rows:]
		if i := w.Cols &^ 7; i < w.Cols {
			for o := from; o < to; o++ {
				y[o] += w.tail(o, i, in.F[r*w.Cols+i:(r+1)*w.Cols])
			}
		}
	}
}

// tail is row o of w from column i on, times x: what is left after steps of eight.
func (w *Weights) tail(o, i int, x []float32) float32 {
	var sum float32
	for k, v := range x {
		sum += float32(w.value(o, i+k) * v)
	}
	return sum
}

func wide(v uint16) float32 { return bf16.Float32(v) }

// Scores sets dst[i·stride + j] = key j · q[i], for n rows of q, which are hd long, and the rows of
// keys that list names. Rows of keys are apart by keyStride values; key j begins at its row's value
// at.
func (s Set) Scores(dst []float32, stride int, keys []uint16, keyStride, at int, list []int32, q []float32, n, hd int, scratch *Scratch) {
	for j := 0; j < len(list); j += cellTile {
		part := list[j:min(j+cellTile, len(list))]
		k, ks := rowsOf(keys, keyStride, at, part, hd, scratch)
		s.keys(dst[j:], stride, k, ks, len(part), q, n, hd)
		if i := hd &^ 7; i < hd {
			for r := range n {
				for c := range part {
					var sum float32
					for m := i; m < hd; m++ {
						sum += float32(wide(k[c*ks+m]) * q[r*hd+m])
					}
					dst[r*stride+j+c] += sum
				}
			}
		}
	}
}

// rowsOf gives the named rows so that each is stride after the last: as they lie where they follow
// each other, else copied.
func rowsOf(from []uint16, stride, at int, list []int32, hd int, s *Scratch) ([]uint16, int) {
	if first := int(list[0]); int(list[len(list)-1])-first == len(list)-1 {
		return from[first*stride+at:][:(len(list)-1)*stride+hd], stride
	}
	for j, row := range list {
		copy(s.keys[j*hd:(j+1)*hd], from[int(row)*stride+at:])
	}
	return s.keys, hd
}

// Values adds to sum, n rows of hd, the rows of v that list names, weighted by p: p[i·stride + j]
// is what row j weighs in sum i. Sum i takes the first lengths[i/per] of the list; no lengths mean
// all. It adds in float64, so that the order in which a row meets the rows it sees, which is the
// order of the cells they happen to lie in, does not show in the result.
func (s Set) Values(sum []float64, p []float32, stride int, v []uint16, vStride, at int, list []int32, lengths []int32, per, n, hd int,
	scratch *Scratch) {
	for j := 0; j < len(list); j += cellTile {
		part := list[j:min(j+cellTile, len(list))]
		rows, rs := rowsOf(v, vStride, at, part, hd, scratch)
		for c := range part {
			s.doubleBF16(scratch.tile[c*hd:(c+1)*hd], rows[c*rs:c*rs+hd])
		}
		seen := func(i int) int {
			if lengths == nil {
				return len(part)
			}
			return min(int(lengths[i/per])-j, len(part))
		}
		for i := 0; i < n; {
			cells, to := seen(i), i+per
			for to < n && seen(to) == cells {
				to += per
			}
			if cells > 0 {
				for m := i; m < to; m++ {
					s.doubleF32(scratch.prob[(m-i)*cellTile:][:cells], p[m*stride+j:])
				}
				s.values(sum[i*hd:to*hd], scratch.prob, scratch.tile, cells, to-i, hd)
			}
			i = to
		}
	}
}
