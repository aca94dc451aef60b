/* SPDX-License-Identifier: MIT */
/*
 * SITES dormant probes of NAMES names, with three arguments each, in the layout of ocamlopt for
 * the output of the ppx: 100 bytes of code and 150 of data per probe.
 */
	.altmacro

/* An OCaml string: header, text, and padding, whose last byte is the number of padding bytes. */
.macro marker label, kind, name, n
	.balign 8
	.quad ((9f - \label) / 8 + 1) << 10 | 252
\label:
	.ascii "\0\0\0\0P1:\kind:p\name@a_folder/a_program_of_many_modules.ml:\n:2"
9:	.fill 7 - (9b - \label) % 8, 1, 0
	.byte 7 - (9b - \label) % 8
.endm

.macro probe n, name
	leaq	site_\n(%rip), %rbx
	cmpq	$1, %rbx
	jne	1f
	leaq	args_\n(%rip), %rbx
	movq	%rdi, (%rbx)
	movq	16(%rsp), %rsi
	movq	%rsi, 8(%rbx)
	movq	$7, 16(%rbx)
	incl	runs(%rip)
1:	addq	%rdi, %rax
	.rept 10
	leaq	runs(%rip), %rdx
	.endr
	.pushsection .data
	marker site_\n, 3, \name, \n
	marker args_\n, A, \name, \n
	.popsection
.endm

	.data
runs:	.quad 0

	.text
	.globl main
	.type main, @function
main:
	n = 0
	.rept SITES
	name = n % NAMES
	probe %n, %name
	n = n + 1
	.endr
	movl	runs(%rip), %eax
	ret
	.size main, . - main

	.section .note.GNU-stack, "", @progbits
