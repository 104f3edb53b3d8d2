// The inner loops for AVX2 and FMA; see kernel.go for what each computes. Every sum has two accumulators, in the same
// order in the one-row and the four-row form, so both give the same bits.

#include "textflag.h"

// Adds the eight lanes of y (whose low half is x) into the low lane of x.
#define HSUM(y, x) \
	VEXTRACTF128 $1, y, X10; \
	VADDPS       X10, x, x; \
	VHADDPS      x, x, x; \
	VHADDPS      x, x, x

// Loads 16 weights at AX as float32 into Y8 and Y9, and moves on. The weights are read once a token, in order, from pages of 4 KiB at whose
// ends the processor's own prefetching stops: a line a kilobyte ahead is asked for. A prefetch never faults.
#define LOADBF16 \
	PREFETCHT0 1024(AX); \
	VPMOVZXWD (AX), Y8; \
	VPMOVZXWD 16(AX), Y9; \
	VPSLLD    $16, Y8, Y8; \
	VPSLLD    $16, Y9, Y9; \
	ADDQ      $32, AX

#define LOADINT8 \
	PREFETCHT0 1024(AX); \
	VPMOVSXBD (AX), Y8; \
	VPMOVSXBD 8(AX), Y9; \
	VCVTDQ2PS Y8, Y8; \
	VCVTDQ2PS Y9, Y9; \
	ADDQ      $16, AX

// func dotBF16Asm(w *uint16, x *float32, n int) float32
TEXT ·dotBF16Asm(SB), NOSPLIT, $0-28
	MOVQ   w+0(FP), AX
	MOVQ   x+8(FP), BX
	MOVQ   n+16(FP), CX
	VXORPS Y0, Y0, Y0
	VXORPS Y1, Y1, Y1

loop:
	LOADBF16
	VFMADD231PS (BX), Y8, Y0
	VFMADD231PS 32(BX), Y9, Y1
	ADDQ        $64, BX
	SUBQ        $16, CX
	JNZ         loop
	VADDPS      Y1, Y0, Y0
	HSUM(Y0, X0)
	VMOVSS      X0, ret+24(FP)
	VZEROUPPER
	RET

// func dot4BF16Asm(out *[4]float32, w *uint16, x *float32, stride, n int)
TEXT ·dot4BF16Asm(SB), NOSPLIT, $0-40
	MOVQ   out+0(FP), DI
	MOVQ   w+8(FP), AX
	MOVQ   x+16(FP), BX
	MOVQ   stride+24(FP), SI
	MOVQ   n+32(FP), CX
	SHLQ   $2, SI
	LEAQ   (BX)(SI*1), DX
	LEAQ   (DX)(SI*1), R8
	LEAQ   (R8)(SI*1), R9
	VXORPS Y0, Y0, Y0
	VXORPS Y1, Y1, Y1
	VXORPS Y2, Y2, Y2
	VXORPS Y3, Y3, Y3
	VXORPS Y4, Y4, Y4
	VXORPS Y5, Y5, Y5
	VXORPS Y6, Y6, Y6
	VXORPS Y7, Y7, Y7

loop:
	LOADBF16
	VFMADD231PS (BX), Y8, Y0
	VFMADD231PS 32(BX), Y9, Y1
	VFMADD231PS (DX), Y8, Y2
	VFMADD231PS 32(DX), Y9, Y3
	VFMADD231PS (R8), Y8, Y4
	VFMADD231PS 32(R8), Y9, Y5
	VFMADD231PS (R9), Y8, Y6
	VFMADD231PS 32(R9), Y9, Y7
	ADDQ        $64, BX
	ADDQ        $64, DX
	ADDQ        $64, R8
	ADDQ        $64, R9
	SUBQ        $16, CX
	JNZ         loop
	VADDPS      Y1, Y0, Y0
	VADDPS      Y3, Y2, Y2
	VADDPS      Y5, Y4, Y4
	VADDPS      Y7, Y6, Y6
	HSUM(Y0, X0)
	HSUM(Y2, X2)
	HSUM(Y4, X4)
	HSUM(Y6, X6)
	VMOVSS      X0, (DI)
	VMOVSS      X2, 4(DI)
	VMOVSS      X4, 8(DI)
	VMOVSS      X6, 12(DI)
	VZEROUPPER
	RET

// func dotInt8Asm(w *int8, x *float32, n int) float32
TEXT ·dotInt8Asm(SB), NOSPLIT, $0-28
	MOVQ   w+0(FP), AX
	MOVQ   x+8(FP), BX
	MOVQ   n+16(FP), CX
	VXORPS Y0, Y0, Y0
	VXORPS Y1, Y1, Y1

loop:
	LOADINT8
	VFMADD231PS (BX), Y8, Y0
	VFMADD231PS 32(BX), Y9, Y1
	ADDQ        $64, BX
	SUBQ        $16, CX
	JNZ         loop
	VADDPS      Y1, Y0, Y0
	HSUM(Y0, X0)
	VMOVSS      X0, ret+24(FP)
	VZEROUPPER
	RET

// func dot4Int8Asm(out *[4]float32, w *int8, x *float32, stride, n int)
TEXT ·dot4Int8Asm(SB), NOSPLIT, $0-40
	MOVQ   out+0(FP), DI
	MOVQ   w+8(FP), AX
	MOVQ   x+16(FP), BX
	MOVQ   stride+24(FP), SI
	MOVQ   n+32(FP), CX
	SHLQ   $2, SI
	LEAQ   (BX)(SI*1), DX
	LEAQ   (DX)(SI*1), R8
	LEAQ   (R8)(SI*1), R9
	VXORPS Y0, Y0, Y0
	VXORPS Y1, Y1, Y1
	VXORPS Y2, Y2, Y2
	VXORPS Y3, Y3, Y3
	VXORPS Y4, Y4, Y4
	VXORPS Y5, Y5, Y5
	VXORPS Y6, Y6, Y6
	VXORPS Y7, Y7, Y7

loop:
	LOADINT8
	VFMADD231PS (BX), Y8, Y0
	VFMADD231PS 32(BX), Y9, Y1
	VFMADD231PS (DX), Y8, Y2
	VFMADD231PS 32(DX), Y9, Y3
	VFMADD231PS (R8), Y8, Y4
	VFMADD231PS 32(R8), Y9, Y5
	VFMADD231PS (R9), Y8, Y6
	VFMADD231PS 32(R9), Y9, Y7
	ADDQ        $64, BX
	ADDQ        $64, DX
	ADDQ        $64, R8
	ADDQ        $64, R9
	SUBQ        $16, CX
	JNZ         loop
	VADDPS      Y1, Y0, Y0
	VADDPS      Y3, Y2, Y2
	VADDPS      Y5, Y4, Y4
	VADDPS      Y7, Y6, Y6
	HSUM(Y0, X0)
	HSUM(Y2, X2)
	HSUM(Y4, X4)
	HSUM(Y6, X6)
	VMOVSS      X0, (DI)
	VMOVSS      X2, 4(DI)
	VMOVSS      X4, 8(DI)
	VMOVSS      X6, 12(DI)
	VZEROUPPER
	RET

// func axpyBF16Asm(y *float64, a float64, v *uint16, n int)
TEXT ·axpyBF16Asm(SB), NOSPLIT, $0-32
	MOVQ         y+0(FP), DI
	VBROADCASTSD a+8(FP), Y0
	MOVQ         v+16(FP), AX
	MOVQ         n+24(FP), CX

loop:
	VPMOVZXWD    (AX), Y1
	VPSLLD       $16, Y1, Y1
	VCVTPS2PD    X1, Y2
	VEXTRACTF128 $1, Y1, X1
	VCVTPS2PD    X1, Y3
	VMOVUPD      (DI), Y4
	VMOVUPD      32(DI), Y5
	VFMADD231PD  Y2, Y0, Y4
	VFMADD231PD  Y3, Y0, Y5
	VMOVUPD      Y4, (DI)
	VMOVUPD      Y5, 32(DI)
	ADDQ         $16, AX
	ADDQ         $64, DI
	SUBQ         $8, CX
	JNZ          loop
	VZEROUPPER
	RET
