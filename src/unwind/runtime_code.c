// SPDX-License-Identifier: MIT
/*
 * The places are found by their machine code, since a stripped program has no symbols for all of
 * them. A pattern is long enough to be no other code. Where it is not found, the call frame information
 * stands.
 *
 * Sources: runtime/amd64.S (caml_raise_exn, caml_raise_exception, caml_stack_overflow) and
 * asmcomp/amd64/emit.mlp (Lraise Raise_notrace, the call of caml_call_realloc_stack) of OCaml 4.13.1,
 * 4.14.1 and 5.3.0. Domain state is in r14; its exception pointer is at 16 (OCaml 4) or 48 (OCaml 5).
 */
#include "unwind/runtime_code.h"

#include <stdlib.h>
#include <string.h>

enum { MAX_PATTERN = 48, ANY = 0x100, MAX_CODE_BYTES = 1 << 30 };

struct pattern {
	uint16_t bytes[MAX_PATTERN]; /* ANY matches every byte */
	uint8_t n;
	/* The frames from one offset to another. */
	uint8_t from, to;
	enum code_frame frame;
};

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
	/* The same, then mov %r12,%rax; mov 16(%r14),%rsp */
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
	/* push $N; call caml_call_realloc_stack; pop %r10 */
	{ { 0x6a, ANY, 0xe8, ANY, ANY, ANY, ANY, 0x41, 0x5a }, 9, 2, 9, CODE_FRAME_8_DEEPER },
	{ { 0x68, ANY, ANY, ANY, ANY, 0xe8, ANY, ANY, ANY, ANY, 0x41, 0x5a },
	  12,
	  5,
	  12,
	  CODE_FRAME_8_DEEPER },
};

enum { N_PATTERNS = sizeof(patterns) / sizeof(*patterns) };

static bool matches(const struct pattern *pattern, const uint8_t *code)
{
	for (size_t i = 0; i < pattern->n; i++)
		if (pattern->bytes[i] != ANY && pattern->bytes[i] != code[i])
			return false;
	return true;
}

/* Find PATTERN in CODE[0..BYTES), which is linked at VA. */
static int find_pattern(const struct pattern *pattern, const uint8_t *code, size_t bytes,
			uint64_t va, code_frame_fn fn, void *data)
{
	const uint8_t *at = code, *end = code + bytes;
	uint8_t prefix[MAX_PATTERN];
	size_t n = 0;
	int err = 0;

	while (n < pattern->n && pattern->bytes[n] != ANY) {
		prefix[n] = (uint8_t)pattern->bytes[n];
		n++;
	}
	while (!err && (at = memmem(at, (size_t)(end - at), prefix, n))) {
		const uint64_t here = va + (size_t)(at - code);

		if ((size_t)(end - at) >= pattern->n && matches(pattern, at))
			err = fn(data, here + pattern->from, here + pattern->to, pattern->frame);
		at++;
	}
	return err;
}

static int find_in_segment(struct ocp_ctx *ctx, const struct elf_file *elf,
			   const struct elf_segment *segment, code_frame_fn fn, void *data)
{
	uint8_t *code;
	int err;

	if (segment->file_bytes > MAX_CODE_BYTES)
		return ctx_error(ctx, -EBADMSG, "%s: more than %d bytes of code",
				 elf_file_name(elf), MAX_CODE_BYTES);
	code = malloc(segment->file_bytes + 1);
	if (!code)
		return ctx_no_memory(ctx);
	err = elf_file_read(elf, segment->off, code, segment->file_bytes);
	for (size_t i = 0; i < N_PATTERNS && !err; i++)
		err = find_pattern(&patterns[i], code, segment->file_bytes, segment->va, fn, data);
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
