/* SPDX-License-Identifier: MIT */
/* The pages that page_writer.c writes: the contents of the files FLAME_PAGE and REPORT_PAGE, each ending with a NUL. */
#define PAGE(name, file)          \
	.globl name;              \
	.hidden name;             \
	.type name, @object;      \
	name: .incbin file;       \
	.byte 0;                  \
	.size name, . - name

	.section .rodata
	PAGE(flame_page, FLAME_PAGE)
	PAGE(report_page, REPORT_PAGE)

	.section .note.GNU-stack, "", @progbits
