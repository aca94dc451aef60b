// SPDX-License-Identifier: MIT
/* Jumps through tables and pointers, and ways through a function that are none. */
#include "code_asm.h"

#include <string.h>

FUNCTION(matches, TABLE("matches_t: .long 1f-matches_t, 2f-matches_t, 3f-matches_t, 0\n")
			  L(matches_place) "push %rbx\n" SWITCH(
				  matches_t) "1: pop %rbx\nret\n"
					     "2: pop %rbx\njmp other\n3: call other");
LABEL(matches_place);

ALL_TESTS(code_open_self, code_close_self);

TEST(tables_are_followed)
{
	struct code_function it = DECODE(*state, matches);

	assert_emulated(it, matches, 0);
	assert_null(it.no_time);
	assert_int_equal(it.n_exits, 2);
	code_function_free(&it);
}

/* The table leads back to before the push. */
FUNCTION(
	matches_loop,
	TABLE("matches_loop_t: .long 1f-matches_loop_t, 2f-matches_loop_t, 0\n") "mov %rax, %rbx\n1: mov %rbx, %rax\npush %rbx\npop %rbx\n" SWITCH(
		matches_loop_t) "2: ret");
FUNCTION(
	matches_entry,
	TABLE("matches_entry_t: .long matches_entry-matches_entry_t, 2f-matches_entry_t, 0\n") "mov %rax, %rbx\npush %rbx\npop %rbx\n" SWITCH(
		matches_entry_t) "2: ret");

TEST(tables_lead_to_places)
{
	struct code_function it = DECODE(*state, matches_loop);

	assert_entry(&it);
	assert_null(it.no_time);
	code_function_free(&it);
	it = DECODE(*state, matches_entry);
	assert_true(it.entry_is_loop);
	assert_non_null(it.no_count);
}

/*
 * The second table is 4 bytes behind the first. Taken for a part of that one, it would lead 4 bytes
 * before its own target: to the nop before the push.
 */
FUNCTION(
	matches_twice,
	TABLE("matches_twice_t: .long 1f-matches_twice_t\n"
	      "matches_twice_u: .long 2f-matches_twice_u, 0\n") "mov %rax, %rbx\nnop\n" L(matches_twice_place) "push %rbx\npop %rbx\nnop\n2: nop\n" SWITCH(matches_twice_t) "1: " SWITCH(matches_twice_u));
LABEL(matches_twice_place);

TEST(a_table_ends_where_the_next_begins)
{
	struct code_function it = DECODE(*state, matches_twice);

	assert_emulated(it, matches_twice, 0);
	code_function_free(&it);
}

FUNCTION(empty_table,
	 TABLE("empty_table_t: .long 0\n") "push %rbx\npop %rbx\n" SWITCH(empty_table_t));
FUNCTION(
	other_base,
	TABLE("other_base_t: .long 1f-other_base_t\n") "push %rbx\npop %rbx\nlea other_base_t(%rip), %rdx\nmovslq (%rcx,%rax,4), %rax\n"
						       "add %rax, %rdx\njmp *%rdx\n1: ret");
FUNCTION(
	table_joined,
	TABLE("table_joined_t: .long 1f-table_joined_t\n") "push %rbx\npop %rbx\nje 2f\nlea table_joined_t(%rip), %rdx\nmovslq (%rdx,%rax,4), %rax\n"
							   "2: add %rax, %rdx\njmp *%rdx\n1: ret");
FUNCTION(computed, "push %rbx\npop %rbx\nmov (%rax), %rax\nadd %rbx, %rax\njmp *%rax");
FUNCTION(indexed, "push %rbx\npop %rbx\njmp *(%rbx,%rax,8)");
FUNCTION(own_label, "sub $8, %rsp\npush %rbx\npop %rbx\nmov (%rax), %rax\njmp *%rax");
FUNCTION(loaded_elsewhere,
	 "push %rbx\npop %rbx\nmov (%rax), %rdi\nje 1f\nmov %rbx, %rdi\n1: jmp *%rdi");

/* These are counted at the entry, a push that the kernel emulates, or `sub`. */
TEST(other_jumps_are_not_followed)
{
	const struct {
		const char *start;
		size_t n;
	} ranges[] = {
		{ empty_table, SIZE(empty_table) },
		{ other_base, SIZE(other_base) },
		{ table_joined, SIZE(table_joined) },
		{ computed, SIZE(computed) },
		{ indexed, SIZE(indexed) },
		{ own_label, SIZE(own_label) },
		{ loaded_elsewhere, SIZE(loaded_elsewhere) },
	};

	for (size_t i = 0; i < sizeof(ranges) / sizeof(*ranges); i++) {
		struct code_function it = code_decode(*state, ranges[i].start, ranges[i].n);

		assert_null(it.no_count);
		assert_int_equal(it.place, 0);
		assert_true(it.place_is_entry);
		assert_not_timed(&it, "it has a jump that cannot be followed");
	}
}

/* Registers of all numbers. */
FUNCTION(
	high_registers,
	TABLE("high_registers_t: .long 1f-high_registers_t\n") "push %rbx\npop %rbx\n"
							       "lea high_registers_t(%rip), %rax\nmovslq (%rax,%r15,4), %r15\nadd %r15, %rax\njmp *%rax\n"
							       "1: lea high_registers_t(%rip), %r15\nmovslq (%r15,%rax,4), %rax\nadd %r15, %rax\njmp *%rax\n");
FUNCTION(
	other_scale,
	TABLE("other_scale_t: .long 1f-other_scale_t\n") "push %rbx\npop %rbx\n"
							 "lea other_scale_t(%rip), %rdx\nmovslq (%rdx,%rax,8), %rax\nadd %rax, %rdx\njmp *%rdx\n1: ret");
FUNCTION(
	other_register,
	TABLE("other_register_t: .long 1f-other_register_t\n") "push %rbx\npop %rbx\n"
							       "lea other_register_t(%rip), %rdx\nmovslq (%rdx,%rax,4), %rax\nadd %rcx, %rdx\njmp *%rdx\n1: ret");
FUNCTION(
	no_table_load,
	TABLE("no_table_load_t: .long 1f-no_table_load_t\n") "push %rbx\npop %rbx\n"
							     "lea no_table_load_t(%rip), %rdx\nmovslq %eax, %rax\nadd %rax, %rdx\njmp *%rdx\n1: ret");
FUNCTION(loads_other, "push %rbx\npop %rbx\nmov (%rax), %rcx\njmp *%rdi");
/* The second table leads into the middle of the first one's code. */
FUNCTION(
	table_enters,
	TABLE("table_enters_t: .long 1f-table_enters_t\ntable_enters_u: .long 2f-table_enters_u, 0\n") "push %rbx\npop %rbx\nlea table_enters_t(%rip), %rdx\nmovslq (%rdx,%rax,4), %rax\n"
												       "2: add %rax, %rdx\njmp *%rdx\n1: " SWITCH(
													       table_enters_u));

TEST(tables_have_one_form)
{
	const char *why = "it has a jump that cannot be followed";
	struct code_function it = DECODE(*state, high_registers);

	assert_string_equal(it.no_time, "it never returns");
	it = DECODE(*state, other_scale);
	assert_not_timed(&it, why);
	it = DECODE(*state, other_register);
	assert_not_timed(&it, why);
	it = DECODE(*state, no_table_load);
	assert_not_timed(&it, why);
	it = DECODE(*state, loads_other);
	assert_not_timed(&it, why);
	it = DECODE(*state, table_enters);
	assert_not_timed(&it, why);
}

/* Thousands of jumps through one long table: each is read, but not without end. */
TEST(many_tables_are_given_up)
{
	enum { JUMPS = 4000, DISTANCES = 1000, VA = 0x10000 };
	static const uint8_t jump[] = { 0x48, 0x8d, 0x15, 0,	0,    0,    0,	  0x48,
					0x63, 0x04, 0x82, 0x48, 0x01, 0xc2, 0xff, 0xe2 };
	static struct {
		uint8_t code[JUMPS][sizeof(jump)];
		int32_t table[DISTANCES];
	} it;
	const struct code *code = *state;
	const struct code_bytes all = { .bytes = it.code[0], .n = sizeof(it), .va = VA };
	struct code_bytes bytes = { .bytes = it.code[0], .n = sizeof(jump), .va = VA };
	struct code_function function;
	struct code_file *file;

	for (int i = 0; i < JUMPS; i++) {
		/* from the end of the lea, which has 7 bytes */
		int32_t distance = (int32_t)sizeof(jump) * (JUMPS - i) - 7;

		memcpy(it.code[i], jump, sizeof(jump));
		memcpy(it.code[i] + 3, &distance, sizeof(distance));
	}
	for (int i = 0; i < DISTANCES; i++)
		it.table[i] = -(int32_t)sizeof(jump);
	assert_int_equal(code_file_open_memory(code->ctx, &all, 1, NULL, 0, &file), 0);
	/* One jump, to itself: the last one. */
	bytes.bytes = it.code[JUMPS - 1];
	bytes.va = VA + sizeof(jump) * (JUMPS - 1);
	assert_int_equal(code_function_decode(code->ctx, &bytes, file, &function), 0);
	assert_true(function.entry_is_loop);
	/* All of them. */
	bytes = (struct code_bytes){ .bytes = it.code[0], .n = sizeof(it.code), .va = VA };
	assert_int_equal(code_function_decode(code->ctx, &bytes, file, &function), 0);
	assert_not_timed(&function, "it has a jump that cannot be followed");
	code_file_close(file);
}

/* ---- ways that are none --------------------------------------------------------------------- */

/* The second word is no part of the table. Its way to the pop, with another depth, is none. */
FUNCTION(
	table_too_long,
	TABLE("table_too_long_t: .long 1f-table_too_long_t, 2f-table_too_long_t, 0\n") "je 3f\n" SWITCH(
		table_too_long_t) "1: ret\n3: push %rbx\n2: pop %rbx\nret");
/* The same, where the way that is none is seen first, and where another one comes with it. */
FUNCTION(table_first, TABLE("table_first_t: .long 2f-table_first_t, 0\n") "je 3f\n" SWITCH(
			      table_first_t) "3: push %rbx\nje 4f\n2: pop %rbx\nret\n4: jmp 2b");
/* The calls do not return. What is behind them is reached in other ways, before and after. */
FUNCTION(call_then_jump, "push %rax\nje 3f\ncall other\n1: ret\n3: pop %rax\njmp 1b");
FUNCTION(jump_then_call, "je 1f\npush %rax\ncall other\n1: ret");

TEST(ways_that_are_none_give_way)
{
	struct code_function it = DECODE(*state, table_too_long);

	assert_null(it.no_time);
	assert_int_equal(it.n_exits, 2);
	code_function_free(&it);
	it = DECODE(*state, table_first);
	assert_null(it.no_time);
	code_function_free(&it);
	it = DECODE(*state, call_then_jump);
	assert_null(it.no_time);
	code_function_free(&it);
	it = DECODE(*state, jump_then_call);
	assert_null(it.no_time);
	code_function_free(&it);
}
