package main

import (
	"fmt"

	. "github.com/mmcloughlin/avo/build" //nolint:staticcheck // avo's own way of writing
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// Products with weights in fours: bf16, four rows after four, and of four rows a line of 32 values
// of each in turn. So a tile of four rows reads memory from one end to the other, and asks for what
// lies a fixed way ahead.

const (
	lineBytes = 64
	fourBytes = 4 * lineBytes
	ahead     = 1536
)

// fours is tile for four rows of weights in fours. What comes of a sum is what comes of tile's.
func fours(N int) {
	TEXT(fmt.Sprintf("fours%d", N), NOSPLIT, "func(dst *float32, dstStride uintptr, w *uint16, wStride uintptr, x *float32, "+
		"xStride uintptr, steps int, tiles int)")
	Pragma("noescape")
	describe(fmt.Sprintf("fours%d multiplies four rows of w, in fours, with %d rows of x over steps of eight columns, and writes four values "+
		"to each of %d rows of dst; strides are bytes. It does so for as many fours, which follow each other in dst too.", N, N, N))
	w, next, tiles, dst, steps := GP64(), GP64(), GP64(), GP64(), GP64()
	x := newStrided("x", "xStride", N)
	Load(Param("w"), next)
	Load(Param("dst"), dst)
	Load(Param("tiles"), tiles)
	Label("tile")
	MOVQ(next, w)
	ADDQ(mustLoad("wStride"), next)
	Load(Param("x"), x.base)
	Load(Param("steps"), steps)
	acc := make([]reg.VecVirtual, 4*N)
	for i := range acc {
		acc[i] = YMM()
		VXORPS(acc[i], acc[i], acc[i])
	}
	step := func(k int) {
		xs := make([]reg.VecVirtual, N) // and one row of weights at a time: sixteen registers
		for n := range xs {
			xs[n] = YMM()
			VMOVUPS(x.at(n, 32*k), xs[n])
		}
		for m := range 4 {
			y := YMM()
			bf16.load(Mem{Base: w, Disp: lineBytes*m + 16*k}, y)
			for n := range N {
				VFMADD231PS(xs[n], y, acc[4*n+m])
			}
		}
	}
	SUBQ(Imm(4), steps)
	JLT(LabelRef("rest"))
	Label("loop")
	for k := range 4 {
		PREFETCHT0(Mem{Base: w, Disp: ahead + lineBytes*k})
		step(k)
	}
	ADDQ(U32(fourBytes), w)
	ADDQ(U32(128), x.base)
	SUBQ(Imm(4), steps)
	JGE(LabelRef("loop"))
	Label("rest")
	ADDQ(Imm(4), steps)
	JEQ(LabelRef("end"))
	Label("single")
	step(0)
	ADDQ(Imm(16), w)
	ADDQ(Imm(32), x.base)
	DECQ(steps)
	JNE(LabelRef("single"))
	Label("end")
	store(acc, dst, 4, N)
	ADDQ(Imm(16), dst)
	DECQ(tiles)
	JNE(LabelRef("tile"))
	VZEROUPPER()
	RET()
}

func mustLoad(name string) reg.GPVirtual { r := GP64(); Load(Param(name), r); return r }

// packFours converts four rows of a panel for tilePacked.
func packFours() {
	TEXT("packFours", NOSPLIT, "func(dst *float32, src *uint16, n int)")
	Pragma("noescape")
	describe("packFours converts n columns, a multiple of 8, of four rows in fours to float32: eight values of each row in turn.")
	dst, src, n := mustLoad("dst"), mustLoad("src"), mustLoad("n")
	step := func(k int) {
		for m := range 4 {
			y := YMM()
			bf16.load(Mem{Base: src, Disp: lineBytes*m + 16*k}, y)
			VMOVUPS(y, Mem{Base: dst, Disp: 128*k + 32*m})
		}
	}
	SUBQ(Imm(32), n)
	JLT(LabelRef("rest"))
	Label("loop")
	for k := range 4 {
		step(k)
	}
	ADDQ(U32(fourBytes), src)
	ADDQ(U32(512), dst)
	SUBQ(Imm(32), n)
	JGE(LabelRef("loop"))
	Label("rest")
	ADDQ(Imm(32), n)
	JEQ(LabelRef("end"))
	Label("single")
	step(0)
	ADDQ(Imm(16), src)
	SUBQ(I32(-128), dst)
	SUBQ(Imm(8), n)
	JNE(LabelRef("single"))
	Label("end")
	VZEROUPPER()
	RET()
}
