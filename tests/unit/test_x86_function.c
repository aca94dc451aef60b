// SPDX-License-Identifier: MIT
/* Where functions are counted and end: functions of all kinds, in this file's own code. */
#include "code_asm.h"

/* ---- places --------------------------------------------------------------------------------- */

FUNCTION(pushes, L(pushes_place) "push %rbx\nmov %rax, %rbx\npop %rbx\n" L(pushes_exit1) "ret");
LABEL(pushes_place);
LABEL(pushes_exit1);

ALL_TESTS(code_open_self, code_close_self);

TEST(a_push_is_a_place)
{
	struct code_function it = DECODE(*state, pushes);

	assert_emulated(it, pushes, 0);
	assert_int_equal(it.entry_cost, CODE_EMULATED);
	assert_int_equal(it.n_exits, 1);
	assert_exit(&it, 0, pushes_exit1 - pushes, CODE_RET, CODE_STEPPED);
	code_function_free(&it);
}

/* What ocamlopt makes of an allocation: its jb is taken when the minor heap is full. */
FUNCTION(
	allocates,
	"sub $8, %rsp\n" L(allocates_again) "sub $16, %r15\ncmp (%r14), %r15\n" L(
		allocates_jb) "jb 2f\n1: lea 8(%r15), %rax\nadd $8, %rsp\n" L(allocates_exit1) "ret\n2: call other\njmp 1b");
LABEL(allocates_jb);
LABEL(allocates_exit1);

TEST(a_conditional_jump_is_a_place)
{
	struct code_function it = DECODE(*state, allocates);

	assert_null(it.no_count);
	assert_int_equal(it.place, allocates_jb - allocates);
	assert_int_equal(it.place_cost, CODE_EMULATED);
	assert_int_equal(it.place_depth, 8);
	assert_int_equal(it.entry_cost, CODE_STEPPED);
	assert_false(it.place_is_entry);
	assert_int_equal(it.n_exits, 1);
	assert_exit(&it, 0, allocates_exit1 - allocates, CODE_RET, CODE_STEPPED);
	code_function_free(&it);
}

FUNCTION(recurses,
	 "sub $24, %rsp\nmov %rax, (%rsp)\n" L(recurses_place) "call recurses\nadd $24, %rsp\n" L(
		 recurses_exit1) "ret");
LABEL(recurses_place);
LABEL(recurses_exit1);

/* Its call of itself is one of its calls. */
TEST(a_call_is_a_place)
{
	struct code_function it = DECODE(*state, recurses);

	assert_emulated(it, recurses, 24);
	assert_false(it.entry_is_loop);
	assert_exit(&it, 0, recurses_exit1 - recurses, CODE_RET, CODE_STEPPED);
	code_function_free(&it);
}

FUNCTION(far_push, "endbr64\nmov %rsp, %rax\n" L(far_push_place) "push %r12\npop %r12\nret");
LABEL(far_push_place);
FUNCTION(odd_pushes, "pushq (%rax)\npushq $1\nadd $16, %rsp\nret");

TEST(only_pushes_of_registers_are_emulated)
{
	struct code_function it = DECODE(*state, far_push);

	assert_emulated(it, far_push, 0);
	code_function_free(&it);
	it = DECODE(*state, odd_pushes);
	assert_entry(&it);
	assert_null(it.no_time);
	code_function_free(&it);
}

FUNCTION(jumps_over, "mov %rax, %rbx\n" L(jumps_over_place) "jmp 1f\nud2\n1: ret");
LABEL(jumps_over_place);

TEST(a_jump_is_a_place)
{
	struct code_function it = DECODE(*state, jumps_over);

	assert_emulated(it, jumps_over, 0);
	assert_int_equal(it.n_exits, 1);
	code_function_free(&it);
}

FUNCTION(loops, "mov %rax, %rbx\n1: dec %rbx\njne 1b\nret");
FUNCTION(loops_to_place, "mov %rax, %rbx\n1: jne 2f\ndec %rbx\njmp 1b\n2: ret");
FUNCTION(loops_behind,
	 "mov %rax, %rbx\n" L(loops_behind_place) "push %rbx\n1: dec %rbx\njne 1b\npop %rbx\nret");
LABEL(loops_behind_place);

/* What a loop executes again is no place. */
TEST(loops_hold_no_place)
{
	struct code_function it = DECODE(*state, loops);

	assert_entry(&it);
	assert_null(it.no_time);
	code_function_free(&it);
	it = DECODE(*state, loops_to_place);
	assert_entry(&it);
	code_function_free(&it);
	it = DECODE(*state, loops_behind);
	assert_emulated(it, loops_behind, 0);
	code_function_free(&it);
}

FUNCTION(loops_to_entry, "push %rax\npop %rax\ndec %rax\njne loops_to_entry\nret");

TEST(a_jump_to_the_entry_forbids_to_count)
{
	struct code_function it = DECODE(*state, loops_to_entry);

	assert_true(it.entry_is_loop);
	assert_string_equal(it.no_count, "a jump in it leads to its first instruction");
	assert_not_timed(&it, it.no_count);
	code_function_free(&it);
}

FUNCTION(calls_closure, "sub $8, %rsp\ncall *(%rax)\npush %rax\npop %rax\nadd $8, %rsp\nret");
FUNCTION(returns_first, "test %rax, %rax\nret\npush %rax\nud2");

/* The call can end by an exception; what follows is not executed by every call. */
TEST(what_can_end_the_call_ends_the_search)
{
	struct code_function it = DECODE(*state, calls_closure);

	assert_entry(&it);
	code_function_free(&it);
	it = DECODE(*state, returns_first);
	assert_entry(&it);
	assert_int_equal(it.n_exits, 1);
	code_function_free(&it);
}

FUNCTION(has_probe, "mov %rax, %rbx\nnop\ncmp $0x12345678, %eax\npush %rax\npop %rax\nret");
FUNCTION(has_nop,
	 "mov %rax, %rbx\nnop\ncmp $1, %ebx\n" L(has_nop_place) "push %rax\npop %rax\nret");
LABEL(has_nop_place);

/* The nop of a site belongs to the probe, and its handler is called behind it. */
TEST(a_probe_ends_the_search)
{
	struct code_function it = DECODE(*state, has_probe);

	assert_entry(&it);
	code_function_free(&it);
	it = DECODE(*state, has_nop);
	assert_emulated(it, has_nop, 0);
	code_function_free(&it);
}

FUNCTION(locks, "lock incl (%rdi)\nret");
FUNCTION(traps, "ud2");
FUNCTION(copies, "rep movsb\nret");
FUNCTION(locks_first, "lock incl (%rdi)\n" L(locks_first_place) "je 1f\nret\n1: ret");
LABEL(locks_first_place);
FUNCTION(locks_and_jumps, "lock incl (%rdi)\n" L(locks_and_jumps_place) "jmp other");
LABEL(locks_and_jumps_place);
FUNCTION(loads_vector, "vmovdqu (%rdi), %ymm0\nret");

TEST(the_kernel_refuses_instructions)
{
	struct code_function it = DECODE(*state, locks);

	assert_string_equal(it.no_count, "the kernel cannot probe its first instruction");
	assert_not_timed(&it, it.no_count);
	it = DECODE(*state, traps);
	assert_string_equal(it.no_count, "the kernel cannot probe its first instruction");
	it = DECODE(*state, loads_vector);
	assert_string_equal(it.no_count, "the kernel cannot probe its first instruction");
	it = DECODE(*state, locks_first);
	assert_emulated(it, locks_first, 0);
	assert_string_equal(it.no_entry, "the kernel cannot probe its first instruction");
	assert_null(it.no_time);
	code_function_free(&it);
	it = DECODE(*state, locks_and_jumps);
	assert_emulated(it, locks_and_jumps, 0);
	assert_not_timed(&it, it.no_entry);
	it = DECODE(*state, copies);
	assert_string_equal(it.no_count, "its first instruction repeats itself");
}

/* ---- exits ---------------------------------------------------------------------------------- */

FUNCTION(
	tail_jumps,
	"sub $8, %rsp\n" L(tail_jumps_place) "je 1f\nadd $8, %rsp\n" L(
		tail_jumps_exit1) "jmp other\n1: mov (%rbx), %rdi\nadd $8, %rsp\n" L(tail_jumps_exit2) "jmp *%rdi");
LABEL(tail_jumps_place);
LABEL(tail_jumps_exit1);
LABEL(tail_jumps_exit2);

TEST(tail_jumps_are_exits)
{
	struct code_function it = DECODE(*state, tail_jumps);

	assert_emulated(it, tail_jumps, 8);
	assert_int_equal(it.n_exits, 2);
	assert_exit(&it, 0, tail_jumps_exit1 - tail_jumps, CODE_TAIL_JUMP, CODE_EMULATED);
	assert_exit(&it, 1, tail_jumps_exit2 - tail_jumps, CODE_TAIL_JUMP, CODE_STEPPED);
	code_function_free(&it);
}

FUNCTION(only_jumps, L(only_jumps_place) "jmp other");
LABEL(only_jumps_place);
FUNCTION(moves_and_jumps, "mov %rax, %rbx\n" L(moves_and_jumps_place) "jmp other");
LABEL(moves_and_jumps_place);

TEST(a_place_can_be_an_exit)
{
	struct code_function it = DECODE(*state, only_jumps);

	assert_emulated(it, only_jumps, 0);
	assert_not_timed(&it, "it only jumps to another function");
	it = DECODE(*state, moves_and_jumps);
	assert_emulated(it, moves_and_jumps, 0);
	assert_true(it.time_from_entry);
	assert_null(it.no_entry);
	assert_exit(&it, 0, it.place, CODE_TAIL_JUMP, CODE_EMULATED);
	code_function_free(&it);
}

FUNCTION(
	raises,
	L(raises_place) "je 1f\nret\n1: sub $8, %rsp\nmov 16(%r14), %rsp\npop 16(%r14)\npop %r11\n" L(
		raises_exit2) "jmp *%r11");
LABEL(raises_place);
LABEL(raises_exit2);

TEST(a_raise_is_an_exit)
{
	struct code_function it = DECODE(*state, raises);

	assert_emulated(it, raises, 0);
	assert_int_equal(it.n_exits, 2);
	assert_exit(&it, 1, raises_exit2 - raises, CODE_RAISE, CODE_STEPPED);
	assert_false(it.exits[1].depth_known);
	code_function_free(&it);
}

/* The handler runs with rsp as it was before the first push. */
FUNCTION(tries, "sub $8, %rsp\nlea 1f(%rip), %r11\n" L(
			tries_place) "push %r11\npush 16(%r14)\nmov %rsp, 16(%r14)\ncall other\n"
				     "pop 16(%r14)\nadd $16, %rsp\nret\n1: add $8, %rsp\nret");
LABEL(tries_place);
/* Nothing says what is where the stack was. */
FUNCTION(takes_address, "push %rbx\nlea 1f(%rip), %r11\npop %rbx\nret\n1: ret");

TEST(handlers_are_entered_by_exceptions)
{
	struct code_function it = DECODE(*state, tries);

	assert_emulated(it, tries, 8);
	assert_null(it.no_time);
	assert_int_equal(it.n_exits, 2);
	code_function_free(&it);
	it = DECODE(*state, takes_address);
	assert_not_timed(&it, "its stack depth is unknown where it ends");
}

/*
 * Calls of what never returns, from the body of a try and from outside: the code behind each is not
 * its own. The last one is padded.
 */
FUNCTION(bounds, "sub $8, %rsp\nje 2f\npush %rax\npush %rax\nje 1f\nadd $24, %rsp\nret\n"
		 "1: call other\n2: call other\nnop\nnopl (%rax)");

TEST(calls_need_not_return)
{
	struct code_function it = DECODE(*state, bounds);

	assert_null(it.no_time);
	assert_int_equal(it.n_exits, 1);
	code_function_free(&it);
}

FUNCTION(never_returns, "sub $8, %rsp\ncall other");
FUNCTION(dead_code, "push %rax\n1: jmp 1b\nret");

TEST(some_never_return)
{
	struct code_function it = DECODE(*state, never_returns);

	assert_null(it.no_count);
	assert_int_equal(it.place_cost, CODE_EMULATED);
	assert_not_timed(&it, "it never returns");
	it = DECODE(*state, dead_code);
	assert_null(it.no_count);
	assert_not_timed(&it, "it never returns");
}

/* All that moves rsp, as OCaml does: its version 5 calls C functions on another stack. */
FUNCTION(moves_stack, "push %rbx\nlea -16(%rsp), %rsp\nsub $0x100, %rsp\nmov %rsp, %rbx\n"
		      "mov 64(%r14), %rsp\ncall other\nmov %rbx, %rsp\nadd $0x110, %rsp\n"
		      "pop %rbx\nret");
FUNCTION(calls_c, "mov %rsp, %rbx\nmov 64(%r14), %rsp\n" L(calls_c_place) "call other\n"
									  "mov %rbx, %rsp\nret");
LABEL(calls_c_place);
FUNCTION(loses_stack, "push %rbx\nand $-16, %rsp\npop %rbx\nret");
FUNCTION(overwrites_saved,
	 "mov %rsp, %rbx\nmov 64(%r14), %rsp\nmov %rax, %rbx\nmov %rbx, %rsp\nret");
FUNCTION(caller_saved, "mov %rsp, %r11\nmov 64(%r14), %rsp\ncall other\nmov %r11, %rsp\nret");
FUNCTION(unbalanced, "je 1f\npush %rax\n1: ret");
FUNCTION(pops_much, "push %rbx\npop %rax\npop %rax\nret");

TEST(the_depth_is_known_or_not)
{
	const char *unknown = "its stack depth is unknown where it ends";
	struct code_function it = DECODE(*state, moves_stack);

	assert_null(it.no_time);
	assert_int_equal(it.n_exits, 1);
	code_function_free(&it);
	it = DECODE(*state, calls_c);
	assert_emulated(it, calls_c, 0);
	assert_true(it.time_from_entry);
	assert_null(it.no_time);
	code_function_free(&it);
	it = DECODE(*state, loses_stack);
	assert_not_timed(&it, unknown);
	it = DECODE(*state, overwrites_saved);
	assert_not_timed(&it, unknown);
	it = DECODE(*state, caller_saved);
	assert_not_timed(&it, unknown);
	it = DECODE(*state, unbalanced);
	assert_not_timed(&it, unknown);
	it = DECODE(*state, pops_much);
	assert_not_timed(&it, unknown);
}

FUNCTION(notrack, "push %rbx\npop %rbx\nmov (%rax), %rax\nnotrack jmp *%rax");

TEST(the_kernel_refuses_exits)
{
	struct code_function it = DECODE(*state, notrack);

	assert_null(it.no_count);
	assert_not_timed(&it, "the kernel cannot probe an instruction that ends it");
}

/* ---- what is not understood ----------------------------------------------------------------- */

FUNCTION(jumps_away, "mov %rax, %rbx\npush %rbx\npop %rbx\njmp elsewhere");
FUNCTION(may_jump_away, "mov %rax, %rbx\npush %rbx\npop %rbx\nje other\nret");
FUNCTION(calls_itself, "mov %rax, %rbx\npush %rbx\ncall 1f\n1: pop %rbx\npop %rbx\nret");
FUNCTION(elsewhere_start, "nop\n" L(elsewhere) "ret");

/* Code elsewhere can come back to anywhere. */
TEST(code_elsewhere_is_not_known)
{
	struct code_function it = DECODE(*state, jumps_away);

	assert_entry(&it);
	assert_not_timed(&it, "it jumps to code that is not a function");
	it = DECODE(*state, may_jump_away);
	assert_entry(&it);
	assert_not_timed(&it, "it jumps to code that is not a function");
	it = DECODE(*state, calls_itself);
	assert_entry(&it);
	assert_not_timed(&it, "it calls a part of itself");
}

FUNCTION(jumps_inside, "mov %rax, %rbx\npush %rbx\npop %rbx\nje 1f+1\n1: mov %rax, %rbx\nret");
FUNCTION(bad_byte, "mov %rax, %rbx\npush %rbx\npop %rbx\n.byte 0x06\nret");
FUNCTION(bad_byte_loop, "mov %rax, %rbx\n.byte 0x06\nmov $1, %al\njmp bad_byte_loop\nret");
FUNCTION(bad_byte_near, "mov %rax, %rbx\n.byte 0x06, 0xe9\n.long bad_byte_near - . - 4\nret");
FUNCTION(hidden_loop, "mov %rax, %rbx\nje 1f+1\n1: .byte 0xb8\njmp hidden_loop\nnop\nnop\nret");
FUNCTION(word_jump, "mov %rax, %rbx\npush %rbx\npop %rbx\n.byte 0x66, 0xe9, 1, 0, 0, 0\nret");

TEST(bytes_that_are_no_code)
{
	struct code_function it = DECODE(*state, jumps_inside);

	assert_entry(&it);
	assert_not_timed(&it, "a jump leads into the middle of an instruction");
	it = DECODE(*state, bad_byte);
	assert_entry(&it);
	assert_not_timed(&it, "its code cannot be decoded");
	it = DECODE(*state, word_jump);
	assert_entry(&it);
	assert_not_timed(&it, "its code cannot be decoded");
	/* Behind the bad byte stands what may be a jump to the entry. */
	it = DECODE(*state, bad_byte_loop);
	assert_string_equal(it.no_count, "its code cannot be decoded");
	it = DECODE(*state, bad_byte_near);
	assert_string_equal(it.no_count, "its code cannot be decoded");
	it = DECODE(*state, hidden_loop);
	assert_string_equal(it.no_count, "a jump leads into the middle of an instruction");
}

FUNCTION(runs_past, "push %rax\npop %rax\nnop");

TEST(code_that_is_cut_off)
{
	struct code_function it = DECODE(*state, runs_past);

	assert_null(it.no_count);
	assert_int_equal(it.place, 0);
	assert_not_timed(&it, "its code runs past its end");
	/* The first byte of `mov %rax, %rbx`. */
	it = code_decode(*state, bad_byte, 1);
	assert_string_equal(it.no_count, "its code cannot be decoded");
	it = code_decode(*state, bad_byte, 0);
	assert_string_equal(it.no_count, "it has no code");
	/* In the middle of the last instruction. */
	it = code_decode(*state, allocates, SIZE(allocates) - 1);
	assert_entry(&it);
	assert_not_timed(&it, "its code cannot be decoded");
}

/* As Flambda makes them: the parts of a tuple, behind a check whether the collector waits. */
FUNCTION(passes_on,
	 "sub $8, %rsp\ncmp (%r14), %r15\njbe 2f\n1: mov 8(%rax), %rbx\nmov (%rax), %rax\n"
	 "add $8, %rsp\njmp other\n2: call other\njmp 1b");
FUNCTION(passes_on_at_once, "mov %rbx, %rax\njmp other");
FUNCTION(calls_first, "sub $8, %rsp\ncall other\nadd $8, %rsp\njmp other");
FUNCTION(chooses, "cmp $1, %rax\nje 1f\nmov %rbx, %rax\n1: jmp other");
FUNCTION(returns_or_jumps, "cmp $1, %rax\nje 1f\njmp other\n1: ret");
FUNCTION(jumps_to_pointer, "mov (%rbx), %rdi\njmp *%rdi");

static void check_only_jump(struct code *code, struct code_function it, bool jumps)
{
	assert_int_equal(it.only_jumps_to, jumps ? code->entries[0] : 0);
	code_function_free(&it);
}

TEST(wrappers_only_jump)
{
	check_only_jump(*state, DECODE(*state, passes_on), true);
	check_only_jump(*state, DECODE(*state, passes_on_at_once), true);
	check_only_jump(*state, DECODE(*state, calls_first), false);
	check_only_jump(*state, DECODE(*state, chooses), false);
	check_only_jump(*state, DECODE(*state, returns_or_jumps), false);
	check_only_jump(*state, DECODE(*state, jumps_to_pointer), false);
}

TEST(too_large_a_function)
{
	struct code *code = *state;
	struct code_bytes bytes = { .bytes = (const uint8_t *)other, .n = (4u << 20) + 1, .va = 0 };
	struct code_function it;

	assert_int_equal(code_function_decode(code->ctx, &bytes, code->file, &it), 0);
	assert_string_equal(it.no_count, "its code is larger than 4 MiB");
	assert_not_timed(&it, it.no_count);
}
