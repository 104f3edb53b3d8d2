package kernel

import (
	"encoding/binary"
	"math"
	"math/rand/v2"
	"os"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/axle-llm/axle/internal/bf16"
)

func TestMul(t *testing.T) {
	for _, kind := range kinds {
		for i, n := range []int{1, 2, 3, 4, 5, 6, 7, 8, 9, 11, 12, 13, 17, 35} {
			for _, cols := range []int{1, 5, 8, 31, 32, 100, 192, 320} {
				checkMul(t, kind, 1+(i*7+cols)%41, cols, n, uint64(cols+n))
			}
		}
		checkMul(t, kind, 9, 2*depth+40, 140, 3)
	}
}

// random makes weights of a kind, their values as float64, and rows of input.
func random(r *rand.Rand, kind string, rows, cols, n int) (w *Weights, exact []float64, in Input) {
	w, exact = &Weights{Rows: rows, Cols: cols}, make([]float64, rows*cols)
	in.F = make([]float32, n*cols)
	for i := range in.F {
		in.F[i] = float32(r.NormFloat64())
	}
	switch kind {
	case "fours":
		w.Fours = make([]uint16, FourValues(rows, cols))
	case "q8", "q8/128":
		w.Q8 = make([]byte, EightValues(rows, cols))
	case "q4", "q4/128":
		w.Q4 = slices.Repeat([]byte{0x88}, EightValues(rows, cols)/2)
	}
	if w.Quantised() {
		if w.Group = block; len(kind) > 2 {
			w.Group = 128
		}
		w.Groups = make([]uint16, EightScales(rows, cols, w.Group))
	}
	for o := range rows {
		for i := range cols {
			at, v, f := o*cols+i, r.IntN(255)-127, float32(r.NormFloat64())
			b := bf16.Round(f)
			if w.Quantised() && i%w.Group == 0 {
				w.Groups[(o/8*((cols+w.Group-1)/w.Group)+i/w.Group)*8+o%8] = bf16.Round(float32(r.ExpFloat64()))
			}
			place := (o/8*blocks(cols)+i/block)*8*block + i%block/4*32 + o%8*4 + i%4 // in eights
			switch {
			case kind == "f32":
				w.F32 = append(w.F32, f)
				exact[at] = float64(f)
			case kind == "bf16":
				w.BF16 = append(w.BF16, b)
				exact[at] = float64(wide(b))
			case kind == "fours":
				w.Fours[(o/4*((cols+31)/32)+i/32)*128+o%4*32+i%32] = b
				exact[at] = float64(wide(b))
			case w.Q8 != nil:
				w.Q8[place] = byte(int8(v))
				exact[at] = float64(v) * float64(w.scale(o, i/block))
			default:
				v = v&15 - 8
				half := (o/8*blocks(cols)+i/block)*4*block + i%16/4*32 + o%8*4 + i%4
				shift := i % block / 16 * 4
				w.Q4[half] = w.Q4[half]&^(15<<shift) | byte(v+8)<<shift
				exact[at] = float64(v) * float64(w.scale(o, i/block))
			}
		}
	}
	return w, exact, in
}

var kinds = []string{"f32", "bf16", "fours", "q8", "q4", "q8/128", "q4/128"}

// quantised is what is left of x in sixteen bits, and in eight.
func quantised(s Set, x []float32) (q []byte, words, bytes []float64) {
	q = make([]byte, QuantisedBytes(len(x)))
	s.Quantise(q, x)
	for i := range x {
		b := q[i/block*blockBytes:]
		scale := func(at int) float64 { return float64(math.Float32frombits(binary.LittleEndian.Uint32(b[at:]))) }
		words = append(words, float64(fineValue(b, i%block))*scale(fineScale))
		bytes = append(bytes, float64(int8(b[i%block]))*scale(block))
	}
	return q, words, bytes
}

// precision is how far a product may lie from the exact one, as a part of the sum of its terms'
// sizes: float32's own.
const precision = 1e-6

// checkMul holds every set against float64, and one row at a time and other blocks against all at
// once, bit for bit.
func checkMul(t *testing.T, kind string, rows, cols, n int, seed uint64) {
	t.Helper()
	w, exact, in := random(rand.New(rand.NewPCG(seed, 1)), kind, rows, cols, n)
	for _, s := range Available() {
		var x []float64
		for r := range n {
			row := in.F[r*cols : (r+1)*cols]
			q, words, bytes := quantised(s, row)
			in.Q = append(in.Q[:r*QuantisedBytes(cols)], q...)
			switch {
			case w.Q8 != nil:
				x = append(x, words...)
			case w.Q4 != nil:
				x = append(x, bytes...)
			default:
				for _, v := range row {
					x = append(x, float64(v))
				}
			}
		}
		scratch := NewScratch(n, 1, 1)
		dst := make([]float32, n*rows)
		s.Mul(dst, w, in, n, 0, rows, scratch)
		for r := range n {
			for o := range rows {
				want, slack := 0.0, 0.0
				for i := range cols {
					p := exact[o*cols+i] * x[r*cols+i]
					want, slack = want+p, slack+math.Abs(p)
				}
				if got := float64(dst[r*rows+o]); math.Abs(got-want) > precision*slack {
					t.Fatalf("%v: %s %d×%d, %d rows: row %d, output %d is %v, want %v ± %v", s, kind, rows, cols, n, r, o, got, want,
						precision*slack)
				}
			}
		}
		again, small := make([]float32, n*rows), NewScratch(1, 1, 1)
		for r := range n {
			for o := 0; o < rows; {
				to := min(o+1+int(seed+uint64(o))%7, rows)
				s.Mul(again[r*rows:], w, in.From(r, cols), 1, o, to, small)
				o = to
			}
		}
		if !slices.Equal(dst, again) {
			t.Fatalf("%v: %s %d×%d: %d rows give other bits than each alone", s, kind, rows, cols, n)
		}
	}
}

func FuzzMul(f *testing.F) {
	f.Add(uint8(1), uint8(7), uint16(33), uint8(3), uint64(9))
	f.Add(uint8(4), uint8(35), uint16(900), uint8(20), uint64(2))
	f.Add(uint8(3), uint8(36), uint16(700), uint8(17), uint64(4))
	f.Fuzz(func(t *testing.T, kind, rows uint8, cols uint16, n uint8, seed uint64) {
		checkMul(t, kinds[int(kind)%len(kinds)], 1+int(rows)%70, 1+int(cols)%2000, 1+int(n)%40, seed)
	})
}

// A quantised input is within half a step of what it was, in every set alike; what is no number
// stays none. Eight bits are rounded from sixteen, which adds the 512th part of a step.
func TestQuantise(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for n := range 100 {
		x := make([]float32, n)
		for i := range x {
			x[i] = float32(r.NormFloat64() * math.Exp(4*r.NormFloat64()))
		}
		if n > 70 {
			clear(x[:40])
		}
		want, _, _ := quantised(Go, x)
		for _, s := range Available() {
			got, words, bytes := quantised(s, x)
			for b := 0; b < len(got); b += blockBytes {
				if a, b := got[b:b+blockBytes], want[b:b+blockBytes]; !slices.Equal(a[:block+4], b[:block+4]) ||
					!slices.Equal(a[fineScale:fineScale+4], b[fineScale:fineScale+4]) || !slices.Equal(a[fine:], b[fine:]) {
					t.Fatalf("%v gives % x, Go % x", s, a, b)
				}
			}
			for i := range x {
				top := float32(0)
				for _, y := range x[i/block*block : min(i/block*block+block, n)] {
					top = max(top, float32(math.Abs(float64(y))))
				}
				if half := float64(top) / finest / 2 * 1.0001; math.Abs(words[i]-float64(x[i])) > half ||
					math.Abs(bytes[i]-float64(x[i])) > 257*half {
					t.Fatalf("%v: %v became %v and %v in a block up to %v", s, x[i], words[i], bytes[i], top)
				}
			}
		}
	}
	for _, bad := range []float32{float32(math.NaN()), float32(math.Inf(1)), float32(math.Inf(-1))} {
		for _, at := range []int{0, 9, 31} {
			x := make([]float32, block)
			x[at], x[3] = bad, 7
			w := &Weights{Rows: 1, Cols: block, Group: block, Groups: slices.Repeat([]uint16{0x3f80}, 8),
				Q8: slices.Repeat([]byte{1}, 8*block)}
			for _, s := range Available() {
				q, _, _ := quantised(s, x)
				y := make([]float32, 1)
				if s.Mul(y, w, Input{Q: q}, 1, 0, 1, NewScratch(1, 1, 1)); !math.IsNaN(float64(y[0])) && !math.IsInf(float64(y[0]), 0) {
					t.Errorf("%v: %v at %d gives %v", s, bad, at, y)
				}
			}
		}
	}
}

// What rounding the input takes from a product, beside the exact one: of eight bits with weights of
// four, which lose far more themselves; weights of eight need sixteen.
func TestInputs(t *testing.T) {
	const rows, cols, n = 40, 768, 9
	for kind, bound := range map[string]float64{"q8": 4e-5, "q8/128": 4e-5, "q4": 6e-3, "q4/128": 6e-3} {
		w, exact, in := random(rand.New(rand.NewPCG(9, 2)), kind, rows, cols, n)
		for _, s := range Available() {
			in.Q = make([]byte, n*QuantisedBytes(cols))
			off, size, dst := 0.0, 0.0, make([]float32, n*rows)
			for r := range n {
				s.Quantise(in.Q[r*QuantisedBytes(cols):], in.F[r*cols:(r+1)*cols])
			}
			s.Mul(dst, w, in, n, 0, rows, NewScratch(n, 1, 1))
			for i, v := range dst {
				want := 0.0
				for c := range cols {
					want += exact[i%rows*cols+c] * float64(in.F[i/rows*cols+c])
				}
				off, size = off+(float64(v)-want)*(float64(v)-want), size+want*want
			}
			if part := math.Sqrt(off / size); !(part <= bound) {
				t.Errorf("%v: %s: products are off by %.7f of their size, more than %v", s, kind, part, bound)
			} else {
				t.Logf("%v: %s: products are off by %.7f of their size", s, kind, part)
			}
		}
	}
}

// Every set's functions of a row give what plain Go gives: bit for bit where values stay apart,
// within float64's rounding where they are added.
func TestRows(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	odd := []float32{0, float32(math.Copysign(0, -1)), 1e-40, 3.4e38, float32(math.Inf(1)), float32(math.Inf(-1)), float32(math.NaN()),
		88.8, -87.4, 65280, 1.00390625}
	for n := 1; n < 70; n++ {
		x, y, w, doubles := make([]float32, n), make([]float32, n), make([]float32, n), make([]float64, n)
		for i := range x {
			doubles[i] = r.NormFloat64() * math.Exp(50*r.NormFloat64())
			x[i], y[i], w[i] = float32(10*r.NormFloat64()), float32(r.NormFloat64()), float32(r.NormFloat64())
			if n%3 == 0 && i%5 == 0 {
				x[i] = odd[(n+i)%len(odd)]
			}
		}
		same := func(what string, s Set, got, want []float32) {
			t.Helper()
			for i := range got {
				if math.Float32bits(got[i]) != math.Float32bits(want[i]) && (got[i] == got[i] || want[i] == want[i]) {
					t.Fatalf("%v: %s of %d: value %d, of %v, is %v, plain Go gives %v", s, what, n, i, x[i], got[i], want[i])
				}
			}
		}
		near := func(what string, s Set, got, want []float32) {
			t.Helper()
			for i := range got {
				if math.Abs(float64(got[i]-want[i])) > 3e-7*math.Abs(float64(want[i])) {
					t.Fatalf("%v: %s of %d: value %d is %v, plain Go gives %v", s, what, n, i, got[i], want[i])
				}
			}
		}
		on := func(s Set, f func(x []float32)) []float32 { c := slices.Clone(x); f(c); return c }
		for _, s := range Available() {
			same("SiLU", s, on(s, func(x []float32) { s.SiLU(x, y) }), on(Go, func(x []float32) { Go.SiLU(x, y) }))
			same("GELU", s, on(s, func(x []float32) { s.GELU(x, y) }), on(Go, func(x []float32) { Go.GELU(x, y) }))
			same("Scale", s, on(s, func(x []float32) { s.Scale(x, 0.3) }), on(Go, func(x []float32) { Go.Scale(x, 0.3) }))
			same("Add", s, on(s, func(x []float32) { s.Add(x, y[:n/2]) }), on(Go, func(x []float32) { Go.Add(x, y[:n/2]) }))
			same("Single", s, on(s, func(x []float32) { s.Single(x, doubles) }), on(Go, func(x []float32) { Go.Single(x, doubles) }))
			h := n / 2
			turn := func(s Set) func([]float32) {
				return func(x []float32) { s.Rotate(x[:h], x[h:2*h], y[:h], w[:h]) }
			}
			same("Rotate", s, on(s, turn(s)), on(Go, turn(Go)))
			near("Softmax", s, on(s, s.Softmax), on(Go, Go.Softmax))
			near("RMSNorm", s, on(s, func(x []float32) { s.RMSNorm(x, x, w, 1e-5) }),
				on(Go, func(x []float32) { Go.RMSNorm(x, x, w, 1e-5) }))
			narrow, wider := make([]uint16, n), make([]float32, n)
			s.Narrow(narrow, x)
			s.Widen(wider, narrow)
			for i, v := range narrow {
				if want := bf16.Round(x[i]); v != want || math.Float32bits(wider[i]) != uint32(want)<<16 {
					t.Fatalf("%v: %v to bf16 and back: %x and %v, want %x", s, x[i], v, wider[i], want)
				}
			}
		}
	}
}

// Attention's products, over cells in a row and cells that lie about, beside float64.
func TestAttention(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	for _, hd := range []int{2, 8, 15, 16, 24, 64, 80, 128} {
		for _, per := range []int{1, 2, 3, 5} {
			const cells, kv = 150, 2
			k := make([]uint16, cells*kv*hd)
			for i := range k {
				k[i] = bf16.Round(float32(r.NormFloat64()))
			}
			var list []int32
			for c := range int32(cells) {
				if c < 70 || r.IntN(3) > 0 {
					list = append(list, c)
				}
			}
			lengths := []int32{int32(len(list)) - 40, int32(len(list)) - 1, int32(len(list)) - 1, int32(len(list))}
			n := per * len(lengths)
			q, p, sum := make([]float32, n*hd), make([]float32, n*len(list)), make([]float64, n*hd)
			for i := range q {
				q[i] = float32(r.NormFloat64())
			}
			for i := range p {
				p[i] = float32(r.Float64())
			}
			for _, s := range Available() {
				scratch := NewScratch(n, n, hd)
				got := make([]float32, n*len(list))
				s.Scores(got, len(list), k, kv*hd, hd, list, q, n, hd, scratch)
				clear(sum)
				s.Values(sum, p, len(list), k, kv*hd, hd, list, lengths, per, n, hd, scratch)
				for i := range n {
					want := make([]float64, hd)
					for j, c := range list {
						dot, slack := 0.0, 0.0
						for m := range hd {
							v := float64(wide(k[int(c)*kv*hd+hd+m]))
							dot, slack = dot+v*float64(q[i*hd+m]), slack+math.Abs(v*float64(q[i*hd+m]))
							if j < int(lengths[i/per]) {
								want[m] += float64(p[i*len(list)+j]) * v
							}
						}
						if math.Abs(float64(got[i*len(list)+j])-dot) > precision*slack {
							t.Fatalf("%v: head dim %d: score %d, %d is %v, want %v", s, hd, i, j, got[i*len(list)+j], dot)
						}
					}
					for m, v := range want {
						if math.Abs(sum[i*hd+m]-v) > 1e-11 {
							t.Fatalf("%v: head dim %d: value %d, %d is %v, want %v", s, hd, i, m, sum[i*hd+m], v)
						}
					}
				}
			}
		}
	}
}

func TestExp(t *testing.T) {
	for x := -86.0; x < 88; x += 0.0137 {
		got, want := float64(Exp(float32(x))), math.Exp(float64(float32(x)))
		if math.Abs(got-want) > 4e-7*want {
			t.Fatalf("exp(%v) = %v, want %v", x, got, want)
		}
	}
	if Exp(-1e30) != 0 || Exp(float32(math.Inf(-1))) != 0 || !math.IsInf(float64(Exp(1e30)), 1) ||
		Exp(float32(math.NaN())) == Exp(float32(math.NaN())) {
		t.Error("the ends")
	}
	for x := -30.0; x < 30; x += 0.01 {
		y := []float32{float32(x)}
		Go.GELU(y, []float32{1})
		if want := 0.5 * x * (1 + math.Tanh(math.Sqrt(2/math.Pi)*(x+0.044715*x*x*x))); math.Abs(float64(y[0])-want) > 2e-6*(1+
			math.Abs(want)) {
			t.Fatalf("gelu(%v) = %v, want %v", x, y[0], want)
		}
		y[0] = float32(x)
		Go.SiLU(y, []float32{1})
		if want := x / (1 + math.Exp(-x)); math.Abs(float64(y[0])-want) > 2e-6*(1+math.Abs(want)) {
			t.Fatalf("silu(%v) = %v, want %v", x, y[0], want)
		}
	}
}

// TestAVX512 says so where the other tests cannot run the kernels for AVX-512.
func TestAVX512(t *testing.T) {
	if runtime.GOARCH == "amd64" && !slices.Contains(Available(), AVX512) {
		t.Skip("the kernels for AVX-512 are not tested: this processor lacks it, or its VNNI")
	}
}

func TestParse(t *testing.T) {
	if s, err := Parse(""); err != nil || s != Best() {
		t.Errorf("%v, %v", s, err)
	}
	if s, err := Parse("go"); err != nil || s != Go {
		t.Errorf("%v, %v", s, err)
	}
	var all []string
	for _, s := range Available() {
		all = append(all, s.String())
	}
	// A run on a certain processor (packaging/arm64.sh) names the sets that must come last there.
	if want := os.Getenv("AXLE_TEST_KERNELS"); want != "" && !strings.HasSuffix(","+strings.Join(all, ","), ","+want) {
		t.Errorf("the kernels are %v, the best last, not %s", all, want)
	}
	if _, err := Parse("abacus"); err == nil {
		t.Error("an unknown set was found")
	}
}
