/* SPDX-License-Identifier: MIT */
/*
 * Writes the events of a profile as a memtrace file (see memtrace_writer.c), for the viewers of the
 * OCaml library memtrace. Only whole packets are appended, so the file is valid at any time. The
 * memory that the writer needs does not depend on the number of events.
 *
 * The events are in the order of their times. An event that is older than the previous event gets
 * the time of the previous event. This can happen, because a thread of the program may be
 * interrupted after it has read the clock and before it has written its event.
 */
#ifndef MEMPROF_MEMTRACE_WRITER_H
#define MEMPROF_MEMTRACE_WRITER_H

#include "base/ctx.h"
#include "memprof/session.h"
#include "unwind/frame_names.h"

/* What the file is to say about the program. Texts are cut after 4095 bytes. */
struct memtrace_info {
	double rate; /* samples per word */
	pid_t pid;
	/* `parameters`: the parameters of the OCaml runtime */
	const char *executable, *host, *parameters, *context;
	uint64_t start_us; /* microseconds since 1970; no event is earlier */
	uint64_t epoch_us; /* the time at which CLOCK_MONOTONIC was 0, in microseconds since 1970 */
	uint32_t max_codes; /* limit for the number of different frames; 0: the default */
};

/*
 * Callback that names the frame *FRAME, an element of the call stack of a struct memprof_event.
 * *FRAME is never 0. Set *FRAMES to *N >= 1 frames, the outermost first. If FRAME is NULL, set
 * *FRAMES to the frames that stand for an empty call stack. The frames must stay valid until the
 * next call, their strings as long as the writer. Return 0, or an error that was recorded.
 */
typedef int memtrace_locate(void *data, const uint64_t *frame,
			    const struct named_frame *const **frames, size_t *n);

struct memtrace_writer;

/*
 * Make a writer, and write the start of the file that is open as FD. PATH is the name of the file
 * in messages. The writer does not close FD.
 */
int memtrace_writer_open(struct ocp_ctx *ctx, int fd, const char *path,
			 const struct memtrace_info *info, memtrace_locate *locate, void *data,
			 struct memtrace_writer **out);
void memtrace_writer_close(struct memtrace_writer *writer);

/*
 * Write EVENT, which happened to block NUMBER. Blocks must be allocated in the order of their
 * numbers. An event that contradicts this order, or whose NUMBER is UINT64_MAX, is left out and
 * counted. NOW_NS: an upper bound of the event's time (CLOCK_MONOTONIC).
 */
int memtrace_writer_put(struct memtrace_writer *writer, const struct memprof_event *event,
			uint64_t number, uint64_t now_ns);

/* Write the buffered events to the file. */
int memtrace_writer_flush(struct memtrace_writer *writer);

/* Return the number of events that were left out. */
uint64_t memtrace_writer_left_out(const struct memtrace_writer *writer);

#endif
