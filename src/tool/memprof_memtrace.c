// SPDX-License-Identifier: MIT
#include "tool/memprof_memtrace.h"

#include <inttypes.h>
#include <limits.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "cli/cli.h"
#include "memprof/memtrace_writer.h"
#include "tracee/proc_file.h"
#include "tool/profile_files.h"

enum { FLUSH_NS = 1000 * 1000 * 1000 };

struct memtrace_file {
	const char *path;
	struct heap_names *names;
	struct profile_file *file;
	struct memtrace_writer *writer;
	int64_t flushed_ns;
};

static int locate(void *data, const uint64_t *frame, const struct named_frame *const **frames,
		  size_t *n)
{
	return heap_names_of(data, frame, frame ? 1 : 0, frames, n);
}

/* Open the writer, which writes the header of the file: facts about the program and this tool. */
static int open_writer(struct ocp_ctx *ctx, struct memtrace_file *file, pid_t pid, double rate)
{
	char exe[PROC_PATH_BYTES], executable[PATH_MAX] = "", host[HOST_NAME_MAX + 1] = "",
				   context[64];
	const uint64_t monotonic_us = (uint64_t)clock_ns(CLOCK_MONOTONIC) / 1000,
		       start_us = (uint64_t)clock_ns(CLOCK_REALTIME) / 1000;
	const struct memtrace_info info = { .rate = rate,
					    .pid = pid,
					    .executable = executable,
					    .host = host,
					    .parameters = "",
					    .context = context,
					    .start_us = start_us,
					    .epoch_us = start_us - monotonic_us };

	proc_path(exe, pid, "exe");
	if (readlink(exe, executable, sizeof(executable) - 1) < 0)
		executable[0] = '\0';
	if (gethostname(host, sizeof(host) - 1) != 0)
		host[0] = '\0';
	snprintf(context, sizeof(context), "ocaml-probes %s", ocp_version());
	return memtrace_writer_open(ctx, fileno(profile_file_stream(file->file)), file->path, &info,
				    locate, file->names, &file->writer);
}

int memtrace_file_open(struct ocp_ctx *ctx, const char *path, pid_t pid,
		       const struct memprof_spec *spec, struct heap_names *names,
		       struct memtrace_file **out)
{
	struct memtrace_file *file = NULL;
	int err;

	*out = NULL;
	if (!path)
		return 0;
	file = calloc(1, sizeof(*file));
	if (!file)
		return ctx_no_memory(ctx);
	file->path = path;
	file->names = names;
	err = profile_file_open(ctx, path, &file->file);
	if (!err)
		err = open_writer(ctx, file, pid, spec->rate);
	if (err)
		memtrace_file_abandon(file);
	else
		*out = file;
	return err;
}

int memtrace_file_put(struct memtrace_file *file, const struct memprof_event *event,
		      uint64_t number)
{
	return file ? memtrace_writer_put(file->writer, event, number,
					  (uint64_t)clock_ns(CLOCK_MONOTONIC))
		    : 0;
}

int memtrace_file_flush(struct memtrace_file *file)
{
	const int64_t now_ns = file ? clock_ns(CLOCK_MONOTONIC) : 0;

	if (!file || now_ns < file->flushed_ns + FLUSH_NS)
		return 0;
	file->flushed_ns = now_ns;
	return memtrace_writer_flush(file->writer);
}

static void say_missing(const struct memtrace_file *file, const struct memprof_losses *losses)
{
	const uint64_t left_out = memtrace_writer_left_out(file->writer);
	uint64_t lost = 0;

	for (int i = MEMPROF_ALLOC_MINOR; i < MEMPROF_KINDS; i++)
		lost += losses->events[i];
	if (lost)
		say("%s: %" PRIu64 " events are missing, which were lost", file->path, lost);
	if (left_out)
		say("%s: %" PRIu64 " events are missing, whose blocks are not known", file->path,
		    left_out);
}

int memtrace_file_finish(struct memtrace_file *file, const struct memprof_losses *losses,
			 bool is_quiet)
{
	int err = file ? memtrace_writer_flush(file->writer) : 0;

	if (file && !err) {
		err = profile_file_finish(file->file);
		file->file = NULL;
	}
	if (file && !err && !is_quiet)
		say_missing(file, losses);
	memtrace_file_abandon(file);
	return err;
}

void memtrace_file_abandon(struct memtrace_file *file)
{
	if (!file)
		return;
	memtrace_writer_close(file->writer);
	profile_file_abandon(file->file);
	free(file);
}
