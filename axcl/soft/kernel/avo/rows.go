package main

import (
	"fmt"
	"math"

	. "github.com/mmcloughlin/avo/build" //nolint:staticcheck // avo's own way of writing
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// values adds, for I rows, p · v to 16 sums in float64. Each sum meets the cells in their order,
// one fused multiply-add each.
func values(I int) {
	TEXT(fmt.Sprintf("values%d", I), NOSPLIT, "func(sum *float64, sumStride uintptr, p *float64, pStride uintptr, v *float64, vStride "+
		"uintptr, cells int)")
	Pragma("noescape")
	describe(fmt.Sprintf("values%d adds p·v to 16 columns of %d rows of sum: p has a value a cell for each row, v a row a cell; "+
		"strides are bytes.", I, I))
	s, p := newStrided("sum", "sumStride", I), newStrided("p", "pStride", I)
	v, stride, cells := GP64(), GP64(), GP64()
	Load(Param("v"), v)
	Load(Param("vStride"), stride)
	Load(Param("cells"), cells)
	acc := make([]reg.VecVirtual, 4*I)
	for i := range acc {
		acc[i] = YMM()
		VMOVUPD(s.at(i/4, i%4*32), acc[i])
	}
	Label("loop")
	ps := make([]reg.VecVirtual, I)
	for i := range ps {
		ps[i] = YMM()
		VBROADCASTSD(p.at(i, 0), ps[i])
	}
	for k := range 4 {
		y := YMM()
		VMOVUPD(Mem{Base: v, Disp: 32 * k}, y)
		for i := range I {
			VFMADD231PD(ps[i], y, acc[4*i+k])
		}
	}
	ADDQ(Imm(8), p.base)
	ADDQ(stride, v)
	DECQ(cells)
	JNE(LabelRef("loop"))
	for i, a := range acc {
		VMOVUPD(a, s.at(i/4, i%4*32))
	}
	VZEROUPPER()
	RET()
}

// each begins a function over vectors whose length is a multiple of 8, and gives the loop's
// pointers. Of a length of 0 it returns before any instruction that not every processor has.
func each(name, signature, doc string, pointers ...string) (ps []reg.GPVirtual, n reg.GPVirtual) {
	TEXT(name, NOSPLIT, signature)
	Pragma("noescape")
	describe(name + " " + doc)
	for _, p := range pointers {
		r := GP64()
		Load(Param(p), r)
		ps = append(ps, r)
	}
	n = GP64()
	Load(Param("n"), n)
	TESTQ(n, n)
	JNE(LabelRef("begin"))
	RET()
	Label("begin")
	return ps, n
}

func again(n reg.GPVirtual, moves map[reg.GPVirtual]int, order ...reg.GPVirtual) {
	for _, r := range order {
		ADDQ(Imm(uint64(moves[r])), r)
	}
	SUBQ(Imm(8), n)
	JNE(LabelRef("loop"))
}

func widen(t kind) {
	p, n := each("widen"+t.String(), fmt.Sprintf("func(dst *float32, src *%s, n int)", t.elem()),
		"converts n values, a multiple of 8, to float32.", "dst", "src")
	Label("loop")
	y := YMM()
	t.load(Mem{Base: p[1]}, y)
	VMOVUPS(y, Mem{Base: p[0]})
	again(n, map[reg.GPVirtual]int{p[0]: 32, p[1]: 8 * t.bytes()}, p...)
	VZEROUPPER()
	RET()
}

func double() {
	p, n := each("doubleF32", "func(dst *float64, src *float32, n int)", "converts n values, a multiple of 8, to float64.", "dst", "src")
	Label("loop")
	for k := range 2 {
		y := YMM()
		VCVTPS2PD(Mem{Base: p[1], Disp: 16 * k}, y)
		VMOVUPD(y, Mem{Base: p[0], Disp: 32 * k})
	}
	again(n, map[reg.GPVirtual]int{p[0]: 64, p[1]: 32}, p...)
	VZEROUPPER()
	RET()
}

func single() {
	p, n := each("singleAsm", "func(dst *float32, src *float64, n int)", "converts n values, a multiple of 8, to float32.", "dst", "src")
	Label("loop")
	for k := range 2 {
		y := YMM()
		VCVTPD2PSY(Mem{Base: p[1], Disp: 32 * k}, y.AsX())
		VMOVUPS(y.AsX(), Mem{Base: p[0], Disp: 16 * k})
	}
	again(n, map[reg.GPVirtual]int{p[0]: 32, p[1]: 64}, p...)
	VZEROUPPER()
	RET()
}

func add() {
	p, n := each("addAsm", "func(x *float32, y *float32, n int)", "adds y to x, n values, a multiple of 8.", "x", "y")
	Label("loop")
	y := YMM()
	VMOVUPS(Mem{Base: p[0]}, y)
	VADDPS(Mem{Base: p[1]}, y, y)
	VMOVUPS(y, Mem{Base: p[0]})
	again(n, map[reg.GPVirtual]int{p[0]: 32, p[1]: 32}, p...)
	VZEROUPPER()
	RET()
}

func rotate() {
	p, n := each("rotateAsm", "func(low *float32, high *float32, cos *float32, sin *float32, n int)",
		"sets low to low·cos - high·sin and high to high·cos + low·sin, for n values, a multiple of 8.", "low", "high", "cos", "sin")
	Label("loop")
	a, b, c, s := YMM(), YMM(), YMM(), YMM()
	VMOVUPS(Mem{Base: p[0]}, a)
	VMOVUPS(Mem{Base: p[1]}, b)
	VMOVUPS(Mem{Base: p[2]}, c)
	VMOVUPS(Mem{Base: p[3]}, s)
	t := YMM()
	VMULPS(a, s, t)
	VMULPS(b, s, s)
	VMULPS(c, a, a)
	VMULPS(c, b, b)
	VSUBPS(s, a, a)
	VADDPS(t, b, b)
	VMOVUPS(a, Mem{Base: p[0]})
	VMOVUPS(b, Mem{Base: p[1]})
	again(n, map[reg.GPVirtual]int{p[0]: 32, p[1]: 32, p[2]: 32, p[3]: 32}, p...)
	VZEROUPPER()
	RET()
}

func doubleBF16() {
	p, n := each("doubleBF16", "func(dst *float64, src *uint16, n int)", "converts n values, a multiple of 8, to float64.", "dst", "src")
	Label("loop")
	for k := range 2 {
		y := YMM()
		VPMOVZXWD(Mem{Base: p[1], Disp: 8 * k}, y.AsX())
		VPSLLD(Imm(16), y.AsX(), y.AsX())
		VCVTPS2PD(y.AsX(), y)
		VMOVUPD(y, Mem{Base: p[0], Disp: 32 * k})
	}
	again(n, map[reg.GPVirtual]int{p[0]: 64, p[1]: 16}, p...)
	VZEROUPPER()
	RET()
}

// narrow rounds to the nearest bf16, ties to even; a NaN stays one.
func narrow() {
	p, n := each("narrowAsm", "func(dst *uint16, src *float32, n int)", "rounds n values, a multiple of 8, to bf16.", "dst", "src")
	half, one, quiet := YMM(), YMM(), YMM()
	fill(half, 0x7fff)
	fill(one, 1)
	fill(quiet, 0x40)
	Label("loop")
	v, h, l, nan := YMM(), YMM(), YMM(), YMM()
	VMOVUPS(Mem{Base: p[1]}, v)
	VCMPPS(Imm(3), v, v, nan)
	VPSRLD(Imm(16), v, h)
	VPAND(one, h, l)
	VPADDD(half, l, l)
	VPADDD(v, l, l)
	VPSRLD(Imm(16), l, l)
	VPOR(quiet, h, h)
	VPBLENDVB(nan, h, l, l)
	VEXTRACTI128(Imm(1), l, h.AsX())
	VPACKUSDW(h.AsX(), l.AsX(), l.AsX())
	VMOVDQU(l.AsX(), Mem{Base: p[0]})
	again(n, map[reg.GPVirtual]int{p[0]: 16, p[1]: 32}, p...)
	VZEROUPPER()
	RET()
}

func largest() {
	p, n := each("largestAsm", "func(x *float32, n int) float32",
		"is the largest of n values, a multiple of 8; a NaN may or may not be passed over.", "x")
	top := YMM()
	VMOVUPS(Mem{Base: p[0]}, top)
	Label("loop")
	VMAXPS(Mem{Base: p[0]}, top, top)
	again(n, map[reg.GPVirtual]int{p[0]: 32}, p...)
	t := YMM()
	VEXTRACTF128(Imm(1), top, t.AsX())
	VMAXPS(t.AsX(), top.AsX(), top.AsX())
	VMOVHLPS(top.AsX(), top.AsX(), t.AsX())
	VMAXPS(t.AsX(), top.AsX(), top.AsX())
	VPSRLQ(Imm(32), top.AsX(), t.AsX())
	VMAXSS(t.AsX(), top.AsX(), top.AsX())
	Store(top.AsX(), ReturnIndex(0))
	VZEROUPPER()
	RET()
}

// number is a float32 in all lanes, in memory.
func number(f float32) Mem {
	name := fmt.Sprintf("f%08x", math.Float32bits(f))
	if m, ok := constants[name]; ok {
		return m
	}
	m := GLOBL(name, RODATA|NOPTR)
	for i := range 8 {
		DATA(4*i, U32(math.Float32bits(f)))
	}
	constants[name] = m
	return m
}

func integer(v uint32) Mem { return number(math.Float32frombits(v)) }

// exp sets x to eˣ: Exp of math.go, operation by operation, so that both give the same bits.
func exp(x reg.VecVirtual) {
	high, low, n, r, p := YMM(), YMM(), YMM(), YMM(), YMM()
	VCMPPS(Imm(0x1e), number(88.7), x, high) // greater: infinity
	VCMPPS(Imm(0x11), number(-87.3), x, low) // less: zero
	VMULPS(number(1.44269504), x, n)
	VROUNDPS(Imm(8), n, n)
	VMULPS(number(0.693359375), n, r)
	VSUBPS(r, x, r)
	VMULPS(number(-2.12194440e-4), n, p)
	VSUBPS(p, r, r)
	VMULPS(number(1.9875691500e-4), r, p)
	for _, c := range []float32{1.3981999507e-3, 8.3334519073e-3, 4.1665795894e-2, 1.6666665459e-1, 5.0000001201e-1} {
		VADDPS(number(c), p, p)
		VMULPS(r, p, p)
	}
	VMULPS(r, p, p)
	VADDPS(r, p, p)
	VADDPS(number(1), p, p)
	VCVTPS2DQ(n, n)
	VPADDD(integer(127), n, n)
	VPSLLD(Imm(23), n, n)
	VMULPS(n, p, p)
	VANDNPS(p, low, p)
	VBLENDVPS(high, number(float32(math.Inf(1))), p, p)
	VCMPPS(Imm(3), x, x, high) // a NaN stays one
	VBLENDVPS(high, x, p, x)
}

func expSum() {
	p, n := each("expSumAsm", "func(x *float32, n int, top float32) float64",
		"replaces n values, a multiple of 8, by the exponential of what they are above top, and gives their sum: four sums, of every "+
			"fourth value.", "x")
	top, sum := YMM(), YMM()
	Load(Param("top"), top.AsX())
	VBROADCASTSS(top.AsX(), top)
	VXORPD(sum, sum, sum)
	Label("loop")
	v, d := YMM(), YMM()
	VMOVUPS(Mem{Base: p[0]}, v)
	VSUBPS(top, v, v)
	exp(v)
	VMOVUPS(v, Mem{Base: p[0]})
	VCVTPS2PD(v.AsX(), d)
	VADDPD(d, sum, sum)
	VEXTRACTF128(Imm(1), v, v.AsX())
	VCVTPS2PD(v.AsX(), d)
	VADDPD(d, sum, sum)
	again(n, map[reg.GPVirtual]int{p[0]: 32}, p...)
	lanes(sum)
	Store(sum.AsX(), ReturnIndex(0))
	VZEROUPPER()
	RET()
}

// lanes adds four float64: (0+1) + (2+3).
func lanes(sum reg.VecVirtual) {
	t := YMM()
	VHADDPD(sum, sum, sum)
	VEXTRACTF128(Imm(1), sum, t.AsX())
	VADDSD(t.AsX(), sum.AsX(), sum.AsX())
}

func scale() {
	p, n := each("scaleAsm", "func(x *float32, n int, f float32)", "multiplies n values, a multiple of 8, by f.", "x")
	f := YMM()
	Load(Param("f"), f.AsX())
	VBROADCASTSS(f.AsX(), f)
	Label("loop")
	v := YMM()
	VMULPS(Mem{Base: p[0]}, f, v)
	VMOVUPS(v, Mem{Base: p[0]})
	again(n, map[reg.GPVirtual]int{p[0]: 32}, p...)
	VZEROUPPER()
	RET()
}

func silu() {
	p, n := each("siluAsm", "func(gate *float32, up *float32, n int)",
		"sets gate to gate / (1 + e^-gate) · up, for n values, a multiple of 8.", "gate", "up")
	Label("loop")
	g, e := YMM(), YMM()
	VMOVUPS(Mem{Base: p[0]}, g)
	VXORPS(integer(0x80000000), g, e)
	exp(e)
	VADDPS(number(1), e, e)
	VDIVPS(e, g, g)
	VMULPS(Mem{Base: p[1]}, g, g)
	VMOVUPS(g, Mem{Base: p[0]})
	again(n, map[reg.GPVirtual]int{p[0]: 32, p[1]: 32}, p...)
	VZEROUPPER()
	RET()
}

func gelu() {
	p, n := each("geluAsm", "func(gate *float32, up *float32, n int)",
		"sets gate to its GELU, tanh form, times up, for n values, a multiple of 8.", "gate", "up")
	Label("loop")
	g, z, t := YMM(), YMM(), YMM()
	VMOVUPS(Mem{Base: p[0]}, g)
	VMULPS(number(0.044715), g, z)
	VMULPS(g, z, z)
	VMULPS(g, z, z)
	VADDPS(z, g, z)
	VMULPS(number(0.7978845608), z, z)
	VMULPS(number(2), z, z)
	exp(z)
	VADDPS(number(1), z, z)
	VMOVUPS(number(2), t)
	VDIVPS(z, t, z)
	VSUBPS(z, t, z)
	VMULPS(number(0.5), g, g)
	VMULPS(z, g, g)
	VMULPS(Mem{Base: p[1]}, g, g)
	VMOVUPS(g, Mem{Base: p[0]})
	again(n, map[reg.GPVirtual]int{p[0]: 32, p[1]: 32}, p...)
	VZEROUPPER()
	RET()
}

func squares() {
	p, n := each("squaresAsm", "func(x *float32, n int) float64",
		"is the sum of n squares, n a multiple of 8: four sums, of every fourth value.", "x")
	sum := YMM()
	VXORPD(sum, sum, sum)
	Label("loop")
	for k := range 2 {
		d := YMM()
		VCVTPS2PD(Mem{Base: p[0], Disp: 16 * k}, d)
		VMULPD(d, d, d)
		VADDPD(d, sum, sum)
	}
	again(n, map[reg.GPVirtual]int{p[0]: 32}, p...)
	lanes(sum)
	Store(sum.AsX(), ReturnIndex(0))
	VZEROUPPER()
	RET()
}

func normalise() {
	p, n := each("normaliseAsm", "func(dst *float32, x *float32, w *float32, n int, f float32)",
		"sets dst to x·f·w, for n values, a multiple of 8.", "dst", "x", "w")
	f := YMM()
	Load(Param("f"), f.AsX())
	VBROADCASTSS(f.AsX(), f)
	Label("loop")
	v := YMM()
	VMULPS(Mem{Base: p[1]}, f, v)
	VMULPS(Mem{Base: p[2]}, v, v)
	VMOVUPS(v, Mem{Base: p[0]})
	again(n, map[reg.GPVirtual]int{p[0]: 32, p[1]: 32, p[2]: 32}, p...)
	VZEROUPPER()
	RET()
}
