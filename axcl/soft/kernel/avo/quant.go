package main

import (
	"fmt"

	. "github.com/mmcloughlin/avo/build" //nolint:staticcheck // avo's own way of writing
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// Integer products: weights of 8 or 4 bits in blocks of 32, and inputs in blocks of 128 bytes,
// which plain.go lays out: 16 bits a value for weights of eight, and eight bits for weights of
// four. A block's sum is exact, as an integer; times both scales it is added to the result, one
// fused multiply-add a block, in the blocks' order. So a result has the same bits however many rows
// are computed together.

// Where what a block of an input has lies; its values of eight bits come first.
const (
	inputBytes = 128
	scale8     = 32
	sum8       = 36 // eight times the sum of the values of eight bits
	scale16    = 40
	words16    = 64 // of values 4j to 4j+3, 16 bits each, first the even ones and then the odd ones
)

// eights is a block of eight rows of weights, and what it is multiplied with.
//
// Weights of eight bits become 16, even and odd bytes by themselves: so a pair of them is a row's,
// and a lane stays a row. Of four bits byte i holds values of the first half low and of the second
// high, each plus 8. Products of 0 … 15 with eight bits are so small that all of a block fit into
// sums of 16 bits; eight times the sum of the input's values is too much.
type eights struct {
	bits         int
	w, scale     reg.GPVirtual
	scales, ones reg.VecVirtual
	v            []reg.VecVirtual // of four bits
}

func newEights(bits int) *eights {
	e := &eights{bits: bits, w: mustLoad("w"), scale: mustLoad("scales"), scales: YMM()}
	if bits == 4 {
		e.ones = YMM()
		VMOVDQU(pairs(), e.ones)
	}
	return e
}

// load reads the scales of block at, if its group begins with it, and weights of four bits. The
// caller asks for what comes later.
func (e *eights) load(at, mask reg.GPVirtual) {
	TESTQ(mask, at)
	JNE(LabelRef("scaled"))
	VPMOVZXWD(Mem{Base: e.scale}, e.scales)
	VPSLLD(Imm(16), e.scales, e.scales)
	ADDQ(Imm(16), e.scale)
	Label("scaled")
	if e.bits == 8 {
		return
	}
	e.v = make([]reg.VecVirtual, 8)
	for j := range e.v {
		if e.v[j] = YMM(); j < 4 {
			VMOVDQU(Mem{Base: e.w, Disp: 32 * j}, e.v[j])
		}
	}
	nibbles := YMM()
	VMOVDQU(constant("nibbles", 0x0f), nibbles)
	for j := range 4 {
		VPSRLW(Imm(4), e.v[j], e.v[j+4])
		VPAND(nibbles, e.v[j+4], e.v[j+4])
		VPAND(nibbles, e.v[j], e.v[j])
	}
}

// soon asks for the block that lies a fixed way ahead.
func (e *eights) soon() {
	for line := range e.bits / 2 {
		PREFETCHT0(Mem{Base: e.w, Disp: ahead + 64*line})
	}
}

// times multiplies the block with the inputs' blocks in x, side by side. It gives the sums, as
// numbers, and the factor of each.
func (e *eights) times(x ...Mem) (sums, factors []reg.VecVirtual) {
	at := func(i, disp int) Mem { m := x[i]; m.Disp = disp; return m }
	scale := scale8
	if e.bits == 8 {
		scale, sums = scale16, e.words(len(x), at)
	} else {
		sums = e.bytes(len(x), at)
	}
	for i, sum := range sums {
		f := YMM()
		VCVTDQ2PS(sum, sum)
		VBROADCASTSS(at(i, scale), f)
		VMULPS(e.scales, f, f)
		factors = append(factors, f)
	}
	return sums, factors
}

// words is the sums of weights of eight bits with n inputs of 16. A block's are below 2²⁷.
func (e *eights) words(n int, at func(i, disp int) Mem) []reg.VecVirtual {
	sums := make([]reg.VecVirtual, n)
	for j := range 8 {
		even, odd := YMM(), YMM()
		VMOVDQU(Mem{Base: e.w, Disp: 32 * j}, odd)
		VPSLLW(Imm(8), odd, even)
		VPSRAW(Imm(8), even, even)
		VPSRAW(Imm(8), odd, odd)
		for k, w := range []reg.VecVirtual{even, odd} {
			for i := range sums {
				q := YMM()
				VPBROADCASTD(at(i, words16+8*j+4*k), q)
				VPMADDWD(q, w, q)
				if sums[i] == nil {
					sums[i] = q
				} else {
					VPADDD(q, sums[i], sums[i])
				}
			}
		}
	}
	return sums
}

// bytes is the sums of weights of four bits with n inputs of eight.
func (e *eights) bytes(n int, at func(i, disp int) Mem) (sums []reg.VecVirtual) {
	p := make([][2]reg.VecVirtual, n)
	for j, y := range e.v {
		for i := range p {
			q := YMM()
			VPBROADCASTD(at(i, 4*j), q)
			VPMADDUBSW(q, y, q)
			if j < 2 {
				p[i][j] = q
			} else {
				VPADDW(q, p[i][j%2], p[i][j%2])
			}
		}
	}
	for i, p := range p {
		VPADDW(p[1], p[0], p[0])
		VPMADDWD(e.ones, p[0], p[0])
		VPBROADCASTD(at(i, sum8), p[1])
		VPSUBD(p[1], p[0], p[0])
		sums = append(sums, p[0])
	}
	return sums
}

// few rows of input are multiplied so fast that memory does not keep up with what is asked for a
// fixed way ahead. A row of weights with this many blocks is long.
const (
	few  = 4
	long = 96
)

// quantTile is the product of eight rows of weights, in eights, with n rows of input. A lane is a
// row of weights, so what has to be done to a block's sum is done for eight at once. Of eight bits
// and for few rows, the whole next eight is asked for, into the second cache, while this one is
// multiplied.
func quantTile(bits int) {
	TEXT(fmt.Sprintf("quant%d", bits), NOSPLIT, "func(acc *float32, w *byte, scales *uint16, x *byte, xStride uintptr, n int, blocks int, "+
		"mask int)")
	Pragma("noescape")
	describe(fmt.Sprintf("quant%d multiplies 8 rows of w, in eights and of %d bits, with n rows of x over this many blocks of 32, and adds to "+
		"acc, which has 8 values for each row of x; the stride is bytes. A scale of w holds for mask+1 blocks.", bits, bits))
	e, x, stride, at := newEights(bits), mustLoad("x"), mustLoad("xStride"), GP64()
	next := GP64()
	if bits == 8 {
		Load(Param("blocks"), next)
		SHLQ(Imm(8), next)
	}
	XORQ(at, at)
	Label("loop")
	row, acc, left := GP64(), mustLoad("acc"), mustLoad("n")
	if bits == 8 {
		CMPQ(left, Imm(few))
		JGT(LabelRef("many"))
		for line := range bits / 2 {
			PREFETCHT1(Mem{Base: e.w, Index: next, Scale: 1, Disp: 64 * line})
		}
		JMP(LabelRef("asked"))
		Label("many")
	}
	e.soon()
	if bits == 8 {
		Label("asked")
	}
	e.load(at, mustLoad("mask"))
	MOVQ(x, row)
	// Rows of input side by side: as many as there are registers for, and fewer at the end.
	most := 2
	if bits == 8 {
		most = 4
	}
	for k := most; k > 0; k /= 2 {
		rows, rest := fmt.Sprintf("rows%d", k), fmt.Sprintf("rest%d", k)
		SUBQ(Imm(uint64(k)), left)
		JLT(LabelRef(rest))
		Label(rows)
		ins := []Mem{{Base: row}, {Base: row, Index: stride, Scale: 1}, {Base: row, Index: stride, Scale: 2}}
		if k == 4 {
			fourth := GP64()
			LEAQ(Mem{Base: row, Index: stride, Scale: 2}, fourth)
			ins = append(ins, Mem{Base: fourth, Index: stride, Scale: 1})
		}
		sums, factors := e.times(ins[:k]...)
		for i, f := range factors {
			VFMADD213PS(Mem{Base: acc, Disp: 32 * i}, sums[i], f)
			VMOVUPS(f, Mem{Base: acc, Disp: 32 * i})
		}
		for range k / 2 {
			LEAQ(ins[2], row)
		}
		ADDQ(U32(uint32(32*k)), acc)
		SUBQ(Imm(uint64(k)), left)
		JGE(LabelRef(rows)) // never to a single row again
		Label(rest)
		ADDQ(Imm(uint64(k)), left)
	}
	ADDQ(U32(uint32(32*bits)), e.w)
	ADDQ(U32(inputBytes), x)
	INCQ(at)
	CMPQ(at, mustLoad("blocks"))
	JLT(LabelRef("loop"))
	VZEROUPPER()
	RET()
}

// quantOne is quantTile for one row of input and as many eights as follow each other: results stay
// in a register until they are done.
func quantOne(bits int) {
	TEXT(fmt.Sprintf("quantOne%d", bits), NOSPLIT, "func(dst *float32, w *byte, scales *uint16, x *byte, blocks int, mask int, tiles int)")
	Pragma("noescape")
	describe(fmt.Sprintf("quantOne%d writes to dst the 8 values that quant%d gives for one row of x and each of this many eights.", bits, bits))
	e, dst, blocks, mask, tiles := newEights(bits), mustLoad("dst"), mustLoad("blocks"), mustLoad("mask"), mustLoad("tiles")
	x, at, sum := GP64(), GP64(), YMM()
	Label("tile")
	Load(Param("x"), x)
	XORQ(at, at)
	VXORPS(sum, sum, sum)
	Label("loop")
	e.soon()
	e.load(at, mask)
	sums, factors := e.times(Mem{Base: x})
	VFMADD231PS(factors[0], sums[0], sum)
	ADDQ(U32(uint32(32*bits)), e.w)
	ADDQ(U32(inputBytes), x)
	INCQ(at)
	CMPQ(at, blocks)
	JLT(LabelRef("loop"))
	VMOVUPS(sum, Mem{Base: dst})
	ADDQ(Imm(32), dst)
	DECQ(tiles)
	JNE(LabelRef("tile"))
	VZEROUPPER()
	RET()
}

var constants = map[string]Mem{}

// constant is 32 times the same byte, in memory: the registers are needed for sums.
func constant(name string, b byte) Mem {
	if m, ok := constants[name]; ok {
		return m
	}
	m := GLOBL(name, RODATA|NOPTR)
	for i := range 4 {
		DATA(8*i, U64(uint64(b)*0x0101010101010101))
	}
	constants[name] = m
	return m
}

// pairs adds pairs of 16 bits, as a factor of VPMADDWD.
func pairs() Mem {
	if _, ok := constants["ones"]; !ok {
		constants["ones"] = words("ones", 0x10001, 0x10001, 0x10001, 0x10001, 0x10001, 0x10001, 0x10001, 0x10001)
	}
	return constants["ones"]
}

// quantise makes blocks of 32 values ready for integer products.
func quantise() {
	TEXT("quantiseAsm", NOSPLIT, "func(dst *byte, x *float32, blocks int)")
	Pragma("noescape")
	describe("quantiseAsm writes this many blocks of 128 bytes: 32 values rounded to 8 bits, the scale they are to be multiplied by, eight " +
		"times their sum, the scale of 16 bits, nothing, and the values rounded to 16 bits.")
	dst, x, blocks := GP64(), GP64(), GP64()
	Load(Param("dst"), dst)
	Load(Param("x"), x)
	Load(Param("blocks"), blocks)
	sign, top, inf, half := YMM(), YMM(), YMM(), YMM()
	fill(sign, 0x7fffffff)
	fill(top, 0x46fe0000) // 127·256
	fill(inf, 0x7f800000)
	fill(half, 0x00800080)
	order := YMM()
	VMOVDQU(words("order", 0, 4, 1, 5, 2, 6, 3, 7), order)
	// The largest is looked for among the bits, as integers: there no number is above all numbers,
	// and makes the scale none.
	Label("loop")
	v := []reg.VecVirtual{YMM(), YMM(), YMM(), YMM()}
	a, b := YMM(), YMM()
	for i, r := range v {
		VMOVUPS(Mem{Base: x, Disp: 32 * i}, r)
		if i == 0 {
			VANDPS(sign, r, a)
		} else {
			VANDPS(sign, r, b)
			VPMAXUD(b, a, a)
		}
	}
	VEXTRACTF128(Imm(1), a, b.AsX())
	VPMAXUD(b.AsX(), a.AsX(), a.AsX())
	VMOVHLPS(a.AsX(), a.AsX(), b.AsX())
	VPMAXUD(b.AsX(), a.AsX(), a.AsX())
	VPSRLQ(Imm(32), a.AsX(), b.AsX())
	VPMAXUD(b.AsX(), a.AsX(), a.AsX())
	VDIVSS(top.AsX(), a.AsX(), b.AsX()) // the scale
	VMOVSS(b.AsX(), Mem{Base: dst, Disp: scale16})
	VMULSS(number(256), b.AsX(), b.AsX())
	VMOVSS(b.AsX(), Mem{Base: dst, Disp: scale8})
	// Its inverse; where top is 0, infinity: 0 × infinity is no number, and rounds to the least
	// integer.
	VDIVSS(a.AsX(), top.AsX(), a.AsX())
	VBROADCASTSS(a.AsX(), a)
	VCMPPS(Imm(1), inf, a, b) // less than infinity: else the block is zeros
	VANDPS(b, a, a)
	for _, r := range v {
		VMULPS(a, r, r)
		VCVTPS2DQ(r, r)
	}
	VPACKSSDW(v[1], v[0], v[0])
	VPACKSSDW(v[3], v[2], v[2])
	for i, r := range []reg.VecVirtual{v[0], v[2]} {
		to := v[1+2*i]
		VPERMQ(Imm(0xd8), r, to)
		VPSHUFLW(Imm(0xd8), to, to)
		VPSHUFHW(Imm(0xd8), to, to)
		VMOVDQU(to, Mem{Base: dst, Disp: words16 + 32*i})
		VPADDW(half, r, r)
		VPSRAW(Imm(8), r, r)
	}
	VPACKSSWB(v[2], v[0], v[0])
	VPERMD(v[0], order, v[0])
	VMOVDQU(v[0], Mem{Base: dst})
	VMOVDQU(constant("eights", 8), a)
	VPMADDUBSW(v[0], a, a)
	VPMADDWD(pairs(), a, a)
	VEXTRACTI128(Imm(1), a, b.AsX())
	VPADDD(b.AsX(), a.AsX(), a.AsX())
	VPSHUFD(Imm(0x4e), a.AsX(), b.AsX())
	VPADDD(b.AsX(), a.AsX(), a.AsX())
	VPSHUFD(Imm(0xb1), a.AsX(), b.AsX())
	VPADDD(b.AsX(), a.AsX(), a.AsX())
	VMOVD(a.AsX(), Mem{Base: dst, Disp: sum8})
	ADDQ(Imm(128), x)
	ADDQ(U32(inputBytes), dst)
	DECQ(blocks)
	JNE(LabelRef("loop"))
	VZEROUPPER()
	RET()
}

func words(name string, v ...uint32) Mem {
	m := GLOBL(name, RODATA|NOPTR)
	for i, x := range v {
		DATA(4*i, U32(x))
	}
	return m
}

// fill sets all lanes to the float32 or integer with these bits.
func fill(y reg.VecVirtual, bits uint32) {
	r := GP32()
	MOVL(U32(bits), r)
	VMOVD(r, y.AsX())
	VPBROADCASTD(y.AsX(), y)
}
