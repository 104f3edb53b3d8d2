package main

import (
	. "github.com/mmcloughlin/avo/build" //nolint:staticcheck // avo's own way of writing
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// delta is the gated delta rule for 32 columns of a state. Nothing is fused: products are rounded
// as they are in plain Go.
func delta() {
	const columns = 4 // registers of eight
	TEXT("delta32", NOSPLIT, "func(dst, state *float32, stride uintptr, q, k, v *float32, n int, keep, beta float32)")
	Pragma("noescape")
	describe("delta32 is Delta for 32 columns of a state of n rows, which are stride bytes apart.")
	param := func(name string) reg.GPVirtual { r := GP64(); Load(Param(name), r); return r }
	spread := func(name string) reg.VecVirtual {
		x, y := XMM(), YMM()
		Load(Param(name), x)
		VBROADCASTSS(x, y)
		return y
	}
	zeros := func() (sums [columns]reg.VecVirtual) {
		for c := range sums {
			sums[c] = YMM()
			VXORPS(sums[c], sums[c], sums[c])
		}
		return sums
	}
	stride, keep := param("stride"), spread("keep")
	row, key, n := param("state"), param("k"), param("n")
	d := zeros()
	k, t := YMM(), YMM()
	Label("recall")
	VBROADCASTSS(Mem{Base: key}, k)
	for c := range columns {
		VMULPS(Mem{Base: row, Disp: 32 * c}, k, t)
		VADDPS(t, d[c], d[c])
	}
	ADDQ(stride, row)
	ADDQ(Imm(4), key)
	DECQ(n)
	JNE(LabelRef("recall"))

	v, beta := param("v"), spread("beta")
	for c := range columns {
		VMULPS(keep, d[c], d[c])
		VMOVUPS(Mem{Base: v, Disp: 32 * c}, t)
		VSUBPS(d[c], t, t)
		VMULPS(t, beta, d[c])
	}

	row, key, n = param("state"), param("k"), param("n")
	query, q, u, o := param("q"), YMM(), YMM(), zeros()
	Label("write")
	VBROADCASTSS(Mem{Base: key}, k)
	VBROADCASTSS(Mem{Base: query}, q)
	for c := range columns {
		VMULPS(Mem{Base: row, Disp: 32 * c}, keep, t)
		VMULPS(d[c], k, u)
		VADDPS(u, t, t)
		VMOVUPS(t, Mem{Base: row, Disp: 32 * c})
		VMULPS(t, q, t)
		VADDPS(t, o[c], o[c])
	}
	ADDQ(stride, row)
	ADDQ(Imm(4), key)
	ADDQ(Imm(4), query)
	DECQ(n)
	JNE(LabelRef("write"))
	dst := param("dst")
	for c := range columns {
		VMOVUPS(o[c], Mem{Base: dst, Disp: 32 * c})
	}
	VZEROUPPER()
	RET()
}
