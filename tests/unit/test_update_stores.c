// SPDX-License-Identifier: MIT
/*
 * Updates of many probes that the process carries out by its own stores, and of processes that
 * cannot.
 */
#include "unit.h"
#include "updated_process.h"

#include <stdio.h>
#include <string.h>
#include <sys/types.h>

#include "change/inside/block.h"
#include "proc_self.h"
#include "swapped_file.h"
#include "look/maps.h"

static int start(void **state)
{
	(void)state;
	return start_child(FREE);
}

EACH_TEST(start, end_update);

static int start_filtered(void **state)
{
	(void)state;
	return start_child(FILTERED);
}

static int start_without_writable_code(void **state)
{
	(void)state;
	return start_child(NO_WRITABLE_CODE);
}

/* No code of the process can be written, and no memory of ours is mapped. */
static void check_memory(void)
{
	struct maps maps;

	assert_int_equal(maps_read(t.ctx, t.pid, &maps), 0);
	for (size_t i = 0; i < maps.n; i++) {
		assert_false(maps.mappings[i].writable && maps.mappings[i].executable);
		assert_null(strstr(maps.mappings[i].path, STORES_NAME));
	}
	maps_free(&maps);
}

TEST(many_probes_are_switched_in_one_stop)
{
	const int n_threads = count_threads();
	const int n_fds = count_entries("/proc/self/fd");
	char theirs[64];
	int n_theirs;

	snprintf(theirs, sizeof(theirs), "/proc/%d/fd", (int)t.pid);
	n_theirs = count_entries(theirs);
	for (int round = 0; round < 20; round++) {
		ask_for(round % 2 == 0);
		from_now_on();
		assert_int_equal(update(0), 0);
		check_all(round % 2 == 0, N);
		assert_int_equal(t.calls[APPLY], 0);
		assert_int_equal(t.calls[STOP], 1);
		assert_int_equal(t.calls[COMMIT], 1);
		check_memory();
		assert_int_equal(count_journals(), 0);
	}
	await_threads(n_threads);
	assert_int_equal(count_entries("/proc/self/fd"), n_fds);
	assert_int_equal(count_entries(theirs), n_theirs);
}

TEST(many_probes_are_undone_in_one_stop)
{
	struct ocp_undo *undo;

	assert_int_equal(ocp_process_update_undoable(t.proc, t.actions, 0, &undo), 0);
	check_all(true, N);
	from_now_on();
	assert_int_equal(ocp_undo_run(undo), 0);
	assert_int_equal(t.calls[STOP], 1);
	assert_int_equal(t.calls[APPLY], 0);
	ocp_undo_free(undo);
	check_all(false, N);
	check_memory();
	assert_int_equal(count_journals(), 0);
}

remote_syscall_fn __real_remote_syscall, __wrap_remote_syscall;
int __wrap_remote_syscall(struct remote *remote, long number, const uint64_t args[6],
			  int64_t *result)
{
	return swapped_file_call(__real_remote_syscall, remote, number, args, result);
}

static int start_with_file(void **state)
{
	swapped_file_make();
	return start(state);
}

static int end_with_file(void **state)
{
	swapped_file_remove();
	return end_update(state);
}

/* The process does not run what it has mapped: the tool writes. */
TEST_WITH(another_file_in_place_of_the_image, start_with_file, end_with_file)
{
	static const enum swap_moment moments[] = { SWAP_AFTER_CREATE, SWAP_BEFORE_MAP };

	for (size_t i = 0; i < 2; i++) {
		from_now_on();
		swapped_file_at(moments[i], 1);
		assert_int_equal(update(0), 0);
		assert_int_equal(swapped_file_swaps(), 1);
		assert_int_equal(t.calls[APPLY], 2);
		assert_non_null(strstr(t.log, "another process"));
		check_all(true, N);
		swapped_file_assert_untouched(t.pid);
		check_memory();
		swapped_file_at(SWAP_NEVER, 0);
		switch_off();
		t.log[0] = '\0';
	}
	assert_int_equal(count_journals(), 0);
}

/*
 * A counter of another size, and an order of phases that the kernel's half of the semaphore
 * survives.
 */
TEST(own_stores_write_two_bytes)
{
	for (size_t i = 0; i < N; i++) {
		poke(counter_of(i) - 2, 0xabcd, 2);
		poke(counter_of(i), 0x00ff, 2);
		poke(opcode_of(i), ON, 1);
	}
	/* The sites of half of the probes disagree. */
	for (size_t i = 0; i < N; i += 2)
		poke(opcode_of(i), OFF, 1);
	poke(counter_of(0), 0xfffe, 2);
	from_now_on();
	assert_int_equal(update(0), 0);
	assert_int_equal(t.calls[APPLY], 0);
	for (size_t i = 0; i < N; i++) {
		assert_int_equal(peek(counter_of(i) - 2, 2), 0xabcd);
		assert_int_equal(peek(counter_of(i), 2), i ? 0x100 : 0xffff);
		assert_int_equal(peek(opcode_of(i), 1), ON);
		assert_int_equal(peek(opcode_of(i) - 1, 1), 0x90);
	}
	check_memory();
}

/* What cannot be stored is written byte by byte, in slices; nothing was written before. */
TEST_WITH(without_writable_code_it_is_written_byte_by_byte, start_without_writable_code, end_update)
{
	from_now_on();
	assert_int_equal(update(0), 0);
	check_all(true, N);
	assert_int_equal(t.calls[APPLY], 2);
	assert_int_equal(t.calls[STOP], 1 + 2);
	assert_int_equal(t.done[t.calls[PROGRESS] - 1], FIRST_SLICE);
	assert_non_null(strstr(t.log, "mprotect in the process: Permission denied; "
				      "writing byte by byte"));
	check_memory();
	switch_off();
	assert_int_equal(update(OCP_ATOMICALLY), 0);
	check_all(true, N);
	assert_int_equal(count_journals(), 0);
}

TEST_WITH(with_a_filter_it_is_written_byte_by_byte, start_filtered, end_update)
{
	from_now_on();
	assert_int_equal(update(0), 0);
	check_all(true, N);
	assert_int_equal(t.calls[STOP], 2);
	assert_non_null(strstr(t.log, "it has a seccomp filter, which could kill it for a system "
				      "call of ours; writing byte by byte"));
}
