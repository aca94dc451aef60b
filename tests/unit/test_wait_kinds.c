// SPDX-License-Identifier: MIT
/* What the functions of a stack say about its wait. */
#include <string.h>

#include "profile/wait_kinds.h"
#include "unit.h"

enum { MAX_FRAMES = 8 };

/* The kind of the wait whose stack has the functions NAMES, outermost first, of the kinds KINDS. */
static enum wait_kind kind_of(size_t n, const char *const *names, const enum frame_kind *kinds)
{
	struct named_frame frames[MAX_FRAMES];
	const struct named_frame *pointers[MAX_FRAMES];
	struct named_stack stack = { .frames = pointers, .n = n };

	for (size_t i = 0; i < n; i++) {
		frames[i] = (struct named_frame){ .function = names[i], .kind = kinds[i] };
		pointers[i] = &frames[i];
	}
	return wait_kind_of(&stack);
}

/* The kind of a wait in the function NAME of KIND, called by OCaml code. */
static enum wait_kind kind_in(const char *name, enum frame_kind kind)
{
	const char *names[] = { "main", "Service.run", name };
	const enum frame_kind kinds[] = { FRAME_C, FRAME_OCAML, kind };

	return kind_of(3, names, kinds);
}

TEST(one_function_tells)
{
	assert_int_equal(kind_in("caml_leave_blocking_section", FRAME_C), WAIT_RUNTIME_LOCK);
	assert_int_equal(kind_in("thread_yield", FRAME_C), WAIT_RUNTIME_LOCK);
	assert_int_equal(kind_in("caml_ml_condition_wait", FRAME_C), WAIT_CONDITION);
	assert_int_equal(kind_in("Thread.delay", FRAME_OCAML), WAIT_SLEEP);
	assert_int_equal(kind_in("caml_unix_waitpid", FRAME_C), WAIT_END);
	assert_int_equal(kind_in("caml_thread_tick", FRAME_C), WAIT_RUNTIME_THREAD);
	assert_int_equal(kind_in("__read_nocancel", FRAME_C), WAIT_INPUT);
	assert_int_equal(kind_in("epoll_pwait", FRAME_C), WAIT_INPUT);
	assert_int_equal(kind_in("epoll_pwait2", FRAME_C), WAIT_INPUT);
	assert_int_equal(kind_in("hrtimer_nanosleep", FRAME_KERNEL), WAIT_SLEEP);
	assert_int_equal(kind_in("exc_page_fault", FRAME_KERNEL), WAIT_MEMORY);
}

/* A name that only begins like one in the rules, or only ends so, is another one. */
TEST(other_functions_do_not_tell)
{
	assert_int_equal(kind_in("caml_alloc_shr", FRAME_C), WAIT_OTHER);
	assert_int_equal(kind_in("reader", FRAME_C), WAIT_OTHER);
	assert_int_equal(kind_in("rea", FRAME_C), WAIT_OTHER);
	assert_int_equal(kind_in("epoll_create", FRAME_C), WAIT_OTHER);
	assert_int_equal(kind_in("[libc.so.6+0x1234]", FRAME_UNKNOWN), WAIT_OTHER);
}

/* A function of OCaml may have any name. */
TEST(names_of_the_system_are_not_ocaml)
{
	assert_int_equal(kind_in("read", FRAME_OCAML), WAIT_OTHER);
	assert_int_equal(kind_in("Thread.delay", FRAME_OCAML), WAIT_SLEEP);
}

/*
 * The lock of the runtime is a condition and a mutex, and a thread may wait for it at the end of a
 * wait for another mutex.
 */
TEST(innermost_function_of_the_runtime_decides)
{
	const char *const lock[] = { "Mutex.lock", "caml_ml_mutex_lock",
				     "caml_leave_blocking_section", "pthread_cond_wait" };
	const char *const mutex[] = { "Thread.join", "caml_thread_join", "caml_ml_mutex_lock",
				      "pthread_mutex_lock" };
	const enum frame_kind kinds[] = { FRAME_OCAML, FRAME_C, FRAME_C, FRAME_C };

	assert_int_equal(kind_of(4, lock, kinds), WAIT_RUNTIME_LOCK);
	assert_int_equal(kind_of(4, mutex, kinds), WAIT_MUTEX);
	assert_int_equal(kind_of(2, lock, kinds), WAIT_MUTEX);
}

/* Also a function that waits for other things may touch a page that is not in memory. */
TEST(page_fault_in_any_function)
{
	const char *const names[] = { "caml_stw_empty_minor_heap", "memmove", "exc_page_fault",
				      "io_schedule" };
	const enum frame_kind kinds[] = { FRAME_C, FRAME_C, FRAME_KERNEL, FRAME_KERNEL };

	assert_int_equal(kind_of(4, names, kinds), WAIT_MEMORY);
	assert_int_equal(kind_of(2, names, kinds), WAIT_DOMAINS);
}

/* The text of a thread is no function. */
TEST(thread_is_no_function)
{
	const char *const names[] = { "read", "main" };
	const enum frame_kind kinds[] = { FRAME_THREAD, FRAME_C };

	assert_int_equal(kind_of(2, names, kinds), WAIT_OTHER);
}

TEST(stacks_are_summed_by_kind)
{
	const struct named_frame sleep = { .function = "nanosleep", .kind = FRAME_C };
	const struct named_frame other = { .function = "main", .kind = FRAME_C };
	const struct named_frame *of_sleep[] = { &other, &sleep }, *of_other[] = { &other };
	struct named_stack stacks[] = { { .frames = of_sleep, .n = 2, .samples = 2, .value = 70 },
					{ .frames = of_other, .n = 1, .samples = 1, .value = 5 },
					{ .frames = of_sleep, .n = 2, .samples = 3, .value = 4 } };
	const struct profile profile = { .kind = PROFILE_WAITS, .stacks = stacks, .n = 3 };
	struct wait_sum sums[N_WAIT_KINDS];

	memset(sums, 0xff, sizeof(sums));
	wait_kinds_sum(&profile, sums);
	for (size_t i = 0; i < N_WAIT_KINDS; i++) {
		assert_int_equal(sums[i].samples, i == WAIT_SLEEP ? 5 : i == WAIT_OTHER);
		assert_int_equal(sums[i].ns, i == WAIT_SLEEP ? 74 : i == WAIT_OTHER ? 5 : 0);
	}
}

TEST(kinds_have_different_names)
{
	for (size_t i = 0; i < N_WAIT_KINDS; i++)
		for (size_t j = 0; j < i; j++) {
			assert_string_not_equal(wait_kind_name(i), wait_kind_name(j));
			assert_string_not_equal(wait_kind_text(i), wait_kind_text(j));
		}
}
