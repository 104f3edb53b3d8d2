package main

import (
	"fmt"

	. "github.com/mmcloughlin/avo/build" //nolint:staticcheck // avo's own way of writing
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// Products with AVX-512: registers of 64 bytes, twice as many of them, and masks for what is left at a row's end. What has 16 or 32 columns
// at a time takes four rows of weights with up to six of input: 24 sums, four weights and an input fill 29 of the 32 registers. What it
// begins and ends with is in tile (main.go) and quantTile (quant.go): only what differs is explained here.

const wideRows = 4 // of weights

func wide() {
	for _, t := range []kind{f32, bf16, int8s, split, large} {
		for n := 1; n <= 6; n++ {
			wideTile(t, n)
		}
	}
	for _, t := range []kind{f32, bf16, int8s} {
		packWide(t)
	}
	splitRows()
	wideQuant(8)
	wideQuant(4)
	const runs = "runs, a round, twelve of the instructions that products end in, on registers alone."
	zero := func(z reg.VecVirtual) { VPXORD(z, z, z) }
	spin("Wide", runs, func() reg.VecVirtual { return ZMM() }, zero, func(a, b, sum reg.VecVirtual) { VFMADD231PS(a, b, sum) })
	spin("BF16", runs, func() reg.VecVirtual { return ZMM() }, zero, dotBF16)
}

// dotBF16 adds to each of 16 sums two products of bf16. Go's assembler does not know the instruction, VDPBF16PS: one that differs in its
// prefix stands for it, and numbers (numbers.go) then in that one's place.
func dotBF16(a, b, sum reg.VecVirtual) { VPDPWSSD(a, b, sum) }

// columns is how many columns a step takes.
func (k kind) columns() int {
	if k == split {
		return 32
	}
	return 16
}

// loadWide reads a step's weights at m, or those that the mask leaves.
func (k kind) loadWide(m Mem, z reg.VecVirtual, mask reg.Register) {
	whole := mask == nil
	switch {
	case k == f32 && whole, k == large:
		VMOVUPS(m, z)
	case k == f32:
		VMOVUPS_Z(m, mask, z)
	case k == bf16 && whole:
		VPMOVZXWD(m, z)
	case k == bf16:
		VPMOVZXWD_Z(m, mask, z)
	case k == int8s && whole:
		VPMOVSXBD(m, z)
	case k == int8s:
		VPMOVSXBD_Z(m, mask, z)
	case whole:
		VMOVDQU16(m, z)
	default:
		VMOVDQU16_Z(m, mask, z)
	}
	switch k {
	case bf16:
		VPSLLD(Imm(16), z, z)
	case int8s:
		VCVTDQ2PS(z, z)
	}
}

// wideTile is tile for four rows of weights. Lane l of 16 adds the products l, l+16, l+32 …; of split rows it adds two products at a time,
// of the inputs' roundings and then of the rests, 32 columns by 32.
func wideTile(t kind, N int) {
	in, of, rows, apart := "float32", "x", wideRows, "wStride uintptr, "
	switch t {
	case split:
		in, of = "uint16", "split x"
	case large:
		rows, apart = 1, ""
	}
	TEXT(fmt.Sprintf("wide%v_%d", t, N), NOSPLIT, fmt.Sprintf("func(dst *float32, dstStride uintptr, w *%s, %sx *%s, xStride uintptr, "+
		"steps, rest int, acc *float32, mode int)", t.elem(), apart, in))
	Pragma("noescape")
	describe(fmt.Sprintf("wide%v_%d multiplies %d rows of w with %d rows of %s over steps of %d columns and the rest that is left of them; "+
		"strides are bytes. For the modes see tile: a sum has 16 lanes.", t, N, wideRows, N, of, t.columns()))
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

	unroll := 32 / t.columns()
	weights := func(k, m int) Mem { return w.at(m, t.columns()*t.bytes()*k) }
	along := t.columns() * t.bytes() // from step to step
	if t == large {
		weights = func(k, m int) Mem { return Mem{Base: w.base, Disp: (k*wideRows + m) * 64} }
		along = wideRows * 64
	}
	part := 32 * t.bytes() // of a row, in bytes, that a round of the loop takes: of bf16 a line of the cache
	fetch, ahead, hop, hops, on := N <= 4 && t != f32 && t != large, GP64(), GP64(), GP64(), GP64()
	if fetch { // the next tile's rows, in the order in which they lie
		LEAQ(w.from(w.base, wideRows, 0), ahead)
		MOVQ(U32(64), hop)
		MOVQ(U32(uint32(part*wideRows)), on)
		if t != int8s {
			TESTQ(U32(4), mode)
			JEQ(LabelRef("order"))
			MOVQ(w.one, hop)
			MOVQ(U32(uint32(part)), on)
			Label("order")
		}
		LEAQ(Mem{Base: hop, Index: hop, Scale: 2}, hops)
	}
	step := func(k int, mask reg.Register, rests *strided) {
		ws := make([]reg.VecVirtual, wideRows)
		for m := range ws {
			ws[m] = ZMM()
			t.loadWide(weights(k, m), ws[m], mask)
		}
		for n := range N {
			halves := []Mem{x.at(n, 64*k)}
			if t == split {
				halves = append(halves, rests.at(n, 64))
			}
			for _, from := range halves {
				z := ZMM()
				switch {
				case mask == nil:
					VMOVUPS(from, z)
				case t == split:
					VMOVDQU16_Z(from, mask, z)
				default:
					VMOVUPS_Z(from, mask, z)
				}
				for m := range wideRows {
					if t == split {
						dotBF16(z, ws[m], acc[n*wideRows+m])
					} else {
						VFMADD231PS(ws[m], z, acc[n*wideRows+m])
					}
				}
			}
		}
	}
	forward := func(steps int) {
		ADDQ(U32(uint32(along*steps)), w.base)
		ADDQ(U32(uint32(128/unroll*steps)), x.base)
	}
	SUBQ(Imm(uint64(unroll)), steps)
	JLT(LabelRef("steps"))
	Label("loop")
	if fetch {
		for m := range part * wideRows / 64 {
			PREFETCHT0([]Mem{{Base: ahead}, {Base: ahead, Index: hop, Scale: 1}, {Base: ahead, Index: hop, Scale: 2},
				{Base: ahead, Index: hops, Scale: 1}}[m])
		}
		ADDQ(on, ahead)
	}
	for k := range unroll {
		step(k, nil, x)
	}
	forward(unroll)
	SUBQ(Imm(uint64(unroll)), steps)
	JGE(LabelRef("loop"))
	Label("steps")
	if unroll > 1 {
		ADDQ(Imm(uint64(unroll)), steps)
		JEQ(LabelRef("rest"))
		step(0, nil, x)
		forward(1)
		Label("rest")
	}
	rest, bits, mask := GP64(), GP64(), K()
	Load(Param("rest"), rest)
	TESTQ(rest, rest)
	JEQ(LabelRef("end"))
	MOVQ(I32(-1), bits)
	BZHIQ(rest, bits, bits)
	KMOVD(bits.As32(), mask)
	rests := *x
	if t == split { // the rests follow upon so many roundings, not upon 32
		rests.base = GP64()
		LEAQ(Mem{Base: x.base, Index: rest, Scale: 2, Disp: -64}, rests.base)
	}
	step(0, mask, &rests)
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

// packWide unpacks a row of weights to where a tile of four reads it: 16 values, then those of the other rows, and so on; zeros at the end.
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

// storeWide adds the lanes of each sum, by fours (0+2)+(1+3), and these four alike, and writes four values to each of N rows of dst.
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

// splitRows splits values by 32: their roundings to bf16, then the roundings of what is left of each.
func splitRows() {
	TEXT("splitWide", NOSPLIT, "func(dst *uint16, x *float32, parts int)")
	Pragma("noescape")
	describe("splitWide splits 32 values a part: their roundings to bf16, then those of what the roundings leave.")
	dst, x, parts := GP64(), GP64(), GP64()
	Load(Param("dst"), dst)
	Load(Param("x"), x)
	Load(Param("parts"), parts)
	constant := func(v uint32) reg.VecVirtual {
		r, z := GP32(), ZMM()
		MOVL(U32(v), r)
		VPBROADCASTD(r, z)
		return z
	}
	half, one, quiet := constant(0x7fff), constant(1), constant(0x40)
	round := func(v, to reg.VecVirtual) { // to the nearest bf16, ties to even; a NaN stays one
		h, nan := ZMM(), K()
		VCMPPS(Imm(3), v, v, nan)
		VPSRLD(Imm(16), v, h)
		VPANDD(one, h, to)
		VPADDD(half, to, to)
		VPADDD(v, to, to)
		VPSRLD(Imm(16), to, to)
		VPORD(quiet, h, nan, to)
	}
	Label("loop")
	for k := range 2 {
		v, r := ZMM(), ZMM()
		VMOVUPS(Mem{Base: x, Disp: 64 * k}, v)
		round(v, r)
		VPMOVDW(r, Mem{Base: dst, Disp: 32 * k})
		VPSLLD(Imm(16), r, r)
		VSUBPS(r, v, v)
		round(v, r)
		VPMOVDW(r, Mem{Base: dst, Disp: 64 + 32*k})
	}
	SUBQ(I32(-128), x)
	SUBQ(I32(-128), dst)
	DECQ(parts)
	JNE(LabelRef("loop"))
	VZEROUPPER()
	RET()
}

// turnedWide reads 16 bytes of each of 16 rows: lane l of register j holds the bytes 4j … 4j+3 of row l.
func (r rows8) turnedWide(base, high reg.Register, disp int) []reg.VecVirtual {
	a := make([]reg.VecVirtual, 4)
	for i := range a {
		a[i] = ZMM()
		VMOVDQU32(r.at(base, i, disp), a[i].AsX())
		VINSERTI32X4(Imm(1), r.at(base, i+4, disp), a[i], a[i])
		VINSERTI32X4(Imm(2), r.at(high, i, disp), a[i], a[i])
		VINSERTI32X4(Imm(3), r.at(high, i+4, disp), a[i], a[i])
	}
	low, top := []reg.VecVirtual{ZMM(), ZMM()}, []reg.VecVirtual{ZMM(), ZMM()}
	for i := range low {
		VPUNPCKLDQ(a[2*i+1], a[2*i], low[i])
		VPUNPCKHDQ(a[2*i+1], a[2*i], top[i])
	}
	VPUNPCKLQDQ(low[1], low[0], a[0])
	VPUNPCKHQDQ(low[1], low[0], a[1])
	VPUNPCKLQDQ(top[1], top[0], a[2])
	VPUNPCKHQDQ(top[1], top[0], a[3])
	return a
}

// wideQuant is quantTile for 16 rows of weights. VPDPBUSD multiplies bytes without a sign with bytes that have one: so weights are taken
// 128 too large, or 8 where they have four bits and lie in memory so, and what that adds is taken off again: the input's block has eight
// times its values' sum.
func wideQuant(bits int) {
	TEXT(fmt.Sprintf("wideQuant%d", bits), NOSPLIT, "func(acc *float32, w *byte, wStride uintptr, scales *uint16, scaleStride uintptr, "+
		"x *byte, xStride uintptr, n int, blocks int, mask int)")
	Pragma("noescape")
	describe(fmt.Sprintf("wideQuant%d multiplies 16 rows of w, of %d bits, with n rows of x over so many blocks of 32, and adds to acc, which "+
		"has 16 values for each row of x; strides are bytes. A scale of w holds for mask+1 blocks. It gives the bits that quant%d gives.",
		bits, bits, bits))
	w, ahead := GP64(), GP64()
	Load(Param("w"), w)
	rows := newRows8("wStride")
	LEAQ(Mem{Base: w, Index: rows.one, Scale: 8}, ahead)
	LEAQ(Mem{Base: ahead, Index: rows.one, Scale: 8}, ahead)
	x, stride, at := GP64(), GP64(), GP64()
	Load(Param("x"), x)
	Load(Param("xStride"), stride)
	XORQ(at, at)
	scales, group := ZMM(), GP64()
	Load(Param("scales"), group)
	bytes := ZMM()
	b := GP32()
	MOVL(U32(map[int]uint32{8: 0x80808080, 4: 0x0f0f0f0f}[bits]), b)
	VPBROADCASTD(b, bytes)
	Label("loop")
	for line := range bits {
		PREFETCHT0(Mem{Base: ahead, Disp: 64 * line})
	}
	t := GP64()
	Load(Param("mask"), t)
	TESTQ(t, at)
	JNE(LabelRef("scaled"))
	groupScalesWide(scales, group)
	ADDQ(Imm(2), group)
	Label("scaled")

	high := GP64()
	LEAQ(Mem{Base: w, Index: rows.one, Scale: 8}, high)
	v := rows.turnedWide(w, high, 0)
	if bits == 4 {
		for j := range 4 {
			h := ZMM()
			VPSRLW(Imm(4), v[j], h)
			VPANDD(bytes, h, h)
			VPANDD(bytes, v[j], v[j])
			v = append(v, h)
		}
	} else {
		v = append(v, rows.turnedWide(w, high, 16)...)
		for _, z := range v {
			VPXORD(bytes, z, z)
		}
	}

	row, acc, left := GP64(), GP64(), GP64()
	MOVQ(x, row)
	Load(Param("acc"), acc)
	Load(Param("n"), left)
	Label("rows")
	p, off, f := []reg.VecVirtual{ZMM(), ZMM()}, ZMM(), ZMM()
	VPBROADCASTD(Mem{Base: row, Disp: 36}, off)
	if bits == 8 {
		VPSLLD(Imm(4), off, off)
	}
	for _, z := range p {
		VPXORD(z, z, z)
	}
	for j, z := range v {
		VPDPBUSD_BCST(Mem{Base: row, Disp: 4 * j}, z, p[j%2])
	}
	VPADDD(p[1], p[0], p[0])
	VPSUBD(off, p[0], p[0])
	VCVTDQ2PS(p[0], p[0])
	VMULPS_BCST(Mem{Base: row, Disp: 32}, scales, f)
	VFMADD213PS(Mem{Base: acc}, p[0], f)
	VMOVUPS(f, Mem{Base: acc})
	ADDQ(stride, row)
	ADDQ(Imm(64), acc)
	DECQ(left)
	JNE(LabelRef("rows"))

	ADDQ(Imm(uint64(4*bits)), w)
	ADDQ(U32(uint32(64*bits)), ahead)
	ADDQ(Imm(64), x)
	INCQ(at)
	blocks := GP64()
	Load(Param("blocks"), blocks)
	CMPQ(at, blocks)
	JLT(LabelRef("loop"))
	VZEROUPPER()
	RET()
}

// groupScalesWide is groupScales for 16 rows.
func groupScalesWide(z reg.VecVirtual, scales reg.GPVirtual) {
	from, stride := GP64(), GP64()
	MOVQ(scales, from)
	Load(Param("scaleStride"), stride)
	VPXORD(z, z, z)
	for i := range 4 {
		q := XMM()
		VPXORD(q, q, q)
		for k := range 4 {
			VPINSRW(Imm(uint64(2*k+1)), Mem{Base: from}, q, q)
			if 4*i+k < 15 {
				ADDQ(stride, from)
			}
		}
		VINSERTI32X4(Imm(uint64(i)), q, z, z)
	}
}
