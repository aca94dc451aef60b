// SPDX-License-Identifier: MIT
#include "watched_program.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "fixture.h"
#include "measured_child.h"

static struct item all_probes = { ITEM_ALL_PROBES, NULL };
static struct request_pair the_pair = { .start = { ITEM_PROBE, "with_site" },
					.stop = { ITEM_PROBE, "started_on" } };
const struct measure_request count_all = { .counted = { &all_probes, 1 } };
const struct measure_request time_too = {
	.counted = { &all_probes, 1 },
	.pairs = &the_pair,
	.n_pairs = 1,
};

/* ---- programs ------------------------------------------------------------------------------- */

char program[64]; /* a copy of the fixture v2 */

void copy_program(const char *to)
{
	char command[256];

	snprintf(command, sizeof(command), "cp %s %s.new && mv %s.new %s", fixture_path("v2"), to,
		 to, to);
	assert_int_equal(system(command), 0);
}

int set_up_program(void **state)
{
	int fd;

	(void)state;
	snprintf(program, sizeof(program), "/tmp/watch.v2.XXXXXX");
	fd = mkstemp(program);
	assert_true(fd >= 0);
	close(fd);
	copy_program(program);
	return 0;
}

int tear_down_program(void **state)
{
	(void)state;
	unlink(program);
	return 0;
}

static void await(struct running *running, const char *line)
{
	char seen[128];

	while (fgets(seen, sizeof(seen), running->out))
		if (strncmp(seen, line, strlen(line)) == 0)
			return;
	fail_msg("the program ended before it said '%s'", line);
}

struct running start(const char *path)
{
	struct running running;
	int in[2], out[2];

	assert_int_equal(pipe2(in, O_CLOEXEC), 0);
	assert_int_equal(pipe2(out, O_CLOEXEC), 0);
	running.pid = fork();
	if (running.pid == 0) {
		dup2(in[0], 0);
		dup2(out[1], 1);
		execl(path, path, "--wait", NULL);
		_exit(127);
	}
	close(in[0]);
	close(out[1]);
	running.in = fdopen(in[1], "w");
	running.out = fdopen(out[0], "r");
	await(&running, "ready");
	return running;
}

void go(struct running *running, unsigned int rounds)
{
	fprintf(running->in, "go %u\n", rounds);
	fflush(running->in);
	await(running, "done");
}

void quit(struct running *running)
{
	int status;

	fclose(running->in);
	assert_int_equal(waitpid(running->pid, &status, 0), running->pid);
	assert_int_equal(status, 0);
	fclose(running->out);
}

void run(const char *path, unsigned int rounds)
{
	struct running running = start(path);

	go(&running, rounds);
	quit(&running);
}

/* ---- what is watched ------------------------------------------------------------------------ */

struct watching watch_it(const struct watch_spec *specs, size_t n, bool by_process)
{
	struct watching w = { .ctx = ctx_or_skip() };
	int err;

	w.watch = watch_new(w.ctx, by_process);
	assert_non_null(w.watch);
	err = watch_set(w.watch, specs, n);
	if (err)
		print_message("%s\n", ocp_error(w.ctx));
	assert_int_equal(err, 0);
	return w;
}

void end(struct watching *w)
{
	watch_free(w->watch);
	ocp_ctx_free(w->ctx);
}

void tick(struct watching *w)
{
	assert_int_equal(watch_tick(w->watch), 0);
}

/* What a hit costs is asked for by a tick, some time after the beginning. */
enum { COSTS_MS = 600 };

void await_costs(struct watching *w)
{
	struct stat tasks;

	sleep_ms(COSTS_MS);
	for (unsigned int i = 0; i < 3000; i++) {
		assert_int_equal(stat("/proc/self/task", &tasks), 0);
		if (tasks.st_nlink == 3) { /* itself, "..", one thread */
			tick(w);
			return;
		}
		sleep_ms(10);
	}
	fail_msg("a thread goes on");
}

size_t count_descriptors(void)
{
	size_t n = 0;
	DIR *folder = opendir("/proc/self/fd");

	assert_non_null(folder);
	while (readdir(folder))
		n++;
	closedir(folder);
	return n;
}

uint64_t hits_now(struct watching *w)
{
	static const char *const names[] = { "both", "started_on", "with_site" };
	const struct watch_target *target;
	uint64_t hits = 0;

	assert_int_equal(watch_read(w->watch), 0);
	assert_int_equal(watch_target_count(w->watch), 1);
	target = watch_target(w->watch, 0);
	for (size_t i = 0; i < 3; i++) {
		ptrdiff_t at = watch_find_probe(target, names[i]);

		assert_true(at >= 0);
		assert_true(i == 0 || target->probes[at].hits == hits);
		hits = target->probes[at].hits;
	}
	return hits;
}

const struct watch_target *the_target(struct watching *w)
{
	return watch_target(w->watch, 0);
}

const struct watch_probe *probe_called(struct watching *w, const char *name)
{
	const ptrdiff_t at = watch_find_probe(the_target(w), name);

	assert_true(at >= 0);
	return &the_target(w)->probes[at];
}
