/* SPDX-License-Identifier: MIT */
/*
 * Writes the source places that the codes of a memtrace file stand for. If a file or function name
 * is among the 31 that were used last, its position in that list is written in place of the name.
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
 * Return an upper limit for the bytes that the event for FRAMES[0..N) takes. The event always fits
 * into an empty packet.
 */
size_t memtrace_location_bytes(const struct named_frame *const *frames, size_t n);

/*
 * Write the event which says that CODE stands for FRAMES[0..N), the outermost first. US is the time
 * of the event in microseconds. Names that are too long for a packet are cut, and end with "...".
 * The strings of the frames must outlive LOCATIONS.
 */
void memtrace_put_location(struct memtrace_locations *locations, struct memtrace_packet *packet,
			   uint64_t us, uint32_t code, const struct named_frame *const *frames,
			   size_t n);

#endif
