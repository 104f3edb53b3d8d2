//go:build !purego

// The gated delta rule for NEON. Go's assembler does not know these instructions: each is named for what it does to registers of four
// float32, by their numbers.

#include "textflag.h"

#define FMUL(d, n, m) WORD $(0x6e20dc00 | (m)<<16 | (n)<<5 | (d))
#define FADD(d, n, m) WORD $(0x4e20d400 | (m)<<16 | (n)<<5 | (d))
#define FSUB(d, n, m) WORD $(0x4ea0d400 | (m)<<16 | (n)<<5 | (d))

// A row of the state, to V16 … V23.
#define LOAD \
	MOVD   R1, R9; \
	VLD1.P 64(R9), [V16.S4, V17.S4, V18.S4, V19.S4]; \
	VLD1   (R9), [V20.S4, V21.S4, V22.S4, V23.S4]

// What column group c recalls by the key: its sum in V(c), its row in V(r).
#define RECALL(c, r) \
	FMUL(r, r, 24); \
	FADD(c, c, r)

// What is to be added for column group c: V(c) = beta · (v − keep · V(c)), v in V(r).
#define CORRECT(c, r) \
	FMUL(c, c, 26); \
	FSUB(r, r, c); \
	FMUL(c, 27, r)

// The new row of column group c, in V(r), and after it is stored what the query recalls of it, added to V(o).
#define WRITE(c, r) \
	FMUL(r, r, 26); \
	FMUL(28, 24, c); \
	FADD(r, r, 28)

#define ASK(r, o) \
	FMUL(r, r, 25); \
	FADD(o, o, r)

#define ZERO(d) VEOR d, d, d

// func delta32(dst, state *float32, stride uintptr, q, k, v *float32, n int, keep, beta float32)
TEXT ·delta32(SB), NOSPLIT, $0-64
	MOVD  dst+0(FP), R0
	MOVD  state+8(FP), R1
	MOVD  stride+16(FP), R2
	MOVD  q+24(FP), R3
	MOVD  k+32(FP), R4
	MOVD  v+40(FP), R5
	MOVD  n+48(FP), R6
	FMOVS keep+56(FP), F26
	FMOVS beta+60(FP), F27
	VDUP  V26.S[0], V26.S4
	VDUP  V27.S[0], V27.S4
	MOVD  R1, R10
	MOVD  R4, R11
	MOVD  R6, R12
	ZERO(V0.B16)
	ZERO(V1.B16)
	ZERO(V2.B16)
	ZERO(V3.B16)
	ZERO(V4.B16)
	ZERO(V5.B16)
	ZERO(V6.B16)
	ZERO(V7.B16)

recall:
	LOAD
	VLD1R (R4), [V24.S4]
	ADD   $4, R4
	ADD   R2, R1
	RECALL(0, 16)
	RECALL(1, 17)
	RECALL(2, 18)
	RECALL(3, 19)
	RECALL(4, 20)
	RECALL(5, 21)
	RECALL(6, 22)
	RECALL(7, 23)
	SUBS  $1, R6
	BNE   recall
	MOVD  R5, R1
	LOAD
	CORRECT(0, 16)
	CORRECT(1, 17)
	CORRECT(2, 18)
	CORRECT(3, 19)
	CORRECT(4, 20)
	CORRECT(5, 21)
	CORRECT(6, 22)
	CORRECT(7, 23)
	MOVD  R10, R1
	MOVD  R11, R4
	MOVD  R12, R6
	ZERO(V8.B16)
	ZERO(V9.B16)
	ZERO(V10.B16)
	ZERO(V11.B16)
	ZERO(V12.B16)
	ZERO(V13.B16)
	ZERO(V14.B16)
	ZERO(V15.B16)

write:
	LOAD
	VLD1R (R4), [V24.S4]
	VLD1R (R3), [V25.S4]
	ADD   $4, R4
	ADD   $4, R3
	WRITE(0, 16)
	WRITE(1, 17)
	WRITE(2, 18)
	WRITE(3, 19)
	WRITE(4, 20)
	WRITE(5, 21)
	WRITE(6, 22)
	WRITE(7, 23)
	MOVD   R1, R9
	VST1.P [V16.S4, V17.S4, V18.S4, V19.S4], 64(R9)
	VST1   [V20.S4, V21.S4, V22.S4, V23.S4], (R9)
	ADD    R2, R1
	ASK(16, 8)
	ASK(17, 9)
	ASK(18, 10)
	ASK(19, 11)
	ASK(20, 12)
	ASK(21, 13)
	ASK(22, 14)
	ASK(23, 15)
	SUBS   $1, R6
	BNE    write
	VST1.P [V8.S4, V9.S4, V10.S4, V11.S4], 64(R0)
	VST1   [V12.S4, V13.S4, V14.S4, V15.S4], (R0)
	RET
