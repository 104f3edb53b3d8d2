// Command avo writes the assembly of axcl/soft/kernel for x86: `go generate ./axcl/soft/kernel`
// runs it, and a test there holds the committed files against it. It is a module of its own, so
// that avo is no dependency of the program.
package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"strings"
	"unicode/utf8"

	. "github.com/mmcloughlin/avo/build" //nolint:staticcheck // avo's own way of writing
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

func main() {
	avx512 := flag.Bool("avx512", false, "write the kernels for AVX-512, instead of those for AVX2")
	flag.Parse()
	ConstraintExpr("!purego")
	if *avx512 {
		wide()
		write()
		return
	}
	for _, t := range []kind{f32, bf16} {
		for _, s := range shapes {
			tile(t, s[0], s[1])
		}
		choose("tile"+t.String(), "dst *float32, ds uintptr, w *"+t.elem()+", ws uintptr, x *float32, xs uintptr, steps int, sums *float32, "+
			"mode int", "dst, ds, w, ws, x, xs, steps, sums, mode", "tile"+t.String()+"_%dx%d", shapes)
	}
	for n := 1; n <= 3; n++ {
		tile(packed, 4, n)
		fours(n)
	}
	choose("tilePacked", "dst *float32, ds uintptr, w, x *float32, xs uintptr, steps, tiles int, sums *float32, mode int",
		"dst, ds, w, x, xs, steps, tiles, sums, mode", "tilePacked_%dx%d", shapes[:3])
	choose("foursOf", "dst *float32, ds uintptr, w *uint16, ws uintptr, x *float32, xs uintptr, steps, tiles int",
		"dst, ds, w, ws, x, xs, steps, tiles", "fours%[2]d", shapes[:3])
	for _, t := range []kind{f32, bf16} {
		pack(t)
	}
	packFours()
	for _, bits := range []int{8, 4} {
		quantTile(bits)
		quantOne(bits)
	}
	for i := 1; i <= 3; i++ {
		values(i)
	}
	quantise()
	widen(bf16)
	double()
	single()
	add()
	rotate()
	doubleBF16()
	narrow()
	largest()
	expSum()
	scale()
	silu()
	gelu()
	squares()
	normalise()
	delta()
	write()
}

// choices are Go functions that go behind the stubs: each calls one kernel of many.
var choices strings.Builder

// choose writes a Go function that calls the kernel for m rows of weights and n of input. cases are
// m and n of each, and kernel is a kernel's name, as a format for them.
func choose(name, params, args, kernel string, cases [][2]int) {
	fmt.Fprintf(&choices, "\n// %s calls the kernel for m rows of weights and n rows of input.\nfunc %s(m, n int, %s) {\nswitch m<<3 | n {\n",
		name, name, params)
	for _, c := range cases {
		fmt.Fprintf(&choices, "case %d<<3 | %d:\n%s(%s)\n", c[0], c[1], fmt.Sprintf(kernel, c[0], c[1]), args)
	}
	choices.WriteString("default:\npanic(\"kernel: no such tile\")\n}\n}\n")
}

// write writes the assembly and its stubs, and the choices after these.
func write() {
	Generate()
	f, err := os.OpenFile(flag.Lookup("stubs").Value.String(), os.O_APPEND|os.O_WRONLY, 0)
	if err == nil {
		_, err = f.WriteString(choices.String())
		err = errors.Join(err, f.Close())
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// describe is Doc in lines of at most 140 columns.
func describe(text string) {
	var lines []string
	line := "//"
	for word := range strings.FieldsSeq(text) {
		if utf8.RuneCountInString(line)+1+utf8.RuneCountInString(word) > 140 {
			lines, line = append(lines, line[3:]), "//"
		}
		line += " " + word
	}
	Doc(append(lines, line[3:])...)
}

// kind is how weights lie in memory.
type kind int

const (
	f32 kind = iota
	bf16
	packed    // float32, eight values of each of four rows in turn
	large     // packed, of sixteen values each
	foursWide // bf16 in fours
)

func (k kind) String() string {
	return [...]string{"F32", "BF16", "Packed", "Packed", "Fours"}[k]
}
func (k kind) bytes() int { return [...]int{4, 2, 4, 4, 2}[k] }
func (k kind) elem() string {
	return [...]string{"float32", "uint16", "float32", "float32", "uint16"}[k]
}

// load reads eight weights at m as float32.
func (k kind) load(m Mem, y reg.VecVirtual) {
	switch k {
	case f32, packed:
		VMOVUPS(m, y)
	case bf16:
		VPMOVZXWD(m, y)
		VPSLLD(Imm(16), y, y)
	}
}

// shapes are rows of weights × rows of input: as many sums as sixteen registers hold, with what
// they are made of. The first three have four rows of weights.
var shapes = [][2]int{{4, 1}, {4, 2}, {4, 3}, {2, 4}, {2, 5}, {2, 6}, {1, 1}, {1, 2}, {1, 3}, {1, 4}, {1, 5}, {1, 6}}

// strided addresses rows of one matrix: the base, and multiples of the stride that an address
// cannot express itself.
type strided struct {
	base, one, three, five reg.GPVirtual
}

func newStrided(base, stride string, n int) *strided {
	s := &strided{base: GP64()}
	Load(Param(base), s.base)
	if n > 1 {
		s.one = GP64()
		Load(Param(stride), s.one)
	}
	if n > 3 {
		s.three = GP64()
		LEAQ(Mem{Base: s.one, Index: s.one, Scale: 2}, s.three)
	}
	if n > 5 {
		s.five = GP64()
		LEAQ(Mem{Base: s.one, Index: s.one, Scale: 4}, s.five)
	}
	return s
}

func (s *strided) at(row, disp int) Mem { return s.from(s.base, row, disp) }

func (s *strided) from(base reg.Register, row, disp int) Mem {
	m := Mem{Base: base, Disp: disp}
	switch row {
	case 0:
	case 1, 2, 4:
		m.Index, m.Scale = s.one, uint8(row)
	case 3:
		m.Index, m.Scale = s.three, 1
	case 5:
		m.Index, m.Scale = s.five, 1
	}
	return m
}

// tile is the product of M rows of weights with N rows of input. Each of the M·N sums has eight
// lanes, and lane l adds the products l, l+8, l+16 … in this order, one fused multiply-add each:
// the same for all shapes and kinds, so that a row's result does not depend on the shape.
func tile(t kind, M, N int) {
	apart := []string{" wStride uintptr,", "", " Mode 4 says that rows of w lie apart."}
	if t == packed {
		apart = []string{"", " tiles int,", " It does so for as many tiles that follow each other in w, in dst and in acc."}
	}
	TEXT(fmt.Sprintf("tile%v_%dx%d", t, M, N), NOSPLIT,
		fmt.Sprintf("func(dst *float32, dstStride uintptr, w *%s,%s x *float32, xStride uintptr, steps int,%s acc *float32, mode int)",
			t.elem(), apart[0], apart[1]))
	Pragma("noescape")
	describe(fmt.Sprintf("tile%v_%dx%d multiplies %d rows of w with %d rows of x over steps of eight columns; strides are bytes. Mode 1 "+
		"begins with the sums in acc, mode 2 leaves them there, and without it the lanes are added into dst: %d values in each of %d rows.%s",
		t, M, N, M, N, M, N, apart[2]))
	rows, wide := M, 8*t.bytes() // of w: rows that lie apart, and the bytes of a step
	if t == packed {
		rows, wide = 1, M*wide
	}
	w, x := newStrided("w", "wStride", rows), newStrided("x", "xStride", N)
	weights := func(m, k int) Mem {
		if t == packed {
			return w.at(0, wide*k+32*m)
		}
		return w.at(m, wide*k)
	}
	steps, tiles, at, dst := GP64(), GP64(), GP64(), GP64()
	Load(Param("acc"), at)
	Load(Param("dst"), dst)
	if t == packed {
		Load(Param("tiles"), tiles)
		Label("tile")
		Load(Param("x"), x.base)
	}
	Load(Param("steps"), steps)
	acc := make([]reg.VecVirtual, M*N) // acc[n*M+m]
	for i := range acc {
		acc[i] = YMM()
	}
	mode := GP64()
	begin(acc, mode, at, 32, func(a reg.VecVirtual) { VXORPS(a, a, a) })

	const unroll = 4
	part := wide * unroll // of a row, in bytes, that a round of the loop takes: of bf16 a line of the cache
	fetch, next, hop, hops, on := N <= 4 && t == bf16, GP64(), GP64(), GP64(), GP64()
	if fetch {
		// The weights are read once, in order, from pages of 4 KiB at whose ends the processor's
		// own prefetching stops. So the rows of the next tile are asked for while this one is
		// computed: each line once, and in the order in which they lie, which takes three quarters
		// of the time of M rows by turns. Keys' rows lie apart and are asked for row by row. A
		// prefetch never faults.
		if M == 1 {
			Load(Param("wStride"), next)
			ADDQ(w.base, next)
		} else {
			LEAQ(w.from(w.base, M, 0), next)
		}
		MOVQ(U32(64), hop)
		MOVQ(U32(uint32(part*M)), on)
		if M > 1 {
			TESTQ(U32(4), mode)
			JEQ(LabelRef("order"))
			MOVQ(w.one, hop)
			MOVQ(U32(uint32(part)), on)
			Label("order")
		}
		LEAQ(Mem{Base: hop, Index: hop, Scale: 2}, hops)
	}
	step := func(k int) {
		if M*N+N+1 <= 16 {
			xs := make([]reg.VecVirtual, N)
			for n := range xs {
				xs[n] = YMM()
				VMOVUPS(x.at(n, 32*k), xs[n])
			}
			for m := range M {
				y := YMM()
				t.load(weights(m, k), y)
				for n := range N {
					VFMADD231PS(xs[n], y, acc[n*M+m])
				}
			}
			return
		}
		ws := make([]reg.VecVirtual, M)
		for m := range ws {
			ws[m] = YMM()
			t.load(weights(m, k), ws[m])
		}
		for n := range N {
			y := YMM()
			VMOVUPS(x.at(n, 32*k), y)
			for m := range M {
				VFMADD231PS(ws[m], y, acc[n*M+m])
			}
		}
	}
	SUBQ(Imm(unroll), steps)
	JLT(LabelRef("rest"))
	Label("loop")
	lines := max(part*M/64, 1)
	for k := range unroll {
		if fetch && k*lines%unroll == 0 { // not all at once, for which the processor has no room
			PREFETCHT0([]Mem{{Base: next}, {Base: next, Index: hop, Scale: 1}, {Base: next, Index: hop, Scale: 2},
				{Base: next, Index: hops, Scale: 1}}[k*lines/unroll])
		}
		step(k)
	}
	if fetch {
		ADDQ(on, next)
	}
	ADDQ(U32(uint32(part)), w.base)
	ADDQ(Imm(32*unroll), x.base)
	SUBQ(Imm(unroll), steps)
	JGE(LabelRef("loop"))
	Label("rest")
	ADDQ(Imm(unroll), steps)
	JEQ(LabelRef("end"))
	Label("single")
	step(0)
	ADDQ(U32(uint32(wide)), w.base)
	ADDQ(Imm(32), x.base)
	DECQ(steps)
	JNE(LabelRef("single"))
	Label("end")
	TESTQ(U32(2), mode)
	JEQ(LabelRef("sum"))
	for i, a := range acc {
		VMOVUPS(a, Mem{Base: at, Disp: 32 * i})
	}
	JMP(LabelRef("done"))
	Label("sum")
	store(acc, dst, M, N)
	Label("done")
	if t == packed {
		ADDQ(Imm(uint64(4*M)), dst)
		ADDQ(U32(uint32(32*M*N)), at)
		DECQ(tiles)
		JNE(LabelRef("tile"))
	}
	VZEROUPPER()
	RET()
}

// begin loads the mode and sets a tile's sums: to zeros, or to what at points at. A sum has this
// many bytes.
func begin(acc []reg.VecVirtual, mode, at reg.GPVirtual, bytes int, zero func(reg.VecVirtual)) {
	Load(Param("mode"), mode)
	TESTQ(U32(1), mode)
	JNE(LabelRef("resume"))
	for _, a := range acc {
		zero(a)
	}
	JMP(LabelRef("begin"))
	Label("resume")
	for i, a := range acc {
		VMOVUPS(Mem{Base: at, Disp: bytes * i}, a)
	}
	Label("begin")
}

// pack converts one row of a panel for tilePacked.
func pack(t kind) {
	p, n := each("pack"+t.String(), fmt.Sprintf("func(dst *float32, src *%s, n int)", t.elem()),
		"converts n values, a multiple of 8, to float32: eight of them, and room for those of three other rows, in turn.", "dst", "src")
	Label("loop")
	y := YMM()
	t.load(Mem{Base: p[1]}, y)
	VMOVUPS(y, Mem{Base: p[0]})
	again(n, map[reg.GPVirtual]int{p[0]: 128, p[1]: 8 * t.bytes()}, p...)
	VZEROUPPER()
	RET()
}

// store adds the lanes of each sum, ((0+1)+(2+3)) + ((4+5)+(6+7)), and writes M values to each of N
// rows of dst.
func store(acc []reg.VecVirtual, first reg.GPVirtual, M, N int) {
	dst, stride := GP64(), GP64()
	MOVQ(first, dst)
	Load(Param("dstStride"), stride)
	four := func(a, b, c, d reg.VecVirtual) reg.VecVirtual { // the sums of four in one register
		VHADDPS(b, a, a)
		VHADDPS(d, c, c)
		VHADDPS(c, a, a)
		VEXTRACTF128(Imm(1), a, c.AsX())
		VADDPS(c.AsX(), a.AsX(), a.AsX())
		return a
	}
	switch M {
	case 4:
		for n := range N {
			s := four(acc[4*n], acc[4*n+1], acc[4*n+2], acc[4*n+3])
			VMOVUPS(s.AsX(), Mem{Base: dst})
			if n+1 < N {
				ADDQ(stride, dst)
			}
		}
	case 2:
		for n := 0; n < N; n += 2 {
			a, b := acc[2*n], acc[2*n+1]
			if n+1 == N {
				VHADDPS(b, a, a)
				VHADDPS(a, a, a)
				VEXTRACTF128(Imm(1), a, b.AsX())
				VADDPS(b.AsX(), a.AsX(), a.AsX())
				VMOVLPS(a.AsX(), Mem{Base: dst})
				break
			}
			s := four(a, b, acc[2*n+2], acc[2*n+3])
			VMOVLPS(s.AsX(), Mem{Base: dst})
			VMOVHPS(s.AsX(), Mem{Base: dst, Index: stride, Scale: 1})
			if n+2 < N {
				LEAQ(Mem{Base: dst, Index: stride, Scale: 2}, dst)
			}
		}
	default:
		for n := range N {
			a, b := acc[n], YMM()
			VHADDPS(a, a, a)
			VHADDPS(a, a, a)
			VEXTRACTF128(Imm(1), a, b.AsX())
			VADDSS(b.AsX(), a.AsX(), a.AsX())
			VMOVSS(a.AsX(), Mem{Base: dst})
			if n+1 < N {
				ADDQ(stride, dst)
			}
		}
	}
}
