# What the emulated processor runs first, in the place of a BIOS: it goes to 32 bits, and jumps to the kernel that lies in memory already
# (image/main.go). 64 KiB that end at the end of the first 4 GiB, where a processor begins.
	.code16
	.globl _start
_start:
	cli
	cld
	lgdtl %cs:(table - _start)
	movl %cr0, %eax
	orb $1, %al
	movl %eax, %cr0
	ljmpl $0x10, $flat
	.code32
flat:
	movl $0x18, %eax
	movw %ax, %ds
	movw %ax, %es
	movw %ax, %ss
# Bochs gives memory out in blocks of 8 MiB, in the order in which they are asked for. The image was read into the first of them in one
# piece: it lies where it should if the blocks behind are asked for in their order.
	xorl %eax, %eax
touch:
	movl (%eax), %ecx
	addl $0x800000, %eax
	cmpl $0x20000000, %eax
	jb touch
	movl $0x10000, %esi
	xorl %ebp, %ebp
	xorl %edi, %edi
	xorl %ebx, %ebx
	movl $0x100000, %eax
	jmp *%eax
	.align 8
segments:
	.quad 0, 0, 0x00cf9a000000ffff, 0x00cf92000000ffff
table:
	.word 31
	.long segments
	.org 0xfff0
	.code16
	.byte 0xe9
	.word _start - . - 2
	.org 0x10000
