// SPDX-License-Identifier: MIT
/* What it takes the watch to find processes, tick after tick: /proc is read once for all. */
#include <dirent.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "measured_child.h"
#include "watched_program.h"

ALONE;

enum { PROGRAMS = 3 };

static unsigned int n_listings, n_told;

/* In place of the C library's. */
WRAP(DIR *, opendir, (const char *name), (name))
{
	const int fd = open(name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	n_listings += strcmp(name, "/proc") == 0;
	return fd < 0 ? NULL : fdopendir(fd);
}

static unsigned int listings_of_a_tick(struct watching *w)
{
	n_listings = 0;
	tick(w);
	return n_listings;
}

ALL_TESTS(set_up_program, tear_down_program);

TEST(test_processes_are_listed_once)
{
	char names[PROGRAMS][80];
	struct watch_spec specs[PROGRAMS + 1];
	struct running running[PROGRAMS], single = start(program);
	struct watching w;

	for (size_t i = 0; i < PROGRAMS; i++) {
		snprintf(names[i], sizeof(names[i]), "%s-%zu", program, i);
		copy_program(names[i]);
		specs[i] = (struct watch_spec){ .exe = names[i], .request = &count_all };
	}
	specs[PROGRAMS] = (struct watch_spec){ .pid = single.pid, .request = &count_all };
	w = watch_it(specs, PROGRAMS + 1, false);
	quit(&single);
	tick(&w);
	for (size_t i = 0; i < PROGRAMS; i++)
		running[i] = start(names[i]);
	assert_int_equal(listings_of_a_tick(&w), 1);
	for (size_t i = 0; i < PROGRAMS; i++) {
		assert_int_equal(watch_target(w.watch, i)->n_pids, 1);
		assert_int_equal(watch_target(w.watch, i)->pids[0], running[i].pid);
		quit(&running[i]);
	}
	assert_int_equal(listings_of_a_tick(&w), 1);
	for (size_t i = 0; i < PROGRAMS; i++) {
		assert_int_equal(watch_target(w.watch, i)->n_pids, 0);
		unlink(names[i]);
	}
	end(&w);
}

/* Nobody but the process that is measured is looked at. */
TEST(test_one_process_takes_no_list)
{
	struct running running = start(program);
	const struct watch_spec spec = { .pid = running.pid, .request = &count_all };
	struct watching w = watch_it(&spec, 1, false);

	assert_int_equal(listings_of_a_tick(&w), 0);
	quit(&running);
	end(&w);
}

/* ---- processes that hide -------------------------------------------------------------------- */

/* Without this capability a process may not inspect processes that have more capabilities. */
static void set_ptrace_capability(bool on)
{
	struct __user_cap_header_struct header = { .version = _LINUX_CAPABILITY_VERSION_3 };
	struct __user_cap_data_struct data[2];

	assert_int_equal(syscall(SYS_capget, &header, data), 0);
	if (on)
		data[0].effective |= 1U << CAP_SYS_PTRACE;
	else
		data[0].effective &= ~(1U << CAP_SYS_PTRACE);
	assert_int_equal(syscall(SYS_capset, &header, data), 0);
}

static void count_told(void *data, enum ocp_log_level level, const char *line)
{
	(void)data;
	(void)level;
	n_told += strstr(line, "may not be inspected") != NULL;
}

TEST(test_hidden_processes_are_told_of_once)
{
	struct running running = start(program), next;
	const struct watch_spec spec = { .pid = running.pid, .request = &count_all };
	struct watching w = watch_it(&spec, 1, false);

	ocp_ctx_set_log(w.ctx, count_told, NULL, OCP_LOG_WARN);
	quit(&running);
	next = start(program);
	set_ptrace_capability(false);
	n_told = 0;
	for (unsigned int i = 0; i < 5; i++)
		tick(&w);
	set_ptrace_capability(true);
	assert_int_equal(n_told, 1);
	assert_false(the_target(&w)->is_up);
	tick(&w);
	assert_true(the_target(&w)->is_up);
	go(&next, 3);
	assert_int_equal(hits_now(&w), 3);
	quit(&next);
	end(&w);
}
