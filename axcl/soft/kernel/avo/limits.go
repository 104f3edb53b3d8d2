package main

import (
	. "github.com/mmcloughlin/avo/build" //nolint:staticcheck // avo's own way of writing
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// What a processor can do at most, to measure the kernels against.

// spins is how many sums a round of spin has: more than the processor needs to have in flight at
// once.
const spins = 12

// spin writes a loop of multiply-adds on registers that vector gives and zero clears.
func spin(name, does string, vector func() reg.VecVirtual, zero func(reg.VecVirtual)) {
	TEXT("spin"+name, NOSPLIT, "func(rounds int)")
	Pragma("noescape")
	describe("spin" + name + " " + does)
	rounds := GP64()
	Load(Param("rounds"), rounds)
	acc := make([]reg.VecVirtual, spins)
	for i := range acc {
		acc[i] = vector()
		zero(acc[i])
	}
	a, b := vector(), vector()
	zero(a)
	zero(b)
	Label("loop")
	for _, s := range acc {
		VFMADD231PS(a, b, s)
	}
	DECQ(rounds)
	JNE(LabelRef("loop"))
	VZEROUPPER()
	RET()
}

func read() {
	TEXT("readAsm", NOSPLIT, "func(p *byte, n int)")
	Pragma("noescape")
	describe("readAsm loads n bytes, a multiple of 256, and keeps nothing.")
	p, n := GP64(), GP64()
	Load(Param("p"), p)
	Load(Param("n"), n)
	ys := make([]reg.VecVirtual, 8)
	for i := range ys {
		ys[i] = YMM()
	}
	Label("loop")
	for i, y := range ys {
		VMOVDQU(Mem{Base: p, Disp: 32 * i}, y)
	}
	ADDQ(U32(256), p)
	SUBQ(U32(256), n)
	JNE(LabelRef("loop"))
	VZEROUPPER()
	RET()
}
