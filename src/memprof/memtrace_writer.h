/* SPDX-License-Identifier: MIT */
/*
 * Writes the events of a profile as a memtrace file, which the viewers of the OCaml library
 * memtrace read: see memtrace_packet.h. Whole packets are appended: the file is valid at any time,
 * and the memory needed does not depend on the number of events.
 *
 * The events are in the order of their times. An event that is older than the previous event gets
 * the time of the previous event: threads of the program enter events when they come to run, not
 * when they read the clock.
 */
#ifndef MEMPROF_MEMTRACE_WRITER_H
#define MEMPROF_MEMTRACE_WRITER_H

#include "base/ctx.h"
#include "memprof/session.h"
#include "unwind/frame_names.h"

/* What the file says about the program. Texts are cut after 4095 bytes. */
struct memtrace_info {
	double rate; /* samples per word */
	pid_t pid;
	const char *executable, *host, *parameters, *context; /* parameters: of the runtime */
	uint64_t start_us;  /* since 1970; events are not before it */
	uint64_t epoch_us;  /* the zero of CLOCK_MONOTONIC, since 1970 */
	uint32_t max_codes; /* different frames; 0: a usual number */
};

/*
 * Name FRAME of a call stack, as in struct memprof_event; *FRAME is never 0. FRAME is NULL for a
 * stack without frames. Set *FRAMES to N frames, at least one, the outermost first. They must stay
 * valid until the next call, their texts as long as the writer. Return 0, or an error that was
 * recorded.
 */
typedef int memtrace_locate(void *data, const uint64_t *frame,
			    const struct named_frame *const **frames, size_t *n);

struct memtrace_writer;

/* Write the start of the file PATH, which is open as FD. The writer does not close FD. */
int memtrace_writer_open(struct ocp_ctx *ctx, int fd, const char *path,
			 const struct memtrace_info *info, memtrace_locate *locate, void *data,
			 struct memtrace_writer **out);
void memtrace_writer_close(struct memtrace_writer *writer);

/*
 * Write EVENT of the block NUMBER. Blocks are allocated in the order of their numbers. An event
 * that contradicts this order, or whose NUMBER is UINT64_MAX, is left out and counted. NOW_NS: an
 * upper bound of the event's time (CLOCK_MONOTONIC).
 */
int memtrace_writer_put(struct memtrace_writer *writer, const struct memprof_event *event,
			uint64_t number, uint64_t now_ns);

/* Write the events that are not in the file yet. */
int memtrace_writer_flush(struct memtrace_writer *writer);

/* Return the number of events that were left out. */
uint64_t memtrace_writer_left_out(const struct memtrace_writer *writer);

#endif
