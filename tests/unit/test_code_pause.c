// SPDX-License-Identifier: MIT
/* Where pauses begin and end: functions like those of the runtime, in this file's own code. */
#include "code_asm.h"

#include <errno.h>

#include "code/code_flow.h"

/* Find the pause in the function at START; THROUGH is NULL or the one that it must call. */
static int find(struct code *code, const char *start, size_t n, const char *through,
		struct code_pause *pause)
{
	/* The link-time address of `other` is known; the distance is that of the labels. */
	const uint64_t base = code->entries[0] - (uint64_t)(uintptr_t)other;
	struct code_bytes bytes;

	assert_int_equal(
		code_file_bytes(code->file, true, (uint64_t)(uintptr_t)start + base, n, &bytes), 0);
	return code_pause_find(code->ctx, &bytes, code->file,
			       through ? (uint64_t)(uintptr_t)through + base : 0, pause);
}

#define FIND(code, name, through, pause) find(code, name, SIZE(name), through, pause)

#define DISTANCE(label, name) ((uintptr_t)(label) - (uintptr_t)(name))
#define assert_pause(pause, name)                                                                  \
	do {                                                                                       \
		assert_int_equal((pause).begin, DISTANCE(name##_begin, name));                     \
		assert_int_equal((pause).end, DISTANCE(name##_finish, name));                      \
	} while (0)

/* A push, a loop, a branch with two ways on, a hook at the end. */
FUNCTION(slice, L(slice_begin) "push %rbx\nmov $3, %rbx\n1: dec %rbx\njne 1b\ncmp $1, %rax\nje 2f\n"
			       "call other\n2: sub $16, %rsp\ntest %rdx, %rdx\n" L(
				       slice_finish) "je 3f\ncall *%rdx\n3: add $16, %rsp\n"
						     "pop %rbx\nret");
LABEL(slice_begin);
LABEL(slice_finish);

ALL_TESTS(code_open_self, code_close_self);

TEST(what_each_call_executes_once)
{
	struct code_pause pause;

	assert_int_equal(FIND(*state, slice, NULL, &pause), 0);
	assert_pause(pause, slice);
	assert_int_equal(pause.begin_depth, 0);
	assert_int_equal(pause.end_depth, 24);
}

/* As caml_empty_minor_heap: nothing to do, or the work with a call, and one of two ends. */
FUNCTION(minor, "cmp %rax, %rdx\nje 9f\n" L(
			minor_begin) "push %rbx\ntest %rcx, %rcx\nje 1f\ncall *%rcx\n"
				     "1: call other\ntest %rax, %rax\n" L(
					     minor_finish) "je 2f\npop %rbx\njmp *%rax\n"
							   "2: pop %rbx\nret\n9: push %rbx\n"
							   "pop %rbx\nret");
LABEL(minor_begin);
LABEL(minor_finish);

TEST(what_calls_with_work_execute)
{
	struct code_pause pause;

	/* `jmp *%rax` cannot be followed. */
	assert_int_equal(FIND(*state, minor, other, &pause), -ENODATA);
}

FUNCTION(works, "cmp %rax, %rdx\nje 9f\n" L(
			works_begin) "push %rbx\ntest %rcx, %rcx\nje 1f\ncall *%rcx\n"
				     "1: call other\ntest %rax, %rax\n" L(
					     works_finish) "je 2f\npop %rbx\nret\n"
							   "2: pop %rbx\nret\n9: push %rbx\n"
							   "pop %rbx\nret");
LABEL(works_begin);
LABEL(works_finish);

TEST(only_calls_with_work)
{
	struct code_pause pause;

	assert_int_equal(FIND(*state, works, other, &pause), 0);
	assert_pause(pause, works);
	assert_int_equal(pause.begin_depth, 0);
	assert_int_equal(pause.end_depth, 8);
	/* Without this, the two ways have only the first branch in common. */
	assert_int_equal(FIND(*state, works, NULL, &pause), -ENODATA);
}

/*
 * The place of the call is in a loop; there are two calls; there is none; no branch; a loop only.
 */
FUNCTION(again, "push %rbx\n1: call other\ndec %rbx\njne 1b\npop %rbx\nret");
FUNCTION(twice, "push %rbx\ncall other\ncall other\npop %rbx\nret");
FUNCTION(never, "push %rbx\npop %rbx\nret");
FUNCTION(plain, "mov %rax, %rbx\nret");
FUNCTION(works_on, "push %rbx\ncall other\ntest %rax, %rax\njne 1f\ncall other\n1: pop %rbx\nret");
FUNCTION(jumps_on,
	 "push %rbx\ncall other\ntest %rax, %rax\njne 1f\npop %rbx\njmp other\n1: pop %rbx\nret");
FUNCTION(turns, "mov %rax, %rbx\n1: dec %rbx\njne 1b\nret");

TEST(what_cannot_be_found)
{
	struct code_pause pause;

	assert_int_equal(FIND(*state, twice, other, &pause), -ENODATA);
	assert_int_equal(FIND(*state, never, other, &pause), -ENODATA);
	assert_int_equal(FIND(*state, plain, NULL, &pause), -ENODATA);
	assert_int_equal(FIND(*state, turns, NULL, &pause), -ENODATA);
	/* As caml_compact_heap: a function is called after all that each call executes. */
	assert_int_equal(FIND(*state, works_on, NULL, &pause), -ENODATA);
	assert_int_equal(FIND(*state, jumps_on, NULL, &pause), -ENODATA);
	/* Only the push is executed once: it cannot be both ends. */
	assert_int_equal(FIND(*state, never, NULL, &pause), -ENODATA);
	assert_int_equal(FIND(*state, again, NULL, &pause), -ENODATA);
	assert_int_equal(FIND(*state, again, other, &pause), -ENODATA);
}
