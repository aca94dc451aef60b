/* SPDX-License-Identifier: MIT */
/* The page that page_writer.c writes: the contents of the file TIMELINE_PAGE, ending with a NUL. */
	.section .rodata
	.globl timeline_page
	.hidden timeline_page
	.type timeline_page, @object
timeline_page:
	.incbin TIMELINE_PAGE
	.byte 0
	.size timeline_page, . - timeline_page

	.section .note.GNU-stack, "", @progbits
