// SPDX-License-Identifier: MIT
/* Where a thread waits: /proc/PID/task/TID/syscall, as text, and of a live process. */
#include "unit.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "look/proc_file.h"

TEST(texts)
{
	struct proc_wait_place place;

	assert_true(proc_wait_place_parse("230 0x0 0x0 0x7f00 0x0 0x0 0x77 0x7ffe80 0x7f03545\n",
					  &place));
	assert_int_equal(place.rsp, 0x7ffe80);
	assert_int_equal(place.rip, 0x7f03545);
	/* a page fault */
	assert_true(proc_wait_place_parse("-1 0x7ffe80 0x401000\n", &place));
	assert_int_equal(place.rsp, 0x7ffe80);
	assert_int_equal(place.rip, 0x401000);
	assert_false(proc_wait_place_parse("running\n", &place));
	assert_false(proc_wait_place_parse("-1 0x401000\n", &place));
	assert_false(proc_wait_place_parse(" 0x401000\n", &place));
	assert_false(proc_wait_place_parse("", &place));
}

/* Read the place where CHILD waits. */
static bool read_place(pid_t child, struct proc_wait_place *place)
{
	char path[64], text[256] = "";
	FILE *file;

	snprintf(path, sizeof(path), "/proc/%d/syscall", (int)child);
	file = fopen(path, "r");
	assert_non_null(file);
	assert_non_null(fgets(text, sizeof(text), file));
	fclose(file);
	return proc_wait_place_parse(text, place);
}

/* The child waits in pause(2), below a variable whose address both know. */
TEST(a_child)
{
	volatile char here = 0;
	struct proc_wait_place place;
	const pid_t child = fork();

	assert_true(child >= 0);
	while (!child)
		syscall(SYS_pause, &here);
	while (!read_place(child, &place))
		;
	assert_true(place.rsp < (uintptr_t)&here && (uintptr_t)&here - place.rsp < 4096);
	assert_true(place.rip > (uintptr_t)&syscall);
	assert_true(place.rip < (uintptr_t)&syscall + 64);
	assert_int_equal(kill(child, SIGKILL), 0);
	assert_int_equal(waitpid(child, NULL, 0), child);
}
