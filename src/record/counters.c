// SPDX-License-Identifier: MIT
#include "record/counters.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/ctx.h"
#include "look/proc_file.h"
#include "measure/spending.h"
#include "process/gc_gauges.h"
#include "record/hit_events.h"
#include "record/trace.h"

enum {
	BETWEEN_NS = 100 * 1000 * 1000,
	WORD_BYTES = 8,
	/* It takes some microseconds to look at a thread: with more threads, look once a second. */
	FEW_THREADS = 200,
	READINGS_A_SECOND = 10,
};

struct counters {
	struct ocp_ctx *ctx;
	pid_t pid;
	struct ocp_meter *meter;
	struct gc_reader *gauges; /* NULL: the collector's figures are not read */
	int64_t read_ns;	  /* when the hits were read last */
	uint64_t hits;		  /* how many there were then */
	unsigned int to_skip;	  /* the number of readings before the next look at the threads */
};

static bool find_hits(struct counters *counters, uint64_t *hits)
{
	struct spending spending;
	const bool is_read = meter_read_spending(counters->meter, &spending) == 0;

	*hits = spending.sums.all;
	spending_free(&spending);
	return is_read;
}

int counters_open(struct ocp_ctx *ctx, pid_t pid, struct ocp_meter *meter,
		  struct counters **counters)
{
	struct counters *new = calloc(1, sizeof(*new));

	*counters = new;
	if (!new)
		return ctx_no_memory(ctx);
	*new = (struct counters){ .ctx = ctx, .pid = pid, .meter = meter };
	/* Not an OCaml program, or not a known runtime: then without its figures. */
	gc_reader_open(ctx, pid, &new->gauges);
	return 0;
}

void counters_free(struct counters *counters)
{
	if (!counters)
		return;
	gc_reader_free(counters->gauges);
	free(counters);
}

static int add_value(const struct counters *counters, struct trace *trace, const char *name,
		     enum trace_category category, int64_t ns, uint64_t value)
{
	struct trace_event event = {
		.kind = TRACE_COUNTER, .category = category, .begin_ns = ns, .value = (int64_t)value
	};
	int err = hit_events_track(trace, TRACE_COUNTERS, counters->pid, 0, name, 0, &event.track);

	return err < 0 ? err : trace_add(trace, &event);
}

static int read_gauges(const struct counters *counters, struct trace *trace, int64_t ns)
{
	struct gc_gauges gauges;
	int err;

	/* The process may be about to end, or its figures may change: they are read again. */
	if (!counters->gauges || gc_reader_read(counters->gauges, &gauges))
		return 0;
	err = add_value(counters, trace, "major heap (bytes)", TRACE_GC, ns,
			gauges.words.heap * WORD_BYTES);
	if (!err)
		err = add_value(counters, trace, "minor collections", TRACE_GC, ns,
				gauges.minor_collections);
	if (!err)
		err = add_value(counters, trace, "major cycles", TRACE_GC, ns,
				gauges.major_collections);
	return err;
}

/* Return true if thread NAME of the directory TASKS runs, or waits for a CPU. */
static bool is_runnable(int tasks, const char *name)
{
	char path[32], text[512];
	ssize_t n;
	int fd;

	snprintf(path, sizeof(path), "%.20s/stat", name);
	fd = openat(tasks, path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return false;
	n = read(fd, text, sizeof(text) - 1);
	close(fd);
	if (n <= 0)
		return false;
	text[n] = '\0';
	return proc_stat_is_runnable(text);
}

static int read_threads(struct counters *counters, struct trace *trace, int64_t ns)
{
	size_t n = 0, n_runnable = 0;
	const struct dirent *entry;
	char path[PROC_PATH_BYTES];
	DIR *dir;

	if (counters->to_skip) {
		counters->to_skip--;
		return 0;
	}
	proc_path(path, counters->pid, "task");
	dir = opendir(path);
	if (!dir)
		return 0;
	while ((entry = readdir(dir)))
		if (entry->d_name[0] != '.') {
			n++;
			n_runnable += is_runnable(dirfd(dir), entry->d_name);
		}
	closedir(dir);
	if (n > FEW_THREADS)
		counters->to_skip = READINGS_A_SECOND - 1;
	return n ? add_value(counters, trace, "runnable threads", TRACE_READY, ns, n_runnable) : 0;
}

static int read_rate(struct counters *counters, struct trace *trace, int64_t ns)
{
	const int64_t since_ns = ns - counters->read_ns;
	uint64_t hits, new_hits;

	if (!find_hits(counters, &hits))
		return 0;
	new_hits = hits - counters->hits;
	counters->hits = hits;
	/* The first reading is the one from which on hits are counted. */
	if (!counters->read_ns)
		return 0;
	return add_value(counters, trace, "hits per second", TRACE_PROBE, ns,
			 (uint64_t)((double)new_hits * 1e9 / (double)since_ns + 0.5));
}

int counters_read(struct counters *counters, struct trace *trace, int64_t now_ns)
{
	int err;

	if (!counters || now_ns < counters->read_ns + BETWEEN_NS)
		return 0;
	err = read_rate(counters, trace, now_ns);
	counters->read_ns = now_ns;
	if (!err)
		err = read_threads(counters, trace, now_ns);
	if (!err)
		err = read_gauges(counters, trace, now_ns);
	return err;
}
