/* SPDX-License-Identifier: MIT */
/* A page, as the string PAGE_NAME: the contents of the file PAGE_FILE, ending with a NUL. */
	.section .rodata
	.globl PAGE_NAME
	.hidden PAGE_NAME
	.type PAGE_NAME, @object
PAGE_NAME:
	.incbin PAGE_FILE
	.byte 0
	.size PAGE_NAME, . - PAGE_NAME

	.section .note.GNU-stack, "", @progbits
