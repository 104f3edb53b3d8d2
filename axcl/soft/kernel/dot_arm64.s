//go:build !purego

// Products of weights in eights with inputs in blocks, for arm64 with the dot product instructions (FEAT_DotProd). Four values of four rows
// of weights fill a register, which is multiplied with four values of the input: so a lane is a row, and a block's sum is exact, as an integer.
// Times both scales it is added to the row's result, one fused multiply-add a block. One row of input or four give the same bits. WORDs are
// instructions that Go's assembler does not know; each has its meaning beside it.

#include "textflag.h"

// Weights are read once, in the order in which they lie, and asked for this many bytes ahead: four blocks of eight bits, for which one of four
// cores that share 11.4 GB/s takes 360 ns. No such request faults, past the end of the weights either.
#define AHEAD 1024

// A block of eight bits at R0, and on: V16 has the values 0-3 of rows 0-3, V17 those of rows 4-7, V18 the values 4-7 of rows 0-3, and so on.
#define LOAD8 \
	PRFM   AHEAD(R0), PLDL1STRM; \
	PRFM   (AHEAD+64)(R0), PLDL1STRM; \
	PRFM   (AHEAD+128)(R0), PLDL1STRM; \
	PRFM   (AHEAD+192)(R0), PLDL1STRM; \
	VLD1.P 64(R0), [V16.B16, V17.B16, V18.B16, V19.B16]; \
	VLD1.P 64(R0), [V20.B16, V21.B16, V22.B16, V23.B16]; \
	VLD1.P 64(R0), [V24.B16, V25.B16, V26.B16, V27.B16]; \
	VLD1.P 64(R0), [V28.B16, V29.B16, V30.B16, V31.B16]

// The same of four bits, but sixteen times as large: values 0-15 lie low, 16-31 high, each plus 8, which is one bit that is turned over.
#define LOAD4 \
	WORD   $0x4f04e50e /* movi v14.16b, #0x88 */; \
	WORD   $0x4f07e60f /* movi v15.16b, #0xf0 */; \
	PRFM   AHEAD(R0), PLDL1STRM; \
	PRFM   (AHEAD+64)(R0), PLDL1STRM; \
	VLD1.P 64(R0), [V16.B16, V17.B16, V18.B16, V19.B16]; \
	VLD1.P 64(R0), [V20.B16, V21.B16, V22.B16, V23.B16]; \
	VEOR   V14.B16, V16.B16, V16.B16; \
	VEOR   V14.B16, V17.B16, V17.B16; \
	VEOR   V14.B16, V18.B16, V18.B16; \
	VEOR   V14.B16, V19.B16, V19.B16; \
	VEOR   V14.B16, V20.B16, V20.B16; \
	VEOR   V14.B16, V21.B16, V21.B16; \
	VEOR   V14.B16, V22.B16, V22.B16; \
	VEOR   V14.B16, V23.B16, V23.B16; \
	VAND   V15.B16, V16.B16, V24.B16; \
	VAND   V15.B16, V17.B16, V25.B16; \
	VAND   V15.B16, V18.B16, V26.B16; \
	VAND   V15.B16, V19.B16, V27.B16; \
	VAND   V15.B16, V20.B16, V28.B16; \
	VAND   V15.B16, V21.B16, V29.B16; \
	VAND   V15.B16, V22.B16, V30.B16; \
	VAND   V15.B16, V23.B16, V31.B16; \
	VSHL   $4, V16.B16, V16.B16; \
	VSHL   $4, V17.B16, V17.B16; \
	VSHL   $4, V18.B16, V18.B16; \
	VSHL   $4, V19.B16, V19.B16; \
	VSHL   $4, V20.B16, V20.B16; \
	VSHL   $4, V21.B16, V21.B16; \
	VSHL   $4, V22.B16, V22.B16; \
	VSHL   $4, V23.B16, V23.B16

// The eight rows' scales at R3, bf16, to V6 and V7; and on, where the mask says that the group ends with this block.
#define SCALES \
	VLD1 (R3), [V6.H8]; \
	WORD $0x6e6138c7 /* shll2 v7.4s, v6.8h, #16 */; \
	WORD $0x2e6138c6 /* shll v6.4s, v6.4h, #16 */; \
	ADD  $1, R10; \
	TST  R7, R10; \
	CSEL EQ, R12, ZR, R11; \
	ADD  R11, R3

// Adds to the block's sums, in V4 and V5, what it gives with the 32 bytes in V2 and V3.
#define SDOTS \
	WORD  $0x4f82e204 /* sdot v4.4s, v16.16b, v2.4b[0] */; \
	WORD  $0x4f82e225 /* sdot v5.4s, v17.16b, v2.4b[0] */; \
	WORD  $0x4fa2e244 /* sdot v4.4s, v18.16b, v2.4b[1] */; \
	WORD  $0x4fa2e265 /* sdot v5.4s, v19.16b, v2.4b[1] */; \
	WORD  $0x4f82ea84 /* sdot v4.4s, v20.16b, v2.4b[2] */; \
	WORD  $0x4f82eaa5 /* sdot v5.4s, v21.16b, v2.4b[2] */; \
	WORD  $0x4fa2eac4 /* sdot v4.4s, v22.16b, v2.4b[3] */; \
	WORD  $0x4fa2eae5 /* sdot v5.4s, v23.16b, v2.4b[3] */; \
	WORD  $0x4f83e304 /* sdot v4.4s, v24.16b, v3.4b[0] */; \
	WORD  $0x4f83e325 /* sdot v5.4s, v25.16b, v3.4b[0] */; \
	WORD  $0x4fa3e344 /* sdot v4.4s, v26.16b, v3.4b[1] */; \
	WORD  $0x4fa3e365 /* sdot v5.4s, v27.16b, v3.4b[1] */; \
	WORD  $0x4f83eb84 /* sdot v4.4s, v28.16b, v3.4b[2] */; \
	WORD  $0x4f83eba5 /* sdot v5.4s, v29.16b, v3.4b[2] */; \
	WORD  $0x4fa3ebc4 /* sdot v4.4s, v30.16b, v3.4b[3] */; \
	WORD  $0x4fa3ebe5 /* sdot v5.4s, v31.16b, v3.4b[3] */

// The block's sums with that at x, whose scale is at the offset; x moves on. Of four bits with the values of eight bits.
#define BEGINDOT(x, scale, on) \
	VLD1  (x), [V2.B16, V3.B16]; \
	FMOVS scale(x), F15; \
	ADD   $on, x; \
	VEOR  V4.B16, V4.B16, V4.B16; \
	VEOR  V5.B16, V5.B16, V5.B16; \
	SDOTS

#define DOT4(x) \
	BEGINDOT(x, 32, 128)

// Of eight bits with these, times 256, and with what they leave of the values of sixteen bits. A block's sums are below 2^27.
#define DOT8(x) \
	BEGINDOT(x, 40, 64); \
	VSHL  $8, V4.S4, V4.S4; \
	VSHL  $8, V5.S4, V5.S4; \
	VLD1  (x), [V2.B16, V3.B16]; \
	ADD   $64, x; \
	SDOTS

#define NUMBERS8 \
	WORD $0x4e21d884 /* scvtf v4.4s, v4.4s */; \
	WORD $0x4e21d8a5 /* scvtf v5.4s, v5.4s */

#define NUMBERS4 \
	WORD $0x4f3ce484 /* scvtf v4.4s, v4.4s, #4 */; \
	WORD $0x4f3ce4a5 /* scvtf v5.4s, v5.4s, #4 */

// Adds the block's sums times both scales to a and b.
#define ADDTO(a, b) \
	WORD  $0x4f8f90c2 /* fmul v2.4s, v6.4s, v15.s[0] */; \
	WORD  $0x4f8f90e3 /* fmul v3.4s, v7.4s, v15.s[0] */; \
	VFMLA V2.S4, V4.S4, a.S4; \
	VFMLA V3.S4, V5.S4, b.S4

#define BEGIN \
	MOVD $0, R10; \
	MOVD $16, R12; \
	VEOR V0.B16, V0.B16, V0.B16; \
	VEOR V1.B16, V1.B16, V1.B16

#define ONE(LOAD, DOT, NUMBERS) \
	LOAD; \
	SCALES; \
	DOT(R1); \
	NUMBERS; \
	ADDTO(V0, V1); \
	CMP R8, R10

#define FOUR(LOAD, DOT, NUMBERS) \
	LOAD; \
	SCALES; \
	DOT(R1); \
	NUMBERS; \
	ADDTO(V0, V1); \
	DOT(R4); \
	NUMBERS; \
	ADDTO(V8, V9); \
	DOT(R5); \
	NUMBERS; \
	ADDTO(V10, V11); \
	DOT(R6); \
	NUMBERS; \
	ADDTO(V12, V13); \
	CMP R8, R10

#define BEGINFOUR \
	BEGIN; \
	ADD  R9, R1, R4; \
	ADD  R9, R4, R5; \
	ADD  R9, R5, R6; \
	VEOR V8.B16, V8.B16, V8.B16; \
	VEOR V9.B16, V9.B16, V9.B16; \
	VEOR V10.B16, V10.B16, V10.B16; \
	VEOR V11.B16, V11.B16, V11.B16; \
	VEOR V12.B16, V12.B16, V12.B16; \
	VEOR V13.B16, V13.B16, V13.B16

#define STOREFOUR \
	VST1.P [V0.S4, V1.S4], 32(R2); \
	VST1.P [V8.S4, V9.S4], 32(R2); \
	VST1.P [V10.S4, V11.S4], 32(R2); \
	VST1.P [V12.S4, V13.S4], 32(R2)

// func quant8Dot(out *float32, w *byte, scales *uint16, x *byte, blocks, mask int)
TEXT ·quant8Dot(SB), NOSPLIT, $0-48
	MOVD out+0(FP), R2
	MOVD w+8(FP), R0
	MOVD scales+16(FP), R3
	MOVD x+24(FP), R1
	MOVD blocks+32(FP), R8
	MOVD mask+40(FP), R7
	BEGIN

loop:
	ONE(LOAD8, DOT8, NUMBERS8)
	BLT  loop
	VST1 [V0.S4, V1.S4], (R2)
	RET

// func quant4Dot(out *float32, w *byte, scales *uint16, x *byte, blocks, mask int)
TEXT ·quant4Dot(SB), NOSPLIT, $0-48
	MOVD out+0(FP), R2
	MOVD w+8(FP), R0
	MOVD scales+16(FP), R3
	MOVD x+24(FP), R1
	MOVD blocks+32(FP), R8
	MOVD mask+40(FP), R7
	BEGIN

loop:
	ONE(LOAD4, DOT4, NUMBERS4)
	BLT  loop
	VST1 [V0.S4, V1.S4], (R2)
	RET

// func quant8Dot4(out *float32, w *byte, scales *uint16, x *byte, xStride, blocks, mask int)
TEXT ·quant8Dot4(SB), NOSPLIT, $0-56
	MOVD out+0(FP), R2
	MOVD w+8(FP), R0
	MOVD scales+16(FP), R3
	MOVD x+24(FP), R1
	MOVD xStride+32(FP), R9
	MOVD blocks+40(FP), R8
	MOVD mask+48(FP), R7
	BEGINFOUR

loop:
	FOUR(LOAD8, DOT8, NUMBERS8)
	BLT loop
	STOREFOUR
	RET

// func quant4Dot4(out *float32, w *byte, scales *uint16, x *byte, xStride, blocks, mask int)
TEXT ·quant4Dot4(SB), NOSPLIT, $0-56
	MOVD out+0(FP), R2
	MOVD w+8(FP), R0
	MOVD scales+16(FP), R3
	MOVD x+24(FP), R1
	MOVD xStride+32(FP), R9
	MOVD blocks+40(FP), R8
	MOVD mask+48(FP), R7
	BEGINFOUR

loop:
	FOUR(LOAD4, DOT4, NUMBERS4)
	BLT loop
	STOREFOUR
	RET
