/* SPDX-License-Identifier: MIT */
/*
 * Writes the source places that the codes of a memtrace file stand for. A file or function name
 * among the 31 used last is not written again: a number stands for it.
 */
#ifndef MEMPROF_MEMTRACE_LOCATIONS_H
#define MEMPROF_MEMTRACE_LOCATIONS_H

#include "base/ctx.h"
#include "memprof/memtrace_packet.h"
#include "unwind/frame_names.h"

struct memtrace_locations;

int memtrace_locations_new(struct ocp_ctx *ctx, struct memtrace_locations **out);
void memtrace_locations_free(struct memtrace_locations *locations);

/*
 * Return the most bytes that the event for FRAMES[0..N) can take. It always fits into an empty
 * packet.
 */
size_t memtrace_location_bytes(const struct named_frame *const *frames, size_t n);

/*
 * Write the event which says that CODE stands for FRAMES[0..N), the outermost first, at the time
 * US. Names that are too long for a packet are cut, and end with "...". The texts of the frames
 * must outlive LOCATIONS.
 */
void memtrace_put_location(struct memtrace_locations *locations, struct memtrace_packet *packet,
			   uint64_t us, uint32_t code, const struct named_frame *const *frames,
			   size_t n);

#endif
