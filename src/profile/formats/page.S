/* SPDX-License-Identifier: MIT */
/* The page that html_writer.c writes: the contents of the file FLAME_PAGE, ending with a NUL. */
	.section .rodata
	.globl flame_page
	.hidden flame_page
	.type flame_page, @object
flame_page:
	.incbin FLAME_PAGE
	.byte 0
	.size flame_page, . - flame_page

	.section .note.GNU-stack, "", @progbits
