//go:build !purego

// The inner loops for arm64 with matrix products of bf16 (FEAT_BF16): of two rows with two rows. Four rows of weights are multiplied with one
// row of input or four, and both forms give the same bits, since each sum has accumulators of its own and meets its products in the same
// order. WORDs are instructions that Go's assembler does not know; each
// has its meaning beside it, which a test holds against an assembler that knows them.

#include "textflag.h"

// Eight columns of four rows of bf16 at R0 to R3, and on: V20 has columns 0-3 of rows 0 and 1, V21 columns 4-7 of them, V22 and V23 the
// same of rows 2 and 3.
#define WEIGHTS \
	VLD1.P 16(R0), [V16.B16]; \
	VLD1.P 16(R1), [V17.B16]; \
	VLD1.P 16(R2), [V18.B16]; \
	VLD1.P 16(R3), [V19.B16]; \
	VZIP1  V17.D2, V16.D2, V20.D2; \
	VZIP2  V17.D2, V16.D2, V21.D2; \
	VZIP1  V19.D2, V18.D2, V22.D2; \
	VZIP2  V19.D2, V18.D2, V23.D2

// Goes on to the rows' next lines, R14 bytes after the ends of these.
#define NEXT \
	ADD R14, R0; \
	ADD R14, R1; \
	ADD R14, R2; \
	ADD R14, R3

// Eight columns of one row of input, each four as the first parts and then the rests of the same values: so the two rows of a product's
// second matrix are one row of input. The sums are rows 0 and 1 of columns 0-3, rows 2 and 3 of them, and both of columns 4-7.
#define TIMES0 \
	VLD1.P 32(R4), [V24.B16, V25.B16]; \
	WORD   $0x6e58ee80 /* bfmmla v0.4s, v20.8h, v24.8h */; \
	WORD   $0x6e58eec1 /* bfmmla v1.4s, v22.8h, v24.8h */; \
	WORD   $0x6e59eea2 /* bfmmla v2.4s, v21.8h, v25.8h */; \
	WORD   $0x6e59eee3 /* bfmmla v3.4s, v23.8h, v25.8h */

#define TIMES1 \
	VLD1.P 32(R5), [V26.B16, V27.B16]; \
	WORD   $0x6e5aee84 /* bfmmla v4.4s, v20.8h, v26.8h */; \
	WORD   $0x6e5aeec5 /* bfmmla v5.4s, v22.8h, v26.8h */; \
	WORD   $0x6e5beea6 /* bfmmla v6.4s, v21.8h, v27.8h */; \
	WORD   $0x6e5beee7 /* bfmmla v7.4s, v23.8h, v27.8h */

#define TIMES2 \
	VLD1.P 32(R6), [V28.B16, V29.B16]; \
	WORD   $0x6e5cee88 /* bfmmla v8.4s, v20.8h, v28.8h */; \
	WORD   $0x6e5ceec9 /* bfmmla v9.4s, v22.8h, v28.8h */; \
	WORD   $0x6e5deeaa /* bfmmla v10.4s, v21.8h, v29.8h */; \
	WORD   $0x6e5deeeb /* bfmmla v11.4s, v23.8h, v29.8h */

#define TIMES3 \
	VLD1.P 32(R7), [V30.B16, V31.B16]; \
	WORD   $0x6e5eee8c /* bfmmla v12.4s, v20.8h, v30.8h */; \
	WORD   $0x6e5eeecd /* bfmmla v13.4s, v22.8h, v30.8h */; \
	WORD   $0x6e5feeae /* bfmmla v14.4s, v21.8h, v31.8h */; \
	WORD   $0x6e5feeef /* bfmmla v15.4s, v23.8h, v31.8h */

// func bf16x1(dst *float32, w *uint16, ws, skip uintptr, x *uint16, n int)
TEXT ·bf16x1(SB), NOSPLIT, $0-48
	MOVD dst+0(FP), R8
	MOVD w+8(FP), R0
	MOVD ws+16(FP), R9
	MOVD skip+24(FP), R14
	MOVD x+32(FP), R4
	MOVD n+40(FP), R10
	ADD  R9, R0, R1
	ADD  R9, R1, R2
	ADD  R9, R2, R3
	VEOR V0.B16, V0.B16, V0.B16
	VEOR V1.B16, V1.B16, V1.B16
	VEOR V2.B16, V2.B16, V2.B16
	VEOR V3.B16, V3.B16, V3.B16

	SUBS $32, R10
	BLT  rest

line:
	WEIGHTS
	TIMES0
	WEIGHTS
	TIMES0
	WEIGHTS
	TIMES0
	WEIGHTS
	TIMES0
	NEXT
	SUBS $32, R10
	BGE  line

rest:
	ADDS $32, R10
	BEQ  end

eight:
	WEIGHTS
	TIMES0
	SUBS $8, R10
	BNE  eight

end:
	WORD $0x4e22d400     // fadd v0.4s, v0.4s, v2.4s
	WORD $0x4e23d421     // fadd v1.4s, v1.4s, v3.4s
	WORD $0x6e21d400     // faddp v0.4s, v0.4s, v1.4s
	VST1 [V0.S4], (R8)
	RET

// func bf16x4(dst *float32, ds uintptr, w *uint16, ws, skip uintptr, x *uint16, xs uintptr, n int)
TEXT ·bf16x4(SB), NOSPLIT, $0-64
	MOVD dst+0(FP), R8
	MOVD ds+8(FP), R11
	MOVD w+16(FP), R0
	MOVD ws+24(FP), R9
	MOVD skip+32(FP), R14
	MOVD x+40(FP), R4
	MOVD xs+48(FP), R12
	MOVD n+56(FP), R10
	ADD  R9, R0, R1
	ADD  R9, R1, R2
	ADD  R9, R2, R3
	ADD  R12, R4, R5
	ADD  R12, R5, R6
	ADD  R12, R6, R7
	VEOR V0.B16, V0.B16, V0.B16
	VEOR V1.B16, V1.B16, V1.B16
	VEOR V2.B16, V2.B16, V2.B16
	VEOR V3.B16, V3.B16, V3.B16
	VEOR V4.B16, V4.B16, V4.B16
	VEOR V5.B16, V5.B16, V5.B16
	VEOR V6.B16, V6.B16, V6.B16
	VEOR V7.B16, V7.B16, V7.B16
	VEOR V8.B16, V8.B16, V8.B16
	VEOR V9.B16, V9.B16, V9.B16
	VEOR V10.B16, V10.B16, V10.B16
	VEOR V11.B16, V11.B16, V11.B16
	VEOR V12.B16, V12.B16, V12.B16
	VEOR V13.B16, V13.B16, V13.B16
	VEOR V14.B16, V14.B16, V14.B16
	VEOR V15.B16, V15.B16, V15.B16

	SUBS $32, R10
	BLT  rest

line:
	WEIGHTS
	TIMES0
	TIMES1
	TIMES2
	TIMES3
	WEIGHTS
	TIMES0
	TIMES1
	TIMES2
	TIMES3
	WEIGHTS
	TIMES0
	TIMES1
	TIMES2
	TIMES3
	WEIGHTS
	TIMES0
	TIMES1
	TIMES2
	TIMES3
	NEXT
	SUBS $32, R10
	BGE  line

rest:
	ADDS $32, R10
	BEQ  end

eight:
	WEIGHTS
	TIMES0
	TIMES1
	TIMES2
	TIMES3
	SUBS $8, R10
	BNE  eight

end:
	WORD $0x4e22d400      // fadd v0.4s, v0.4s, v2.4s
	WORD $0x4e23d421      // fadd v1.4s, v1.4s, v3.4s
	WORD $0x6e21d400      // faddp v0.4s, v0.4s, v1.4s
	VST1 [V0.S4], (R8)
	ADD  R11, R8
	WORD $0x4e26d484      // fadd v4.4s, v4.4s, v6.4s
	WORD $0x4e27d4a5      // fadd v5.4s, v5.4s, v7.4s
	WORD $0x6e25d484      // faddp v4.4s, v4.4s, v5.4s
	VST1 [V4.S4], (R8)
	ADD  R11, R8
	WORD $0x4e2ad508      // fadd v8.4s, v8.4s, v10.4s
	WORD $0x4e2bd529      // fadd v9.4s, v9.4s, v11.4s
	WORD $0x6e29d508      // faddp v8.4s, v8.4s, v9.4s
	VST1 [V8.S4], (R8)
	ADD  R11, R8
	WORD $0x4e2ed58c      // fadd v12.4s, v12.4s, v14.4s
	WORD $0x4e2fd5ad      // fadd v13.4s, v13.4s, v15.4s
	WORD $0x6e2dd58c      // faddp v12.4s, v12.4s, v13.4s
	VST1 [V12.S4], (R8)
	RET

// func splitAsm(dst *uint16, x *float32, n int)
TEXT ·splitAsm(SB), NOSPLIT, $0-24
	MOVD dst+0(FP), R0
	MOVD x+8(FP), R1
	MOVD n+16(FP), R2

loop:
	VLD1.P 32(R1), [V0.S4, V1.S4]
	WORD   $0x0ea16802                // bfcvtn v2.4h, v0.4s
	WORD   $0x4ea16822                // bfcvtn2 v2.8h, v1.4s
	WORD   $0x2e613843                // shll v3.4s, v2.4h, #16
	WORD   $0x6e613844                // shll2 v4.4s, v2.8h, #16
	WORD   $0x4ea3d400                // fsub v0.4s, v0.4s, v3.4s
	WORD   $0x4ea4d421                // fsub v1.4s, v1.4s, v4.4s
	WORD   $0x0ea16805                // bfcvtn v5.4h, v0.4s
	WORD   $0x4ea16825                // bfcvtn2 v5.8h, v1.4s
	VZIP1  V5.D2, V2.D2, V6.D2
	VZIP2  V5.D2, V2.D2, V7.D2
	VST1.P [V6.B16, V7.B16], 32(R0)
	SUBS   $8, R2
	BNE    loop
	RET
