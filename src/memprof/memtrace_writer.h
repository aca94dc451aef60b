/* SPDX-License-Identifier: MIT */
/*
 * Writes the events of a profile as a memtrace file, which the viewers of the OCaml library memtrace read:
 * see memtrace_packet.h. Whole packets are written one behind the other: what is in the file is valid at
 * any time, and the memory does not depend on the number of events.
 *
 * The events have one order by time. An event whose time is before that of the event before gets the
 * latter's: threads of the program enter events when they come to run, not when they read the clock.
 */
#ifndef MEMPROF_MEMTRACE_WRITER_H
#define MEMPROF_MEMTRACE_WRITER_H

#include "base/ctx.h"
#include "memprof/session.h"
#include "unwind/frame_names.h"

/* What the file tells of the program. Texts are cut after 4095 bytes. */
struct memtrace_info {
	double rate; /* samples per word */
	pid_t pid;
	const char *executable, *host, *parameters, *context; /* parameters: of the runtime */
	uint64_t start_us;  /* since 1970; events are not before it */
	uint64_t epoch_us;  /* of CLOCK_MONOTONIC, since 1970 */
	uint32_t max_codes; /* different frames; 0: a usual number */
};

/*
 * Names a frame of a call stack, as in struct memprof_event; none of them is 0. FRAME is NULL for a stack
 * that has no frames. *FRAMES are N frames, at least one, the outermost first. They exist until the next
 * call, their texts as long as the writer. 0, or an error, which is recorded.
 */
typedef int memtrace_locate(void *data, const uint64_t *frame,
			    const struct named_frame *const **frames, size_t *n);

struct memtrace_writer;

/* Write the start of the file PATH, which is open as FD. The writer does not close it. */
int memtrace_writer_open(struct ocp_ctx *ctx, int fd, const char *path,
			 const struct memtrace_info *info, memtrace_locate *locate, void *data,
			 struct memtrace_writer **out);
void memtrace_writer_close(struct memtrace_writer *writer);

/*
 * Write EVENT of the block NUMBER. Allocations have rising numbers. An event of a block that is UINT64_MAX
 * is left out and counted. NOW_NS is a time (CLOCK_MONOTONIC) that the event is not behind.
 */
int memtrace_writer_put(struct memtrace_writer *writer, const struct memprof_event *event,
			uint64_t number, uint64_t now_ns);

/* Write the events that are not in the file yet. */
int memtrace_writer_flush(struct memtrace_writer *writer);

/* The number of the events that were left out. */
uint64_t memtrace_writer_left_out(const struct memtrace_writer *writer);

#endif
