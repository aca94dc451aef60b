// SPDX-License-Identifier: MIT
/*
 * Find each place (struct code_place) by a pattern of its machine code, since a stripped program
 * has no symbols for some of the places. The patterns are long enough not to match other code.
 * Where no pattern matches, the call frame information is used without a correction.
 *
 * Sources: runtime/amd64.S (caml_raise_exn, caml_raise_exception, caml_stack_overflow,
 * caml_start_program, caml_c_call_stack_args) and asmcomp/amd64/emit.mlp (Lraise Raise_notrace, the
 * call of caml_call_realloc_stack) of OCaml 4.13.1, 4.14.1 and 5.3.0. r14 points to the domain
 * state, which has the exception pointer at offset 16 (OCaml 4) or 48 (OCaml 5).
 */
#include "unwind/runtime_code.h"

#include <stdlib.h>
#include <string.h>

enum { MAX_PATTERN = 56, ANY = 0x100, PART_BYTES = 1 << 18, MAX_CODE_BYTES = 1 << 30 };

struct pattern {
	uint16_t bytes[MAX_PATTERN]; /* ANY matches every byte */
	uint8_t n;
	/* The frames at the offsets `from` to `to` - 1 of the pattern are of kind `frame`. */
	uint8_t from, to;
	enum code_frame frame;
};

/*
 * The end of OCaml 5's caml_start_program: mov 8(%r10),%r11; mov %r11,N(%r14); add $16,%r10;
 * mov %r15,8(%r14); mov 40(%r14),%r11; mov %r10,(%r11); mov 64(%r14),%rsp; mov 16(%rsp),%r10;
 * mov %r10,64(%r14); add $24,%rsp; six of pop; ret; then a callback that has raised:
 * or $2,%rax; mov %rsp,%r10; jmp
 */
#define END_OF_CALLBACK                                                                            \
	{                                                                                          \
		0x4d, 0x8b, 0x5a, 0x08, 0x4d, 0x89, 0x5e, ANY, 0x49, 0x83, 0xc2, 0x10, 0x4d, 0x89, \
			0x7e, 0x08, 0x4d, 0x8b, 0x5e, 0x28, 0x4d, 0x89, 0x13, 0x49, 0x8b, 0x66,    \
			0x40, 0x4c, 0x8b, 0x54, 0x24, 0x10, 0x4d, 0x89, 0x56, 0x40, 0x48, 0x83,    \
			0xc4, 0x18, ANY, ANY, ANY, ANY, ANY, ANY, ANY, ANY, 0x5d, 0x5b, 0xc3,      \
			0x48, 0x83, 0xc8, 0x02, 0x49                                               \
	}

/*
 * The end of caml_runstack: mov 40(%r14),%rdi; mov 24(%r11),%r10; mov 8(%r10),%r11; mov
 * %r10,40(%r14); mov %r11,48(%r14); mov (%r10),%r13; mov %rax,%r12; mov 64(%r14),%rsp; call
 * caml_free_stack; mov %r13,%rsp; mov %r12,%rax; jmp *(%rbx); then a fibre that has raised: lea
 * 16(%rsp),%r11; mov 8(%r11),%rbx; jmp to the start. Since this jump leads back to the start, two
 * stack pointers are possible there.
 */
#define END_OF_FIBRE                                                                               \
	{                                                                                          \
		0x49, 0x8b, 0x7e, 0x28, 0x4d, 0x8b, 0x53, 0x18, 0x4d, 0x8b, 0x5a, 0x08, 0x4d,      \
			0x89, 0x56, 0x28, 0x4d, 0x89, 0x5e, 0x30, 0x4d, 0x8b, 0x2a, 0x49, 0x89,    \
			0xc4, 0x49, 0x8b, 0x66, 0x40, 0xe8, ANY, ANY, ANY, ANY, 0x4c, 0x89, 0xec,  \
			0x4c, 0x89, 0xe0, 0xff, 0x23, 0x4c, 0x8d, 0x5c, 0x24, 0x10, 0x49, 0x8b,    \
			0x5b, 0x08, 0xeb                                                           \
	}

static const struct pattern patterns[] = {
	/* mov 16(%r14),%rsp; pop 16(%r14); ret */
	{ { 0x49, 0x8b, 0x66, 0x10, 0x41, 0x8f, 0x46, 0x10, 0xc3 }, 9, 4, 9, CODE_FRAME_LEFT },
	/* mov 16(%r14),%rsp; pop 16(%r14); mov 8(%r14),%r15; ret */
	{ { 0x49, 0x8b, 0x66, 0x10, 0x41, 0x8f, 0x46, 0x10, 0x4d, 0x8b, 0x7e, 0x08, 0xc3 },
	  13,
	  4,
	  13,
	  CODE_FRAME_LEFT },
	/* mov 16(%r14),%rsp; pop 16(%r14); pop %r11; jmp *%r11 */
	{ { 0x49, 0x8b, 0x66, 0x10, 0x41, 0x8f, 0x46, 0x10, 0x41, 0x5b, 0x41, 0xff, 0xe3 },
	  13,
	  4,
	  13,
	  CODE_FRAME_LEFT },
	/* mov 48(%r14),%rsp; lea 48(%r14),%r11; pop (%r11); ret */
	{ { 0x49, 0x8b, 0x66, 0x30, 0x4d, 0x8d, 0x5e, 0x30, 0x41, 0x8f, 0x03, 0xc3 },
	  12,
	  4,
	  12,
	  CODE_FRAME_LEFT },
	/* mov 48(%r14),%rsp; pop 48(%r14); pop %r11; jmp *%r11 */
	{ { 0x49, 0x8b, 0x66, 0x30, 0x41, 0x8f, 0x46, 0x30, 0x41, 0x5b, 0x41, 0xff, 0xe3 },
	  13,
	  4,
	  13,
	  CODE_FRAME_LEFT },
	/* mov %rax,%r12; mov %rax,%rdi; pop %rsi; mov %rsp,%rdx; mov 16(%r14),%rcx; call */
	{ { 0x49, 0x89, 0xc4, 0x48, 0x89, 0xc7, 0x5e, 0x48, 0x89, 0xe2, 0x49, 0x8b, 0x4e, 0x10,
	    0xe8 },
	  15,
	  0,
	  7,
	  CODE_FRAME_RSP_8 },
	/*
	 * mov %rsi,%r12; mov %rsi,%rdi; mov N(%r14),%rsi; mov N(%r14),%rdx; mov 16(%r14),%rcx;
	 * sub $8,%rsp; call
	 */
	{ { 0x49, 0x89, 0xf4, 0x48, 0x89, 0xf7, 0x49, 0x8b, 0xb6, ANY,
	    0,	  0,	0,    0x49, 0x8b, 0x96, ANY,  0,    0,	  0,
	    0x49, 0x8b, 0x4e, 0x10, 0x48, 0x83, 0xec, 0x08, 0xe8 },
	  29,
	  0,
	  28,
	  CODE_FRAME_RSP_8 },
	/*
	 * pop %rsi; mov %rsp,%rdx; mov 16(%r14),%rcx; call caml_stash_backtrace. The call
	 * overwrites the return address.
	 */
	{ { 0x5e, 0x48, 0x89, 0xe2, 0x49, 0x8b, 0x4e, 0x10, 0xe8 }, 9, 1, 9, CODE_FRAME_AT_RSP },
	/* The previous pattern, then mov %r12,%rax; mov 16(%r14),%rsp */
	{ { 0x5e, 0x48, 0x89, 0xe2, 0x49, 0x8b, 0x4e, 0x10, 0xe8, ANY,
	    ANY,  ANY,	ANY,  0x4c, 0x89, 0xe0, 0x49, 0x8b, 0x66, 0x10 },
	  20,
	  9,
	  20,
	  CODE_FRAME_LEFT },
	/* sub $8,%rsp; call caml_stash_backtrace; mov %r12,%rax; mov 16(%r14),%rsp */
	{ { 0x48, 0x83, 0xec, 0x08, 0xe8, ANY, ANY, ANY, ANY, 0x4c, 0x89, 0xe0, 0x49, 0x8b, 0x66,
	    0x10 },
	  16,
	  4,
	  16,
	  CODE_FRAME_RSP_16 },
	/*
	 * mov %rsp,%r13; mov %rax,%r12; mov 64(%r14),%rsp; mov %rax,%rdi; mov 0(%r13),%rsi;
	 * lea 8(%r13),%rdx; mov 48(%r14),%rcx; call caml_stash_backtrace; mov %r12,%rax;
	 * mov 48(%r14),%rsp
	 */
	{ { 0x49, 0x89, 0xe5, 0x49, 0x89, 0xc4, 0x49, 0x8b, 0x66, 0x40, 0x48, 0x89, 0xc7,
	    0x49, 0x8b, 0x75, 0x00, 0x49, 0x8d, 0x55, 0x08, 0x49, 0x8b, 0x4e, 0x30, 0xe8,
	    ANY,  ANY,	ANY,  ANY,  0x4c, 0x89, 0xe0, 0x49, 0x8b, 0x66, 0x30 },
	  37,
	  10,
	  37,
	  CODE_FRAME_R13_8 },
	/* At the start of a function: push $N; call caml_call_realloc_stack; pop %r10 */
	{ { 0x6a, ANY, 0xe8, ANY, ANY, ANY, ANY, 0x41, 0x5a }, 9, 2, 9, CODE_FRAME_ARGUMENT },
	{ { 0x68, ANY, ANY, ANY, ANY, 0xe8, ANY, ANY, ANY, ANY, 0x41, 0x5a },
	  12,
	  5,
	  12,
	  CODE_FRAME_ARGUMENT },
	/*
	 * The end of OCaml 4's caml_start_program: mov %r15,8(%r14); three of pop N(%r14); add
	 * $8,%rsp twice; six of pop; ret; or $2,%rax; jmp to the first of these
	 */
	{ { 0x4d, 0x89, 0x7e, 0x08, 0x41, 0x8f, 0x86, ANY,  ANY,  ANY,	ANY,  0x41, 0x8f,
	    0x86, ANY,	ANY,  ANY,  ANY,  0x41, 0x8f, 0x86, ANY,  ANY,	ANY,  ANY,  0x48,
	    0x83, 0xc4, 0x08, 0x48, 0x83, 0xc4, 0x08, 0x41, 0x5f, 0x41, 0x5e, 0x41, 0x5d,
	    0x41, 0x5c, 0x5d, 0x5b, 0xc3, 0x48, 0x83, 0xc8, 0x02, 0xeb, 0xce },
	  50,
	  44,
	  50,
	  CODE_FRAME_LIKE },
	{ END_OF_CALLBACK, 56, 0, 27, CODE_FRAME_OF_C_STACK },
	{ END_OF_CALLBACK, 56, 51, 60, CODE_FRAME_OF_C_STACK },
	{ END_OF_FIBRE, 53, 0, 16, CODE_FRAME_LEFT },
	{ END_OF_FIBRE, 53, 16, 23, CODE_FRAME_OF_CURRENT },
	{ END_OF_FIBRE, 53, 43, 54, CODE_FRAME_OF_PARENT },
	/*
	 * sub $8,%r12; cmp %r13,%r12; jb; push (%r12); jmp; call *%rax; mov 64(%r14),%rsp;
	 * mov 8(%r14),%r15; mov 8(%rsp),%rsp
	 */
	{ { 0x49, 0x83, 0xec, 0x08, 0x4d, 0x39, 0xec, 0x72, 0x06, 0x41,
	    0xff, 0x34, 0x24, 0xeb, 0xf1, 0xff, 0xd0, 0x49, 0x8b, 0x66,
	    0x40, 0x4d, 0x8b, 0x7e, 0x08, 0x48, 0x8b, 0x64, 0x24, 0x08 },
	  30,
	  0,
	  30,
	  CODE_FRAME_OF_LINK },
};

enum { N_PATTERNS = sizeof(patterns) / sizeof(*patterns) };

/*
 * Frames of kind FRAME unwind like the frame at some instruction of their pattern. Return the
 * offset of that instruction in the pattern.
 */
static uint64_t like_of(enum code_frame frame)
{
	return frame == CODE_FRAME_OF_C_STACK ? 27 : 0;
}

/*
 * Bytes that are rare in code. Each pattern contains at least one of them. To find a pattern,
 * search the code for the pattern's rare byte first.
 */
static const uint8_t rare_bytes[] = { 0x66, 0x4e, 0x5a, 0xce };

enum { N_RARE = sizeof(rare_bytes) / sizeof(*rare_bytes) };

/* A part of the code, linked at VA. */
struct code_part {
	const uint8_t *bytes;
	size_t n;
	/*
	 * search only for patterns that start in the first n_starts bytes; the next part has the
	 * others
	 */
	size_t n_starts;
	uint64_t va;
};

/*
 * Return the offset of the rare byte in PATTERN, and set *RARE to the index of that byte in
 * rare_bytes.
 */
static size_t rare_place(const struct pattern *pattern, size_t *rare)
{
	for (*rare = 0; *rare < N_RARE; ++*rare)
		for (size_t i = 0; i < pattern->n; i++)
			if (pattern->bytes[i] == rare_bytes[*rare])
				return i;
	abort(); /* not reached: each of the patterns has a rare byte */
}

static bool matches(const struct pattern *pattern, const uint8_t *code)
{
	for (size_t i = 0; i < pattern->n; i++)
		if (pattern->bytes[i] != ANY && pattern->bytes[i] != code[i])
			return false;
	return true;
}

/* Call FN for each place in PART that matches a pattern whose rare byte has the index RARE. */
static int find_patterns(const struct code_part *part, size_t rare, code_frame_fn fn, void *data)
{
	const struct pattern *of[N_PATTERNS];
	size_t places[N_PATTERNS], n = 0, index;
	const uint8_t *end = part->bytes + part->n;
	int err = 0;

	for (size_t i = 0; i < N_PATTERNS; i++) {
		of[n] = &patterns[i];
		places[n] = rare_place(of[n], &index);
		n += index == rare;
	}
	for (const uint8_t *at = part->bytes;
	     !err && (at = memchr(at, rare_bytes[rare], (size_t)(end - at))); at++) {
		for (size_t i = 0; i < n && !err; i++) {
			const size_t start = (size_t)(at - part->bytes) - places[i];
			const uint64_t va = part->va + start;

			/*
			 * If the pattern would start before the part, the subtraction has wrapped
			 * START around to a huge number.
			 */
			if (start < part->n_starts && of[i]->n <= part->n - start &&
			    matches(of[i], part->bytes + start))
				err = fn(data, &(struct code_place){
						       va + of[i]->from, va + of[i]->to,
						       va + like_of(of[i]->frame), of[i]->frame });
		}
	}
	return err;
}

/* Search SEGMENT for all patterns, in parts that fit the cache of the CPU. */
static int find_in_segment(struct ocp_ctx *ctx, const struct elf_file *elf,
			   const struct elf_segment *segment, code_frame_fn fn, void *data)
{
	uint8_t *code;
	int err;

	if (segment->file_bytes > MAX_CODE_BYTES)
		return ctx_error(ctx, -EBADMSG, "%s: more than %d bytes of code",
				 elf_file_name(elf), MAX_CODE_BYTES);
	code = malloc(PART_BYTES + MAX_PATTERN);
	err = code ? 0 : ctx_no_memory(ctx);
	for (uint64_t at = 0; at < segment->file_bytes && !err; at += PART_BYTES) {
		const uint64_t left = segment->file_bytes - at;
		const struct code_part part = {
			.bytes = code,
			.n = left < PART_BYTES + MAX_PATTERN ? left : PART_BYTES + MAX_PATTERN,
			.n_starts = PART_BYTES,
			.va = segment->va + at,
		};

		err = elf_file_read(elf, segment->off + at, code, part.n);
		for (size_t rare = 0; rare < N_RARE && !err; rare++)
			err = find_patterns(&part, rare, fn, data);
	}
	free(code);
	return err;
}

int runtime_code_find(struct ocp_ctx *ctx, const struct elf_file *elf, code_frame_fn fn, void *data)
{
	size_t n;
	const struct elf_segment *segments = elf_file_segments(elf, &n);
	int err = 0;

	for (size_t i = 0; i < n && !err; i++)
		if (segments[i].executable)
			err = find_in_segment(ctx, elf, &segments[i], fn, data);
	return err;
}
