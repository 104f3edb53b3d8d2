package main

import (
	"fmt"

	. "github.com/mmcloughlin/avo/build" //nolint:staticcheck // avo's own way of writing
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// Products with AVX-512: registers of 64 bytes, twice as many of them, and masks for what is left
// at a row's end. A product takes four rows of weights with up to six of input, 16 columns at a time:
// 24 sums, four weights and an input fill 29 of the 32 registers. How it begins and ends is
// explained at tile (main.go) and quantTile (quant.go). Only what differs is explained here.

const wideRows = 4 // of weights

func wide() {
	for _, t := range []kind{f32, bf16, large, foursWide} {
		var cases [][2]int
		for n := 1; n <= 6; n++ {
			wideTile(t, n)
			cases = append(cases, [2]int{wideRows, n})
		}
		stride, ws := "ws uintptr, ", "ws, "
		if t == large || t == foursWide {
			stride, ws = "", ""
		}
		choose("wide"+t.String(), "dst *float32, ds uintptr, w *"+t.elem()+", "+stride+"x *float32, xs uintptr, steps, rest int, "+
			"sums *float32, mode int", "dst, ds, w, "+ws+"x, xs, steps, rest, sums, mode", "wide"+t.String()+"_%[2]d", cases)
	}
	for _, t := range []kind{f32, bf16} {
		packWide(t)
	}
	packWideFours()
	wideQuant(8)
	wideQuant(4)
}

// columns is how many columns a step takes.
const columns = 16

// loadWide reads a step's weights at m, or those that the mask leaves.
func (k kind) loadWide(m Mem, z reg.VecVirtual, mask reg.Register) {
	whole := mask == nil
	switch {
	case k == f32 && whole, k == large:
		VMOVUPS(m, z)
	case k == f32:
		VMOVUPS_Z(m, mask, z)
	case whole:
		VPMOVZXWD(m, z)
	default:
		VPMOVZXWD_Z(m, mask, z)
	}
	if k == bf16 || k == foursWide {
		VPSLLD(Imm(16), z, z)
	}
}

// wideTile is tile for four rows of weights. Lane l of 16 adds the products l, l+16, l+32 ….
func wideTile(t kind, N int) {
	rows, apart := wideRows, "wStride uintptr, "
	if t == large || t == foursWide {
		rows, apart = 1, ""
	}
	TEXT(fmt.Sprintf("wide%v_%d", t, N), NOSPLIT, fmt.Sprintf("func(dst *float32, dstStride uintptr, w *%s, %sx *float32, xStride uintptr, "+
		"steps, rest int, acc *float32, mode int)", t.elem(), apart))
	Pragma("noescape")
	describe(fmt.Sprintf("wide%v_%d multiplies %d rows of w with %d rows of x over steps of %d columns and the rest that is left of them; "+
		"strides are bytes. For the modes see tile: a sum has 16 lanes.", t, N, wideRows, N, columns))
	w, x := newStrided("w", "wStride", rows), newStrided("x", "xStride", N)
	steps := GP64()
	Load(Param("steps"), steps)
	acc := make([]reg.VecVirtual, wideRows*N)
	for i := range acc {
		acc[i] = ZMM()
	}
	mode, at := GP64(), GP64()
	Load(Param("acc"), at)
	begin(acc, mode, at, 64, func(a reg.VecVirtual) { VPXORD(a, a, a) })

	const unroll = 32 / columns
	weights := func(k, m int) Mem { return w.at(m, columns*t.bytes()*k) }
	along := columns * t.bytes() // from step to step
	if t == large {
		weights = func(k, m int) Mem { return Mem{Base: w.base, Disp: (k*wideRows + m) * 64} }
		along = wideRows * 64
	}
	if t == foursWide {
		weights = func(k, m int) Mem { return Mem{Base: w.base, Disp: lineBytes*m + 32*k} }
	}
	part := 32 * t.bytes() // of a row, in bytes, that a round of the loop takes: of bf16 a line of the cache
	fetch, next, hop, hops, on := N <= 4 && t == bf16, GP64(), GP64(), GP64(), GP64()
	if fetch { // the next tile's rows, in the order in which they lie
		LEAQ(w.from(w.base, wideRows, 0), next)
		MOVQ(U32(64), hop)
		MOVQ(U32(uint32(part*wideRows)), on)
		TESTQ(U32(4), mode)
		JEQ(LabelRef("order"))
		MOVQ(w.one, hop)
		MOVQ(U32(uint32(part)), on)
		Label("order")
		LEAQ(Mem{Base: hop, Index: hop, Scale: 2}, hops)
	}
	step := func(k int, mask reg.Register) {
		ws := make([]reg.VecVirtual, wideRows)
		for m := range ws {
			ws[m] = ZMM()
			t.loadWide(weights(k, m), ws[m], mask)
		}
		for n := range N {
			z := ZMM()
			if mask == nil {
				VMOVUPS(x.at(n, 64*k), z)
			} else {
				VMOVUPS_Z(x.at(n, 64*k), mask, z)
			}
			for m := range wideRows {
				VFMADD231PS(ws[m], z, acc[n*wideRows+m])
			}
		}
	}
	forward := func(steps int) {
		if t == foursWide && steps == unroll { // a line
			ADDQ(U32(fourBytes), w.base)
		} else {
			ADDQ(U32(uint32(along*steps)), w.base)
		}
		ADDQ(U32(uint32(128/unroll*steps)), x.base)
	}
	SUBQ(Imm(unroll), steps)
	JLT(LabelRef("steps"))
	Label("loop")
	if fetch {
		for m := range part * wideRows / 64 {
			PREFETCHT0([]Mem{{Base: next}, {Base: next, Index: hop, Scale: 1}, {Base: next, Index: hop, Scale: 2},
				{Base: next, Index: hops, Scale: 1}}[m])
		}
		ADDQ(on, next)
	}
	for line := range 4 {
		if t == foursWide {
			PREFETCHT0(Mem{Base: w.base, Disp: ahead + lineBytes*line})
		}
	}
	for k := range unroll {
		step(k, nil)
	}
	forward(unroll)
	SUBQ(Imm(unroll), steps)
	JGE(LabelRef("loop"))
	Label("steps")
	ADDQ(Imm(unroll), steps)
	JEQ(LabelRef("rest"))
	step(0, nil)
	forward(1)
	Label("rest")
	rest, bits, mask := GP64(), GP64(), K()
	Load(Param("rest"), rest)
	TESTQ(rest, rest)
	JEQ(LabelRef("end"))
	MOVQ(I32(-1), bits)
	BZHIQ(rest, bits, bits)
	KMOVD(bits.As32(), mask)
	step(0, mask)
	Label("end")
	TESTQ(U32(2), mode)
	JEQ(LabelRef("sum"))
	for i, a := range acc {
		VMOVUPS(a, Mem{Base: at, Disp: 64 * i})
	}
	VZEROUPPER()
	RET()
	Label("sum")
	storeWide(acc, N)
	VZEROUPPER()
	RET()
}

// packWide unpacks a row of weights to where a tile of four reads it: 16 values, then those of the
// other rows, and so on; zeros at the end.
func packWide(t kind) {
	TEXT(fmt.Sprintf("packWide%v", t), NOSPLIT, fmt.Sprintf("func(dst *float32, src *%s, steps, rest int)", t.elem()))
	Pragma("noescape")
	describe(fmt.Sprintf("packWide%v converts 16 values a step, and the rest that is left of them, to float32, and leaves room for three rows "+
		"after each 16.", t))
	dst, src, steps, rest, bits, mask, z := GP64(), GP64(), GP64(), GP64(), GP64(), K(), ZMM()
	Load(Param("dst"), dst)
	Load(Param("src"), src)
	Load(Param("steps"), steps)
	Load(Param("rest"), rest)
	TESTQ(steps, steps)
	JEQ(LabelRef("rest"))
	Label("loop")
	t.loadWide(Mem{Base: src}, z, nil)
	VMOVUPS(z, Mem{Base: dst})
	ADDQ(Imm(uint64(16*t.bytes())), src)
	ADDQ(U32(wideRows*64), dst)
	DECQ(steps)
	JNE(LabelRef("loop"))
	Label("rest")
	TESTQ(rest, rest)
	JEQ(LabelRef("end"))
	MOVQ(I32(-1), bits)
	BZHIQ(rest, bits, bits)
	KMOVD(bits.As32(), mask)
	t.loadWide(Mem{Base: src}, z, mask)
	VMOVUPS(z, Mem{Base: dst})
	Label("end")
	VZEROUPPER()
	RET()
}

// packWideFours is packWide for four rows in fours: two steps are a line.
func packWideFours() {
	TEXT("packWideFours", NOSPLIT, "func(dst *float32, src *uint16, steps, rest int)")
	Pragma("noescape")
	describe("packWideFours converts 16 columns a step, and the rest that is left of them, of four rows in fours to float32: 16 values of each " +
		"row in turn.")
	dst, src, steps, bits, mask := mustLoad("dst"), mustLoad("src"), mustLoad("steps"), GP64(), K()
	step := func(k int, mask reg.Register) {
		for m := range wideRows {
			z := ZMM()
			foursWide.loadWide(Mem{Base: src, Disp: lineBytes*m + 32*k}, z, mask)
			VMOVUPS(z, Mem{Base: dst, Disp: 64 * (wideRows*k + m)})
		}
	}
	SUBQ(Imm(2), steps)
	JLT(LabelRef("steps"))
	Label("loop")
	step(0, nil)
	step(1, nil)
	ADDQ(U32(fourBytes), src)
	ADDQ(U32(512), dst)
	SUBQ(Imm(2), steps)
	JGE(LabelRef("loop"))
	Label("steps")
	ADDQ(Imm(2), steps)
	JEQ(LabelRef("rest"))
	step(0, nil)
	ADDQ(Imm(32), src)
	ADDQ(U32(256), dst)
	Label("rest")
	rest := mustLoad("rest")
	TESTQ(rest, rest)
	JEQ(LabelRef("end"))
	MOVQ(I32(-1), bits)
	BZHIQ(rest, bits, bits)
	KMOVD(bits.As32(), mask)
	step(0, mask)
	Label("end")
	VZEROUPPER()
	RET()
}

// storeWide adds the lanes of each sum, by fours (0+2)+(1+3), and these four alike, and writes four
// values to each of N rows of dst.
func storeWide(acc []reg.VecVirtual, N int) {
	dst, stride := GP64(), GP64()
	Load(Param("dst"), dst)
	Load(Param("dstStride"), stride)
	for n := range N {
		a, b, c, d, t := acc[4*n], acc[4*n+1], acc[4*n+2], acc[4*n+3], ZMM()
		VUNPCKLPS(b, a, t)
		VUNPCKHPS(b, a, a)
		VADDPS(a, t, a)
		VUNPCKLPS(d, c, t)
		VUNPCKHPS(d, c, c)
		VADDPS(c, t, c)
		VUNPCKLPD(c, a, t)
		VUNPCKHPD(c, a, a)
		VADDPS(a, t, a)
		VEXTRACTF64X4(Imm(1), a, t.AsY())
		VADDPS(t.AsY(), a.AsY(), a.AsY())
		VEXTRACTF32X4(Imm(1), a.AsY(), t.AsX())
		VADDPS(t.AsX(), a.AsX(), a.AsX())
		VMOVUPS(a.AsX(), Mem{Base: dst})
		if n+1 < N {
			ADDQ(stride, dst)
		}
	}
}

// wideQuant is quantTile for two eights. VPDPBUSD multiplies bytes without a sign with bytes that
// have one: weights of four bits are taken 8 too large, as they lie in memory, and what that adds
// is taken off again: the input's block has eight times its values' sum.
func wideQuant(bits int) {
	TEXT(fmt.Sprintf("wideQuant%d", bits), NOSPLIT, "func(acc *float32, w *byte, wStride uintptr, scales *uint16, scaleStride uintptr, "+
		"x *byte, xStride uintptr, n int, blocks int, mask int)")
	Pragma("noescape")
	describe(fmt.Sprintf("wideQuant%d multiplies two eights of w, of %d bits, with n rows of x over this many blocks of 32, and adds to acc, "+
		"which has 16 values for each row of x; strides are bytes, from one eight to the next. A scale of w holds for mask+1 blocks. It "+
		"gives the bits that quant%d gives.", bits, bits, bits))
	w, second, x, stride, at := mustLoad("w"), mustLoad("wStride"), mustLoad("x"), mustLoad("xStride"), GP64()
	group, other := mustLoad("scales"), mustLoad("scaleStride")
	ADDQ(w, second)
	ADDQ(group, other)
	XORQ(at, at)
	scales, nibbles := ZMM(), ZMM()
	if bits == 4 {
		b := GP32()
		MOVL(U32(0x0f0f0f0f), b)
		VPBROADCASTD(b, nibbles)
	}
	// The next two eights are asked for while these are multiplied, into the second cache: each line
	// once, and in the order in which they lie, not in that of the products, which goes to and fro
	// between two places. Many rows of input leave no room there if rows are long.
	next := GP64()
	MOVQ(second, next)
	ADDQ(mustLoad("wStride"), next)
	CMPQ(mustLoad("n"), Imm(few))
	JLE(LabelRef("loop"))
	CMPQ(mustLoad("blocks"), Imm(long))
	JLE(LabelRef("loop"))
	XORQ(next, next)
	Label("loop")
	TESTQ(next, next)
	JEQ(LabelRef("soon"))
	for line := range bits {
		PREFETCHT1(Mem{Base: next, Disp: 64 * line})
	}
	ADDQ(U32(uint32(64*bits)), next)
	JMP(LabelRef("asked"))
	Label("soon")
	for line := range bits / 2 {
		PREFETCHT0(Mem{Base: w, Disp: ahead + 64*line})
		PREFETCHT0(Mem{Base: second, Disp: ahead + 64*line})
	}
	Label("asked")
	t := mustLoad("mask")
	TESTQ(t, at)
	JNE(LabelRef("scaled"))
	VMOVDQU(Mem{Base: group}, scales.AsX())
	VINSERTI128(Imm(1), Mem{Base: other}, scales.AsY(), scales.AsY())
	VPMOVZXWD(scales.AsY(), scales)
	VPSLLD(Imm(16), scales, scales)
	ADDQ(Imm(16), group)
	ADDQ(Imm(16), other)
	Label("scaled")

	v := make([]reg.VecVirtual, 2*bits)
	for j := range v {
		v[j] = ZMM()
	}
	for j := range bits {
		z := v[j]
		if bits == 8 {
			z = v[2*j+1]
		}
		VMOVDQU64(Mem{Base: w, Disp: 32 * j}, z.AsY())
		VINSERTI64X4(Imm(1), Mem{Base: second, Disp: 32 * j}, z, z)
	}
	for j := range bits {
		if bits == 8 {
			VPSLLW(Imm(8), v[2*j+1], v[2*j])
			VPSRAW(Imm(8), v[2*j], v[2*j])
			VPSRAW(Imm(8), v[2*j+1], v[2*j+1])
		} else {
			VPSRLW(Imm(4), v[j], v[j+4])
			VPANDD(nibbles, v[j+4], v[j+4])
			VPANDD(nibbles, v[j], v[j])
		}
	}

	row, acc, left := GP64(), mustLoad("acc"), mustLoad("n")
	MOVQ(x, row)
	Label("rows")
	p, f, scale := []reg.VecVirtual{ZMM(), ZMM()}, ZMM(), scale8
	for _, z := range p {
		VPXORD(z, z, z)
	}
	if bits == 8 {
		scale = scale16
	} else {
		off := ZMM()
		VPBROADCASTD(Mem{Base: row, Disp: sum8}, off)
		VPSUBD(off, p[0], p[0])
	}
	for j, z := range v {
		if bits == 8 {
			VPDPWSSD_BCST(Mem{Base: row, Disp: words16 + 4*j}, z, p[j%2])
		} else {
			VPDPBUSD_BCST(Mem{Base: row, Disp: 4 * j}, z, p[j%2])
		}
	}
	VPADDD(p[1], p[0], p[0])
	VCVTDQ2PS(p[0], p[0])
	VMULPS_BCST(Mem{Base: row, Disp: scale}, scales, f)
	VFMADD213PS(Mem{Base: acc}, p[0], f)
	VMOVUPS(f, Mem{Base: acc})
	ADDQ(stride, row)
	ADDQ(Imm(64), acc)
	DECQ(left)
	JNE(LabelRef("rows"))

	ADDQ(U32(uint32(32*bits)), w)
	ADDQ(U32(uint32(32*bits)), second)
	ADDQ(U32(inputBytes), x)
	INCQ(at)
	blocks := mustLoad("blocks")
	CMPQ(at, blocks)
	JLT(LabelRef("loop"))
	VZEROUPPER()
	RET()
}
