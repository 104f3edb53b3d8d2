package main

import (
	"fmt"

	. "github.com/mmcloughlin/avo/build" //nolint:staticcheck // avo's own way of writing
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// quantShapes are those of integer products, which need more registers besides their sums.
var quantShapes = [][2]int{{4, 1}, {4, 2}, {2, 3}, {2, 4}, {1, 1}, {1, 2}, {1, 3}, {1, 4}}

// quantTile is tile for weights of 8 or 4 bits in blocks of 32 and inputs of 8 bits in blocks of 64 bytes: 32 values, their scale, and
// nothing. Lane l of a block adds the products of the values 4l … 4l+3 as integers, which is exact; times both scales it is added to the
// sum.
func quantTile(bits, M, N int) {
	TEXT(fmt.Sprintf("quant%d_%dx%d", bits, M, N), NOSPLIT,
		"func(dst *float32, dstStride uintptr, w *byte, wStride uintptr, scales *uint16, scaleStride uintptr, x *byte, xStride uintptr, "+
			"blocks int, mask int)")
	Pragma("noescape")
	describe(fmt.Sprintf("quant%d_%dx%d multiplies %d rows of w, of %d bits, with %d rows of x over so many blocks of 32; "+
		"strides are bytes. "+
		"A scale of w holds for mask+1 blocks.", bits, M, N, M, bits, N))
	w, s, x := newStrided("w", "wStride", M), newStrided("scales", "scaleStride", M), newStrided("x", "xStride", N)
	blocks, mask, at := GP64(), GP64(), GP64()
	Load(Param("blocks"), blocks)
	Load(Param("mask"), mask)
	XORQ(at, at)
	acc := make([]reg.VecVirtual, M*N)
	for i := range acc {
		acc[i] = YMM()
		VXORPS(acc[i], acc[i], acc[i])
	}
	ones := YMM()
	VPCMPEQW(ones, ones, ones)
	VPSRLW(Imm(15), ones, ones)
	size := 4 * bits
	ahead := GP64() // the next tile's rows, see tile
	if M == 1 {
		Load(Param("wStride"), ahead)
		ADDQ(w.base, ahead)
	} else {
		LEAQ(w.from(w.base, M, 0), ahead)
	}
	Label("loop")
	for m := range M {
		PREFETCHT0(w.from(ahead, m, 0))
		v, abs, ws := YMM(), YMM(), YMM()
		if bits == 8 {
			VMOVDQU(w.at(m, 0), v)
		} else {
			VBROADCASTI128(w.at(m, 0), v) // byte i holds value i low and value i+16 high, each plus 8
			VPSRLVD(shifts(), v, v)
			VPAND(constant("nibbles", 0x0f), v, v)
			VPSUBB(constant("eights", 8), v, v)
		}
		VPABSB(v, abs)
		VPBROADCASTW(s.at(m, 0), ws)
		VPSLLD(Imm(16), ws, ws)
		for n := range N {
			p, f := YMM(), YMM()
			VMOVDQU(x.at(n, 0), p)
			VPSIGNB(v, p, p)
			VPMADDUBSW(p, abs, p)
			VPMADDWD(ones, p, p)
			VCVTDQ2PS(p, p)
			VBROADCASTSS(x.at(n, 32), f)
			VMULPS(ws, f, f)
			VFMADD231PS(f, p, acc[n*M+m])
		}
	}
	ADDQ(Imm(uint64(size)), w.base)
	ADDQ(Imm(uint64(size)), ahead)
	ADDQ(Imm(64), x.base)
	INCQ(at)
	next := GP64()
	XORQ(next, next)
	TESTQ(mask, at)
	SETEQ(next.As8())
	LEAQ(Mem{Base: s.base, Index: next, Scale: 2}, s.base)
	CMPQ(at, blocks)
	JLT(LabelRef("loop"))
	store(acc, M, N)
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

// shifts moves the high halves of bytes down, in the upper half of a register.
func shifts() Mem {
	if _, ok := constants["shifts"]; !ok {
		constants["shifts"] = words("shifts", 0, 0, 0, 0, 4, 4, 4, 4)
	}
	return constants["shifts"]
}

// quantise rounds blocks of 32 values to 8 bits with a scale each.
func quantise() {
	TEXT("quantiseAsm", NOSPLIT, "func(dst *byte, x *float32, blocks int)")
	Pragma("noescape")
	describe("quantiseAsm writes so many blocks of 64 bytes: 32 values rounded to 8 bits, the scale they are to be multiplied by, " +
		"and nothing.")
	dst, x, blocks := GP64(), GP64(), GP64()
	Load(Param("dst"), dst)
	Load(Param("x"), x)
	Load(Param("blocks"), blocks)
	sign, top, one := YMM(), YMM(), YMM()
	fill(sign, 0x7fffffff)
	fill(top, 0x42fe0000) // 127
	fill(one, 0x3f800000)
	order := YMM()
	VMOVDQU(words("order", 0, 4, 1, 5, 2, 6, 3, 7), order)
	// The largest is looked for among the bits, as integers: there no number is above all numbers, and makes the scale none.
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
	VMOVSS(b.AsX(), Mem{Base: dst, Disp: 32})
	VDIVSS(a.AsX(), top.AsX(), a.AsX()) // 127 / top; where top is 0, infinity: 0 × infinity is no number, and rounds to the least integer
	VBROADCASTSS(a.AsX(), a)
	VXORPS(b, b, b)
	ok := YMM()
	inf := YMM()
	fill(inf, 0x7f800000)
	VCMPPS(Imm(1), inf, a, ok) // less than infinity: else the block is zeros
	VANDPS(ok, a, a)
	for _, r := range v {
		VMULPS(a, r, r)
		VCVTPS2DQ(r, r)
	}
	VPACKSSDW(v[1], v[0], v[0])
	VPACKSSDW(v[3], v[2], v[2])
	VPACKSSWB(v[2], v[0], v[0])
	VPERMD(v[0], order, v[0])
	VMOVDQU(v[0], Mem{Base: dst})
	ADDQ(Imm(128), x)
	ADDQ(Imm(64), dst)
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
