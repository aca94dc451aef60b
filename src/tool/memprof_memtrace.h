/* SPDX-License-Identifier: MIT */
/* The file of `memprof --memtrace`, which is written while the profile runs. */
#ifndef TOOL_MEMPROF_MEMTRACE_H
#define TOOL_MEMPROF_MEMTRACE_H

#include <stdbool.h>
#include "memprof/heap_profile.h"
#include "memprof/session.h"

/* The file, or NULL if none was requested: the functions below then do nothing. */
struct memtrace_file;

/*
 * Begin the file PATH for a profile of PID with SPEC. If PATH is NULL, set *OUT to NULL. PATH and
 * NAMES must exist as long as *OUT.
 */
int memtrace_file_open(struct ocp_ctx *ctx, const char *path, pid_t pid,
		       const struct memprof_spec *spec, struct heap_names *names,
		       struct memtrace_file **out);

/* Write EVENT of the block NUMBER; see heap_block_number(). */
int memtrace_file_put(struct memtrace_file *file, const struct memprof_event *event,
		      uint64_t number);

/* Flush buffered events to the file, at most once per second. */
int memtrace_file_flush(struct memtrace_file *file);

/* Complete the file and free FILE. Unless IS_QUIET, say which events are missing. */
int memtrace_file_finish(struct memtrace_file *file, const struct memprof_losses *losses,
			 bool is_quiet);
/* Remove the file, unless it is finished, and free FILE. Accepts NULL. */
void memtrace_file_abandon(struct memtrace_file *file);

#endif
