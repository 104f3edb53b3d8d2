//go:build !purego

// The inner loops for NEON; each is the sum of n products of weights with one row, or with four. Every sum has two
// accumulators, in the same order in both forms, so both give the same bits. WORDs are instructions that Go's assembler
// does not know; each has its meaning beside it.

#include "textflag.h"

// How far ahead of what is multiplied weights are asked for, in bytes, where they lie in the order in which they are read. No such request
// faults, past the end of the weights either.
#define AHEAD 1024

// Loads 16 weights at R0 as float32 into V19 to V22, and moves on.
#define LOADBF16 \
	VLD1.P 32(R0), [V16.H8, V17.H8]; \
	WORD   $0x2e613a13 /* shll v19.4s, v16.4h, #16 */; \
	WORD   $0x6e613a14 /* shll2 v20.4s, v16.8h, #16 */; \
	WORD   $0x2e613a35 /* shll v21.4s, v17.4h, #16 */; \
	WORD   $0x6e613a36 /* shll2 v22.4s, v17.8h, #16 */

// Goes on to the row's next line, R9 bytes after the end of this one, after the second half of it: R8 is what a half is followed by.
#define NEXT \
	ADD R8, R0; \
	EOR R9, R8

// Multiplies the weights with 16 values at x into the sums a and b.
#define MULADD(x, a, b) \
	VLD1.P 64(x), [V24.S4, V25.S4, V26.S4, V27.S4]; \
	VFMLA  V24.S4, V19.S4, a.S4; \
	VFMLA  V25.S4, V20.S4, b.S4; \
	VFMLA  V26.S4, V21.S4, a.S4; \
	VFMLA  V27.S4, V22.S4, b.S4

// func dotBF16Asm(w *uint16, x *float32, n int, skip uintptr) float32
TEXT ·dotBF16Asm(SB), NOSPLIT, $0-36
	MOVD w+0(FP), R0
	MOVD x+8(FP), R1
	MOVD n+16(FP), R2
	MOVD skip+24(FP), R9
	MOVD $0, R8
	VEOR V0.B16, V0.B16, V0.B16
	VEOR V1.B16, V1.B16, V1.B16

loop:
	LOADBF16
	NEXT
	MULADD(R1, V0, V1)
	SUBS  $16, R2
	BNE   loop
	WORD  $0x4e21d400        // fadd v0.4s, v0.4s, v1.4s
	WORD  $0x6e20d400        // faddp v0.4s, v0.4s, v0.4s
	WORD  $0x6e20d400 // faddp v0.4s, v0.4s, v0.4s
	FMOVS F0, ret+32(FP)
	RET

// Four rows in fours: a line of each in turn.
#define ROW(w, a, b) \
	VLD1.P 32(w), [V16.H8, V17.H8]; \
	WORD   $0x2e613a13 /* shll v19.4s, v16.4h, #16 */; \
	WORD   $0x6e613a14 /* shll2 v20.4s, v16.8h, #16 */; \
	WORD   $0x2e613a35 /* shll v21.4s, v17.4h, #16 */; \
	WORD   $0x6e613a36 /* shll2 v22.4s, v17.8h, #16 */; \
	VFMLA  V24.S4, V19.S4, a.S4; \
	VFMLA  V25.S4, V20.S4, b.S4; \
	VFMLA  V26.S4, V21.S4, a.S4; \
	VFMLA  V27.S4, V22.S4, b.S4

#define ROWS \
	VLD1.P 64(R1), [V24.S4, V25.S4, V26.S4, V27.S4]; \
	ROW(R0, V0, V1); \
	ROW(R4, V2, V3); \
	ROW(R5, V4, V5); \
	ROW(R6, V6, V7)

// func foursAsm(out *[4]float32, w *uint16, x *float32, n int)
TEXT ·foursAsm(SB), NOSPLIT, $0-32
	MOVD out+0(FP), R7
	MOVD w+8(FP), R0
	MOVD x+16(FP), R1
	MOVD n+24(FP), R2
	ADD  $64, R0, R4
	ADD  $128, R0, R5
	ADD  $192, R0, R6
	VEOR V0.B16, V0.B16, V0.B16
	VEOR V1.B16, V1.B16, V1.B16
	VEOR V2.B16, V2.B16, V2.B16
	VEOR V3.B16, V3.B16, V3.B16
	VEOR V4.B16, V4.B16, V4.B16
	VEOR V5.B16, V5.B16, V5.B16
	VEOR V6.B16, V6.B16, V6.B16
	VEOR V7.B16, V7.B16, V7.B16
	SUBS $32, R2
	BLT  half

loop:
	PRFM AHEAD(R0), PLDL1STRM
	PRFM (AHEAD+64)(R0), PLDL1STRM
	ROWS
	PRFM (AHEAD+128-32)(R0), PLDL1STRM
	PRFM (AHEAD+192-32)(R0), PLDL1STRM
	ROWS
	ADD  $192, R0
	ADD  $192, R4
	ADD  $192, R5
	ADD  $192, R6
	SUBS $32, R2
	BGE  loop

half:
	ADDS $32, R2
	BEQ  end
	ROWS

end:
	WORD $0x4e21d400          // fadd v0.4s, v0.4s, v1.4s
	WORD $0x4e23d442          // fadd v2.4s, v2.4s, v3.4s
	WORD $0x4e25d484          // fadd v4.4s, v4.4s, v5.4s
	WORD $0x4e27d4c6          // fadd v6.4s, v6.4s, v7.4s
	WORD $0x6e22d400          // faddp v0.4s, v0.4s, v2.4s
	WORD $0x6e26d484          // faddp v4.4s, v4.4s, v6.4s
	WORD $0x6e24d400          // faddp v0.4s, v0.4s, v4.4s
	VST1 [V0.S4], (R7)
	RET

// func dot4BF16Asm(out *[4]float32, w *uint16, x *float32, stride, n int, skip uintptr)
TEXT ·dot4BF16Asm(SB), NOSPLIT, $0-48
	MOVD out+0(FP), R7
	MOVD w+8(FP), R0
	MOVD x+16(FP), R1
	MOVD stride+24(FP), R3
	MOVD n+32(FP), R2
	MOVD skip+40(FP), R9
	MOVD $0, R8
	ADD  R3<<2, R1, R4
	ADD  R3<<2, R4, R5
	ADD  R3<<2, R5, R6
	VEOR V0.B16, V0.B16, V0.B16
	VEOR V1.B16, V1.B16, V1.B16
	VEOR V2.B16, V2.B16, V2.B16
	VEOR V3.B16, V3.B16, V3.B16
	VEOR V4.B16, V4.B16, V4.B16
	VEOR V5.B16, V5.B16, V5.B16
	VEOR V6.B16, V6.B16, V6.B16
	VEOR V7.B16, V7.B16, V7.B16

loop:
	PRFM  AHEAD(R0), PLDL1KEEP
	LOADBF16
	NEXT
	MULADD(R1, V0, V1)
	MULADD(R4, V2, V3)
	MULADD(R5, V4, V5)
	MULADD(R6, V6, V7)
	SUBS  $16, R2
	BNE   loop
	WORD  $0x4e21d400 // fadd v0.4s, v0.4s, v1.4s
	WORD  $0x4e23d442 // fadd v2.4s, v2.4s, v3.4s
	WORD  $0x4e25d484 // fadd v4.4s, v4.4s, v5.4s
	WORD  $0x4e27d4c6 // fadd v6.4s, v6.4s, v7.4s
	WORD  $0x6e20d400 // faddp v0.4s, v0.4s, v0.4s
	WORD  $0x6e22d442 // faddp v2.4s, v2.4s, v2.4s
	WORD  $0x6e24d484 // faddp v4.4s, v4.4s, v4.4s
	WORD  $0x6e26d4c6 // faddp v6.4s, v6.4s, v6.4s
	WORD  $0x6e20d400 // faddp v0.4s, v0.4s, v0.4s
	WORD  $0x6e22d442 // faddp v2.4s, v2.4s, v2.4s
	WORD  $0x6e24d484 // faddp v4.4s, v4.4s, v4.4s
	WORD  $0x6e26d4c6 // faddp v6.4s, v6.4s, v6.4s
	FMOVS F0, (R7)
	FMOVS F2, 4(R7)
	FMOVS F4, 8(R7)
	FMOVS F6, 12(R7)
	RET

// func axpyAsm(y *float64, a float64, v *float64, n int)
TEXT ·axpyAsm(SB), NOSPLIT, $0-32
	MOVD  y+0(FP), R0
	FMOVD a+8(FP), F30
	MOVD  v+16(FP), R1
	MOVD  n+24(FP), R2
	VDUP  V30.D[0], V30.D2

loop:
	VLD1.P 64(R1), [V16.D2, V17.D2, V18.D2, V19.D2]
	VLD1   (R0), [V0.D2, V1.D2, V2.D2, V3.D2]
	VFMLA  V30.D2, V16.D2, V0.D2
	VFMLA  V30.D2, V17.D2, V1.D2
	VFMLA  V30.D2, V18.D2, V2.D2
	VFMLA  V30.D2, V19.D2, V3.D2
	VST1.P [V0.D2, V1.D2, V2.D2, V3.D2], 64(R0)
	SUBS   $8, R2
	BNE    loop
	RET
