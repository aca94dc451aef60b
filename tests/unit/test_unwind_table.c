// SPDX-License-Identifier: MIT
/* Unwind tables, where call frame information is wrong or missing. */
#include <fcntl.h>
#include <unistd.h>

#include "elf/eh_frame.h"
#include "unwind/runtime_code.h"
#include "unwind/unwind_table.h"
#include "unit.h"

enum { MAX_SWITCHES = 64 };

/* The places behind a row whose CFA is in rcx: the code there uses another stack. */
struct switches {
	uint64_t list[MAX_SWITCHES];
	size_t n;
	bool is_next;
};

static int find_switches(void *data, uint64_t va, const struct cfi_rule *rule)
{
	struct switches *found = data;

	if (found->is_next)
		found->list[found->n++] = va;
	found->is_next = rule->cfa == CFA_REGISTER && rule->reg == CFI_RCX;
	return found->n == MAX_SWITCHES;
}

/* _Unwind_Resume() and similar functions have restored all registers when they switch the stack. */
TEST(registers_are_kept_where_an_exception_switches_the_stack)
{
	struct ocp_ctx *ctx = ocp_ctx_new();
	const int fd = open("/lib/x86_64-linux-gnu/libgcc_s.so.1", O_RDONLY | O_CLOEXEC);
	struct switches found = { 0 };
	struct unwind_table *table;
	struct elf_file *elf;
	size_t before = 0;

	assert_true(fd >= 0);
	assert_int_equal(elf_file_open(ctx, fd, "libgcc_s.so.1", &elf), 0);
	assert_int_equal(eh_frame_read(ctx, elf, find_switches, &found), 0);
	assert_int_equal(unwind_table_read(ctx, elf, &table), 0);
	assert_true(found.n >= 4);
	for (size_t i = 0; i < found.n; i++) {
		const struct walk_rule *rule =
			&table->rules[unwind_table_find(table, found.list[i])];

		assert_int_equal(rule->cfa, WALK_CFA_REGISTER);
		assert_int_equal(rule->reg, WALK_RSP);
		assert_int_equal(rule->add[0], 8);
		assert_int_equal(rule->rip_at, WALK_AT_CFA);
		assert_int_equal(rule->n_moved, 0);
		/* Before the switch, the registers are saved. */
		before += table->rules[unwind_table_find(table, found.list[i] - 8)].n_moved > 1;
	}
	assert_int_equal(before, found.n);
	unwind_table_free(table);
	elf_file_close(elf);
	close(fd);
	ocp_ctx_free(ctx);
}

enum { ENOUGH = 7 };

static int count_until(void *data, const struct code_place *place)
{
	size_t *left = data;

	assert_true(place->from < place->to);
	return *left == 1 ? ENOUGH : (--*left, 0);
}

/* The reader ends where its function says so. */
TEST(the_search_for_code_of_the_runtime_can_be_ended)
{
	struct ocp_ctx *ctx = ocp_ctx_new();
	const int fd = open("/usr/bin/ocamlopt.opt", O_RDONLY | O_CLOEXEC);
	struct elf_file *elf;
	size_t most = 1000, left = most, n;

	assert_true(fd >= 0);
	assert_int_equal(elf_file_open(ctx, fd, "ocamlopt.opt", &elf), 0);
	assert_int_equal(runtime_code_find(ctx, elf, count_until, &left), 0);
	n = most - left;
	assert_true(n > 0);
	for (size_t at = 1; at <= n; at++) {
		left = at;
		assert_int_equal(runtime_code_find(ctx, elf, count_until, &left), ENOUGH);
		assert_int_equal(left, 1);
	}
	elf_file_close(elf);
	close(fd);
	ocp_ctx_free(ctx);
}
