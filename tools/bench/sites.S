/* SPDX-License-Identifier: MIT */
/*
 * SITES probe sites of NAMES names, as a compiler of the ocaml_1 generation writes them: a note
 * for each, the sites of a name spread over the program, 40 bytes of code per site (100 000 sites
 * take about 1000 pages, as in real programs), and 4-byte semaphores. All share one handler, which
 * counts.
 *
 * With LINES it is one unit of a larger program, without global symbols, and with a line table
 * like those of the compilers: a row for each site, and some for the code between.
 */
	.altmacro

	.pushsection .stapsdt.base, "aG", @progbits, .stapsdt.base, comdat
	.weak _.stapsdt.base
	.hidden _.stapsdt.base
_.stapsdt.base:
	.space 1
	.popsection

.macro semaphore name
	.pushsection .probes, "aw", @progbits
semaphore_\name:
	.short 0, 0
	.popsection
.endm

.macro site n, name
#ifdef LINES
	.loc 1 \n + 1 2
#endif
site_\n:
	nop
	.byte 0x3d
	.long handler - (site_\n + 6)
#ifdef LINES
	.loc 1 \n + 1000 4
	nopw 0x1234(%rax,%rax)
	.loc 1 \n + 2000 4
	nopw 0x1234(%rax,%rax)
	.nops 16
#else
	.nops 34
#endif
	.pushsection .note.stapsdt, "", @note
	.balign 4
	.long 8, 2f - 1f, 3
	.asciz "stapsdt"
1:	.quad site_\n, _.stapsdt.base, semaphore_\name
	.asciz "ocaml_1", "library_module_function_\name", "8@%rax 8@%rbx"
2:	.balign 4
	.popsection
.endm

	.set i, 0
	.rept NAMES
	semaphore %i
	.set i, i + 1
	.endr

	/* void pass_sites(void): passes every site once. */
	.text
#ifdef LINES
	.file 1 "library.ml"
#else
	.globl pass_sites
	.hidden pass_sites
#endif
	.type pass_sites, @function
pass_sites:
	.set i, 0
	.rept SITES
	site %i, %(i % NAMES)
	.set i, i + 1
	.endr
	ret
	.size pass_sites, . - pass_sites

handler:
#ifndef LINES
	lock incq handler_runs(%rip)
#endif
	ret

	.section .note.GNU-stack, "", @progbits
