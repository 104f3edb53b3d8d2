package main

import (
	"fmt"

	. "github.com/mmcloughlin/avo/build" //nolint:staticcheck // avo's own way of writing
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// Integer products: weights of 8 or 4 bits in blocks of 32, and inputs of 8 bits in blocks of 64 bytes: 32 values, their scale, eight times
// their sum, and nothing. A block's sum is exact, as an integer; times both scales it is added to the result, one fused multiply-add a
// block, in the blocks' order. So a result has the same bits however many rows are computed together.

// quantRows is how many rows of input a call of quantTile takes at the most.
const quantRows = 16

// rows8 addresses eight rows of a matrix.
type rows8 struct{ one, three, five, seven reg.GPVirtual }

func newRows8(stride string) rows8 {
	r := rows8{GP64(), GP64(), GP64(), GP64()}
	Load(Param(stride), r.one)
	LEAQ(Mem{Base: r.one, Index: r.one, Scale: 2}, r.three)
	LEAQ(Mem{Base: r.one, Index: r.one, Scale: 4}, r.five)
	LEAQ(Mem{Base: r.three, Index: r.one, Scale: 4}, r.seven)
	return r
}

func (r rows8) at(base reg.Register, row, disp int) Mem {
	m := Mem{Base: base, Disp: disp}
	if row > 0 {
		m.Index = []reg.Register{nil, r.one, r.one, r.three, r.one, r.five, r.three, r.seven}[row]
		m.Scale = []uint8{0, 1, 2, 1, 4, 1, 2, 1}[row]
	}
	return m
}

// turned reads 16 bytes of each of eight rows: lane l of register j holds the bytes 4j … 4j+3 of row l.
func (r rows8) turned(base reg.Register, disp int) []reg.VecVirtual {
	a := make([]reg.VecVirtual, 4)
	for i := range a {
		a[i] = YMM()
		VBROADCASTI128(r.at(base, i, disp), a[i])
		VINSERTI128(Imm(1), r.at(base, i+4, disp), a[i], a[i])
	}
	low, high := []reg.VecVirtual{YMM(), YMM()}, []reg.VecVirtual{YMM(), YMM()}
	for i := range low {
		VPUNPCKLDQ(a[2*i+1], a[2*i], low[i])
		VPUNPCKHDQ(a[2*i+1], a[2*i], high[i])
	}
	VPUNPCKLQDQ(low[1], low[0], a[0])
	VPUNPCKHQDQ(low[1], low[0], a[1])
	VPUNPCKLQDQ(high[1], high[0], a[2])
	VPUNPCKHQDQ(high[1], high[0], a[3])
	return a
}

// quantTile is the product of eight rows of weights with n rows of input. A lane is a row of weights, so what has to be done to a block's
// sum is done for eight at once.
func quantTile(bits int) {
	TEXT(fmt.Sprintf("quant%d", bits), NOSPLIT, "func(acc *float32, w *byte, wStride uintptr, scales *uint16, scaleStride uintptr, "+
		"x *byte, xStride uintptr, n int, blocks int, mask int)")
	Pragma("noescape")
	describe(fmt.Sprintf("quant%d multiplies 8 rows of w, of %d bits, with n rows of x, at most %d, over so many blocks of 32, and adds to "+
		"acc, which has 8 values for each row of x; strides are bytes. A scale of w holds for mask+1 blocks. Behind %d rows acc has room "+
		"for as many more.", bits, bits, quantRows, quantRows))
	w, ahead := GP64(), GP64()
	Load(Param("w"), w)
	rows := newRows8("wStride")
	LEAQ(Mem{Base: w, Index: rows.one, Scale: 8}, ahead) // the next tile's rows, see tile
	x, stride, at := GP64(), GP64(), GP64()
	Load(Param("x"), x)
	Load(Param("xStride"), stride)
	XORQ(at, at)
	scales, group := YMM(), GP64()
	Load(Param("scales"), group)
	Label("loop")
	for line := range bits / 2 { // each line of eight rows once, in the order in which they lie
		PREFETCHT0(Mem{Base: ahead, Disp: 64 * line})
	}

	t := GP64()
	Load(Param("mask"), t)
	TESTQ(t, at)
	JNE(LabelRef("scaled"))
	groupScales(scales, group)
	ADDQ(Imm(2), group)
	Label("scaled")

	row, acc, left := GP64(), GP64(), GP64()
	each := func(label string, body func()) { // for each row of input
		MOVQ(x, row)
		Load(Param("acc"), acc)
		Load(Param("n"), left)
		Label(label)
		body()
		ADDQ(stride, row)
		ADDQ(Imm(32), acc)
		DECQ(left)
		JNE(LabelRef(label))
	}
	finish := func(sum reg.VecVirtual) {
		f := YMM()
		VCVTDQ2PS(sum, sum)
		VBROADCASTSS(Mem{Base: row, Disp: 32}, f)
		VMULPS(scales, f, f)
		VFMADD213PS(Mem{Base: acc}, sum, f)
		VMOVUPS(f, Mem{Base: acc})
	}
	ones := pairs()
	if bits == 4 {
		// Byte i holds value i low and value i+16 high, each plus 8. Products of 0 … 15 with eight bits are so small that all of a block fit
		// into sums of 16 bits; eight times the sum of the input's values is too much.
		v := rows.turned(w, 0)
		nibbles := YMM()
		VMOVDQU(constant("nibbles", 0x0f), nibbles)
		for j := range 4 {
			h := YMM()
			VPSRLW(Imm(4), v[j], h)
			VPAND(nibbles, h, h)
			VPAND(nibbles, v[j], v[j])
			v = append(v, h)
		}
		each("rows", func() {
			p := make([]reg.VecVirtual, 2)
			for j, y := range v {
				q := YMM()
				VPBROADCASTD(Mem{Base: row, Disp: 4 * j}, q)
				VPMADDUBSW(q, y, q)
				if j < 2 {
					p[j] = q
				} else {
					VPADDW(q, p[j%2], p[j%2])
				}
			}
			VPADDW(p[1], p[0], p[0])
			VPMADDWD(ones, p[0], p[0])
			VPBROADCASTD(Mem{Base: row, Disp: 36}, p[1])
			VPSUBD(p[1], p[0], p[0])
			finish(p[0])
		})
	} else {
		for half := range 2 {
			v := rows.turned(w, 16*half)
			abs := make([]reg.VecVirtual, 4)
			for j := range abs {
				abs[j] = YMM()
				VPABSB(v[j], abs[j])
			}
			each(fmt.Sprintf("rows%d", half), func() {
				p := make([]reg.VecVirtual, 2)
				for j := range v {
					q := YMM()
					VPBROADCASTD(Mem{Base: row, Disp: 16*half + 4*j}, q)
					VPSIGNB(v[j], q, q)
					VPMADDUBSW(q, abs[j], q)
					VPMADDWD(ones, q, q)
					if j < 2 {
						p[j] = q
					} else {
						VPADDD(q, p[j%2], p[j%2])
					}
				}
				VPADDD(p[1], p[0], p[0])
				if half == 0 {
					VMOVDQU(p[0], Mem{Base: acc, Disp: 32 * quantRows})
					return
				}
				VPADDD(Mem{Base: acc, Disp: 32 * quantRows}, p[0], p[0])
				finish(p[0])
			})
		}
	}
	ADDQ(Imm(uint64(4*bits)), w)
	ADDQ(U32(uint32(32*bits)), ahead)
	ADDQ(Imm(64), x)
	INCQ(at)
	blocks := GP64()
	Load(Param("blocks"), blocks)
	CMPQ(at, blocks)
	JLT(LabelRef("loop"))
	VZEROUPPER()
	RET()
}

// groupScales reads the scales of eight rows: lane l is row l's, whose bits are the upper half of a float32's.
func groupScales(y reg.VecVirtual, scales reg.GPVirtual) {
	from, stride := GP64(), GP64()
	MOVQ(scales, from)
	Load(Param("scaleStride"), stride)
	halves := []reg.VecVirtual{YMM(), YMM()}
	for i := range 8 {
		h := halves[i/4].AsX()
		if i%4 == 0 {
			VPXOR(halves[i/4], halves[i/4], halves[i/4])
		}
		VPINSRW(Imm(uint64(i%4*2+1)), Mem{Base: from}, h, h)
		if i < 7 {
			ADDQ(stride, from)
		}
	}
	VINSERTI128(Imm(1), halves[1].AsX(), halves[0], y)
}

// quantRow is quantTile for one row of each: what is left of eight.
func quantRow(bits int) {
	TEXT(fmt.Sprintf("quantRow%d", bits), NOSPLIT, "func(w *byte, scales *uint16, x *byte, blocks int, mask int) float32")
	Pragma("noescape")
	describe(fmt.Sprintf("quantRow%d is the product of a row of w, of %d bits, with a row of x over so many blocks of 32, with the bits that "+
		"quant%d gives. A scale of w holds for mask+1 blocks.", bits, bits, bits))
	param := func(name string) reg.GPVirtual { r := GP64(); Load(Param(name), r); return r }
	w, s, x, blocks, mask, at := param("w"), param("scales"), param("x"), param("blocks"), param("mask"), GP64()
	XORQ(at, at)
	sum := XMM()
	VXORPS(sum, sum, sum)
	Label("loop")
	v, abs, p := YMM(), YMM(), YMM()
	if bits == 8 {
		VMOVDQU(Mem{Base: w}, v)
	} else {
		VBROADCASTI128(Mem{Base: w}, v)
		VPSRLVD(shifts(), v, v)
		VPAND(constant("nibbles", 0x0f), v, v)
		VPSUBB(constant("eights", 8), v, v)
	}
	VPABSB(v, abs)
	VMOVDQU(Mem{Base: x}, p)
	VPSIGNB(v, p, p)
	VPMADDUBSW(p, abs, p)
	VPMADDWD(pairs(), p, p)
	VEXTRACTI128(Imm(1), p, v.AsX())
	VPADDD(v.AsX(), p.AsX(), p.AsX())
	VPSHUFD(Imm(0x4e), p.AsX(), v.AsX())
	VPADDD(v.AsX(), p.AsX(), p.AsX())
	VPSHUFD(Imm(0xb1), p.AsX(), v.AsX())
	VPADDD(v.AsX(), p.AsX(), p.AsX())
	VCVTDQ2PS(p.AsX(), p.AsX())
	t, f := GP32(), XMM()
	MOVWLZX(Mem{Base: s}, t)
	SHLL(Imm(16), t)
	VMOVD(t, f)
	VMULSS(Mem{Base: x, Disp: 32}, f, f)
	VFMADD231SS(f, p.AsX(), sum)
	ADDQ(Imm(uint64(4*bits)), w)
	ADDQ(Imm(64), x)
	INCQ(at)
	next := GP64()
	XORQ(next, next)
	TESTQ(mask, at)
	SETEQ(next.As8())
	LEAQ(Mem{Base: s, Index: next, Scale: 2}, s)
	CMPQ(at, blocks)
	JLT(LabelRef("loop"))
	Store(sum, ReturnIndex(0))
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

// pairs adds pairs of 16 bits, as a factor of VPMADDWD.
func pairs() Mem {
	if _, ok := constants["ones"]; !ok {
		constants["ones"] = words("ones", 0x10001, 0x10001, 0x10001, 0x10001, 0x10001, 0x10001, 0x10001, 0x10001)
	}
	return constants["ones"]
}

// quantise rounds blocks of 32 values to 8 bits with a scale each.
func quantise() {
	TEXT("quantiseAsm", NOSPLIT, "func(dst *byte, x *float32, blocks int)")
	Pragma("noescape")
	describe("quantiseAsm writes so many blocks of 64 bytes: 32 values rounded to 8 bits, the scale they are to be multiplied by, " +
		"eight times their sum, and nothing.")
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
	VMOVDQU(constant("eights", 8), a)
	VPMADDUBSW(v[0], a, a)
	VPMADDWD(pairs(), a, a)
	VEXTRACTI128(Imm(1), a, b.AsX())
	VPADDD(b.AsX(), a.AsX(), a.AsX())
	VPSHUFD(Imm(0x4e), a.AsX(), b.AsX())
	VPADDD(b.AsX(), a.AsX(), a.AsX())
	VPSHUFD(Imm(0xb1), a.AsX(), b.AsX())
	VPADDD(b.AsX(), a.AsX(), a.AsX())
	VMOVD(a.AsX(), Mem{Base: dst, Disp: 36})
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
