// SPDX-License-Identifier: MIT
#include "code_asm.h"

#include <fcntl.h>
#include <unistd.h>

asm(".globl other\n.hidden other\n");
FUNCTION(other, "ret");

extern const char __ehdr_start[]; // NOLINT(bugprone-reserved-identifier)

/* The link-time address. */
static uint64_t va_of(const struct code *code, const char *label)
{
	uint64_t va = (uint64_t)(uintptr_t)label;

	return elf_file_is_relocatable(code->elf) ? va - (uint64_t)(uintptr_t)__ehdr_start : va;
}

int code_open_self(void **state)
{
	static struct code code;

	code.ctx = ocp_ctx_new();
	assert_non_null(code.ctx);
	code.fd = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
	assert_true(code.fd >= 0);
	assert_int_equal(elf_file_open(code.ctx, code.fd, "self", &code.elf), 0);
	code.entries[0] = va_of(&code, other);
	assert_int_equal(code_file_open(code.ctx, code.elf, code.entries, 1, &code.file), 0);
	*state = &code;
	return 0;
}

int code_close_self(void **state)
{
	struct code *code = *state;

	code_file_close(code->file);
	elf_file_close(code->elf);
	close(code->fd);
	ocp_ctx_free(code->ctx);
	return 0;
}

struct code_function code_decode(struct code *code, const char *start, size_t n)
{
	struct code_function function;
	struct code_bytes bytes;

	assert_int_equal(code_file_bytes(code->file, true, va_of(code, start), n, &bytes), 0);
	assert_memory_equal(bytes.bytes, start, bytes.n);
	assert_int_equal(code_function_decode(code->ctx, &bytes, code->file, &function), 0);
	return function;
}

void assert_entry(const struct code_function *function)
{
	assert_null(function->no_count);
	assert_int_equal(function->place, 0);
	assert_int_equal(function->place_cost, CODE_STEPPED);
	assert_true(function->place_is_entry);
}

void assert_exit(const struct code_function *function, size_t i, long off, enum code_exit_kind kind,
		 enum code_cost cost)
{
	assert_null(function->no_time);
	assert_true(i < function->n_exits);
	assert_int_equal(function->exits[i].off, off);
	assert_int_equal(function->exits[i].kind, kind);
	assert_int_equal(function->exits[i].cost, cost);
	if (kind != CODE_RAISE) {
		assert_true(function->exits[i].depth_known);
		assert_int_equal(function->exits[i].depth, 0);
	}
}

void assert_not_timed(const struct code_function *function, const char *why)
{
	assert_non_null(function->no_time);
	assert_string_equal(function->no_time, why);
	assert_int_equal(function->n_exits, 0);
	assert_null(function->exits);
}
