//go:build !purego

// What a processor can do at most, to measure the kernels against.

#include "textflag.h"

// func spinFMA(rounds int)
TEXT ·spinFMA(SB), NOSPLIT, $0-8
	MOVD rounds+0(FP), R0
	VEOR V30.B16, V30.B16, V30.B16
	VEOR V31.B16, V31.B16, V31.B16

loop:
	VFMLA V30.S4, V31.S4, V0.S4
	VFMLA V30.S4, V31.S4, V1.S4
	VFMLA V30.S4, V31.S4, V2.S4
	VFMLA V30.S4, V31.S4, V3.S4
	VFMLA V30.S4, V31.S4, V4.S4
	VFMLA V30.S4, V31.S4, V5.S4
	VFMLA V30.S4, V31.S4, V6.S4
	VFMLA V30.S4, V31.S4, V7.S4
	VFMLA V30.S4, V31.S4, V8.S4
	VFMLA V30.S4, V31.S4, V9.S4
	VFMLA V30.S4, V31.S4, V10.S4
	VFMLA V30.S4, V31.S4, V11.S4
	VFMLA V30.S4, V31.S4, V12.S4
	VFMLA V30.S4, V31.S4, V13.S4
	VFMLA V30.S4, V31.S4, V14.S4
	VFMLA V30.S4, V31.S4, V15.S4
	SUBS  $1, R0
	BNE   loop
	RET

// func spinBF16(rounds int)
TEXT ·spinBF16(SB), NOSPLIT, $0-8
	MOVD rounds+0(FP), R0
	VEOR V30.B16, V30.B16, V30.B16
	VEOR V31.B16, V31.B16, V31.B16

loop:
	WORD $0x6e5eefe0 // bfmmla v0.4s, v31.8h, v30.8h
	WORD $0x6e5eefe1 // bfmmla v1.4s, v31.8h, v30.8h
	WORD $0x6e5eefe2 // bfmmla v2.4s, v31.8h, v30.8h
	WORD $0x6e5eefe3 // bfmmla v3.4s, v31.8h, v30.8h
	WORD $0x6e5eefe4 // bfmmla v4.4s, v31.8h, v30.8h
	WORD $0x6e5eefe5 // bfmmla v5.4s, v31.8h, v30.8h
	WORD $0x6e5eefe6 // bfmmla v6.4s, v31.8h, v30.8h
	WORD $0x6e5eefe7 // bfmmla v7.4s, v31.8h, v30.8h
	WORD $0x6e5eefe8 // bfmmla v8.4s, v31.8h, v30.8h
	WORD $0x6e5eefe9 // bfmmla v9.4s, v31.8h, v30.8h
	WORD $0x6e5eefea // bfmmla v10.4s, v31.8h, v30.8h
	WORD $0x6e5eefeb // bfmmla v11.4s, v31.8h, v30.8h
	WORD $0x6e5eefec // bfmmla v12.4s, v31.8h, v30.8h
	WORD $0x6e5eefed // bfmmla v13.4s, v31.8h, v30.8h
	WORD $0x6e5eefee // bfmmla v14.4s, v31.8h, v30.8h
	WORD $0x6e5eefef // bfmmla v15.4s, v31.8h, v30.8h
	SUBS $1, R0
	BNE  loop
	RET

// func readAsm(p *byte, n int)
TEXT ·readAsm(SB), NOSPLIT, $0-16
	MOVD p+0(FP), R0
	MOVD n+8(FP), R1

loop:
	VLD1.P 64(R0), [V0.B16, V1.B16, V2.B16, V3.B16]
	VLD1.P 64(R0), [V4.B16, V5.B16, V6.B16, V7.B16]
	VLD1.P 64(R0), [V8.B16, V9.B16, V10.B16, V11.B16]
	VLD1.P 64(R0), [V12.B16, V13.B16, V14.B16, V15.B16]
	SUBS   $256, R1
	BNE    loop
	RET
