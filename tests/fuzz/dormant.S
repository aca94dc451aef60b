/* SPDX-License-Identifier: MIT */
/*
 * A seed for fuzz_link: the smallest program with dormant probes, as ocamlopt would compile
 * `[%probe "a" ...]` (twice, one with the condition inverted, one with arguments) and
 * `[%probe_is_enabled "a"]`.
 */
.macro marker label, kind, column
	.balign 8
	.quad 3 << 10 | 252
\label:
	.ascii "\0\0\0\0P1:\kind\():a@f:1:\column"
	.fill 24 - 1 - (. - \label), 1, 0
	.byte 24 - 1 - 16
.endm

	.data
	marker first, 5, 1
	marker args, A, 1
	.space 16
	marker second, 0i, 2
	marker query, E, 3

	.section .stapsdt.base, "a"
	.byte 0
	.section .probes, "aw"
	.quad 0

	.text
	.globl _start
	.type _start, @function
_start:
	leaq	first(%rip), %rax
	cmpq	$1, %rax
	jne	1f
	leaq	args(%rip), %rax
	movq	%rcx, 24(%rsp)
	movq	$7, (%rax)
	movq	24(%rsp), %rcx
	movq	%rcx, 8(%rax)
	subq	$32, %r15
	cmpq	(%r14), %r15
	jb	3f
	leaq	24(%r15), %rsi
	movq	$0x4fd, -8(%rsi)
	movsd	%xmm0, (%rsi)
	movq	%rsi, 16(%rax)
	movq	16(%rdi), %rdx
	movq	%rdx, 24(%rax)
	call	3f
	leaq	args(%rip), %rax
	movq	8(%rsp), %rdx
	movq	%rdx, 32(%rax)
	addq	$2, %rbx
1:	leaq	second(%rip), %rdi
	cmpq	$1, %rdi
	je	2f
	ret
3:	ret
2:	incl	%ecx
	leaq	query(%rip), %rbx
	movzwl	2(%rbx), %eax
	ret
	.size _start, . - _start
