//go:build !purego

// Products of weights in blocks of eight or four bits with inputs of eight, for arm64 with the dot product instructions (FEAT_DotProd). Lane l
// of a block adds the products of the values 4l … 4l+3 as integers, which is exact: the first sixteen values go to lanes 0–3, the others to 4–7.
// Times both scales it is added to the sum. One row of input or four give the same bits. WORDs are instructions that Go's assembler does not
// know; each has its meaning beside it.

#include "textflag.h"

// A block of eight bits at R0 to V16 and V17, and on.
#define LOAD8 \
	VLD1.P 32(R0), [V16.B16, V17.B16]

// A block of four bits: byte i holds value i low and value i+16 high, each plus 8.
#define LOAD4 \
	VLD1.P 16(R0), [V16.B16]; \
	WORD   $0x6f0c0611 /* ushr v17.16b, v16.16b, #4 */; \
	WORD   $0x4e3b1e10 /* and v16.16b, v16.16b, v27.16b */; \
	WORD   $0x6e3c8610 /* sub v16.16b, v16.16b, v28.16b */; \
	WORD   $0x6e3c8631 /* sub v17.16b, v17.16b, v28.16b */

// The block's scale, a bf16 at R3, to F29.
#define SCALE \
	MOVHU (R3), R9; \
	LSLW  $16, R9, R9; \
	FMOVS R9, F29

// The block times that at x, whose scale lies behind its 32 values, as numbers in V22 and V23, and both scales' product in V24; x moves on.
#define DOT(x) \
	VLD1  (x), [V20.B16, V21.B16]; \
	FMOVS 32(x), F25; \
	ADD   $64, x; \
	VEOR  V22.B16, V22.B16, V22.B16; \
	VEOR  V23.B16, V23.B16, V23.B16; \
	WORD  $0x4e949616 /* sdot v22.4s, v16.16b, v20.16b */; \
	WORD  $0x4e959637 /* sdot v23.4s, v17.16b, v21.16b */; \
	WORD  $0x4e21dad6 /* scvtf v22.4s, v22.4s */; \
	WORD  $0x4e21daf7 /* scvtf v23.4s, v23.4s */; \
	WORD  $0x1e390bb8 /* fmul s24, s29, s25 */

// Counts a block, and goes to the next scale where the mask says that its group ends.
#define NEXT \
	ADD  $1, R10; \
	TST  R7, R10; \
	CINC EQ, R11, R11; \
	ADD  R11<<1, R12, R3; \
	CMP  R8, R10

#define BEGIN \
	MOVD R3, R12; \
	MOVD $0, R10; \
	MOVD $0, R11; \
	VEOR V0.B16, V0.B16, V0.B16; \
	VEOR V1.B16, V1.B16, V1.B16; \
	WORD $0x4f00e5fb /* movi v27.16b, #15 */; \
	WORD $0x4f00e51c /* movi v28.16b, #8 */

#define ONE(LOAD) \
	LOAD; \
	SCALE; \
	DOT(R1); \
	WORD $0x4f9812c0 /* fmla v0.4s, v22.4s, v24.s[0] */; \
	WORD $0x4f9812e1 /* fmla v1.4s, v23.4s, v24.s[0] */; \
	NEXT

#define FOUR(LOAD) \
	LOAD; \
	SCALE; \
	DOT(R1); \
	WORD $0x4f9812c0 /* fmla v0.4s, v22.4s, v24.s[0] */; \
	WORD $0x4f9812e1 /* fmla v1.4s, v23.4s, v24.s[0] */; \
	DOT(R4); \
	WORD $0x4f9812c2 /* fmla v2.4s, v22.4s, v24.s[0] */; \
	WORD $0x4f9812e3 /* fmla v3.4s, v23.4s, v24.s[0] */; \
	DOT(R5); \
	WORD $0x4f9812c4 /* fmla v4.4s, v22.4s, v24.s[0] */; \
	WORD $0x4f9812e5 /* fmla v5.4s, v23.4s, v24.s[0] */; \
	DOT(R6); \
	WORD $0x4f9812c6 /* fmla v6.4s, v22.4s, v24.s[0] */; \
	WORD $0x4f9812e7 /* fmla v7.4s, v23.4s, v24.s[0] */; \
	NEXT

// The lanes' sum, ((0+1)+(2+3)) + ((4+5)+(6+7)), to V0.
#define ADDONE \
	WORD $0x6e21d400 /* faddp v0.4s, v0.4s, v1.4s */; \
	WORD $0x6e20d400 /* faddp v0.4s, v0.4s, v0.4s */; \
	WORD $0x6e20d400 /* faddp v0.4s, v0.4s, v0.4s */

#define ADDFOUR \
	WORD $0x6e21d400 /* faddp v0.4s, v0.4s, v1.4s */; \
	WORD $0x6e23d442 /* faddp v2.4s, v2.4s, v3.4s */; \
	WORD $0x6e25d484 /* faddp v4.4s, v4.4s, v5.4s */; \
	WORD $0x6e27d4c6 /* faddp v6.4s, v6.4s, v7.4s */; \
	WORD $0x6e22d400 /* faddp v0.4s, v0.4s, v2.4s */; \
	WORD $0x6e26d484 /* faddp v4.4s, v4.4s, v6.4s */; \
	WORD $0x6e24d400 /* faddp v0.4s, v0.4s, v4.4s */

#define CLEAR \
	VEOR V2.B16, V2.B16, V2.B16; \
	VEOR V3.B16, V3.B16, V3.B16; \
	VEOR V4.B16, V4.B16, V4.B16; \
	VEOR V5.B16, V5.B16, V5.B16; \
	VEOR V6.B16, V6.B16, V6.B16; \
	VEOR V7.B16, V7.B16, V7.B16

// func quant8Dot(w *byte, scales *uint16, x *byte, blocks, mask int) float32
TEXT ·quant8Dot(SB), NOSPLIT, $0-44
	MOVD w+0(FP), R0
	MOVD scales+8(FP), R3
	MOVD x+16(FP), R1
	MOVD blocks+24(FP), R8
	MOVD mask+32(FP), R7
	BEGIN

loop:
	ONE(LOAD8)
	BLT   loop
	ADDONE
	FMOVS F0, ret+40(FP)
	RET

// func quant4Dot(w *byte, scales *uint16, x *byte, blocks, mask int) float32
TEXT ·quant4Dot(SB), NOSPLIT, $0-44
	MOVD w+0(FP), R0
	MOVD scales+8(FP), R3
	MOVD x+16(FP), R1
	MOVD blocks+24(FP), R8
	MOVD mask+32(FP), R7
	BEGIN

loop:
	ONE(LOAD4)
	BLT   loop
	ADDONE
	FMOVS F0, ret+40(FP)
	RET

// func quant8Dot4(out *[4]float32, w *byte, scales *uint16, x *byte, xStride, blocks, mask int)
TEXT ·quant8Dot4(SB), NOSPLIT, $0-56
	MOVD out+0(FP), R2
	MOVD w+8(FP), R0
	MOVD scales+16(FP), R3
	MOVD x+24(FP), R1
	MOVD xStride+32(FP), R9
	MOVD blocks+40(FP), R8
	MOVD mask+48(FP), R7
	ADD  R9, R1, R4
	ADD  R9, R4, R5
	ADD  R9, R5, R6
	BEGIN
	CLEAR

loop:
	FOUR(LOAD8)
	BLT  loop
	ADDFOUR
	VST1 [V0.S4], (R2)
	RET

// func quant4Dot4(out *[4]float32, w *byte, scales *uint16, x *byte, xStride, blocks, mask int)
TEXT ·quant4Dot4(SB), NOSPLIT, $0-56
	MOVD out+0(FP), R2
	MOVD w+8(FP), R0
	MOVD scales+16(FP), R3
	MOVD x+24(FP), R1
	MOVD xStride+32(FP), R9
	MOVD blocks+40(FP), R8
	MOVD mask+48(FP), R7
	ADD  R9, R1, R4
	ADD  R9, R4, R5
	ADD  R9, R5, R6
	BEGIN
	CLEAR

loop:
	FOUR(LOAD4)
	BLT  loop
	ADDFOUR
	VST1 [V0.S4], (R2)
	RET
