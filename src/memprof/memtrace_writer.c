// SPDX-License-Identifier: MIT
#include "memprof/memtrace_writer.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/interrupted.h"
#include "memprof/memtrace_codes.h"
#include "memprof/memtrace_locations.h"
#include "memprof/memtrace_packet.h"
#include "memprof/memtrace_stacks.h"

enum {
	USUAL_CODES = 1 << 20,
	WORD_BITS = 64,
	MAX_INFO_TEXT = 4095,
	/*
	 * Most bytes of an allocation without its stack: three numbers, the source, and the number
	 * of words.
	 */
	ALLOC_BYTES = MEMTRACE_EVENT_BYTES + 3 * MEMTRACE_VARYING_BYTES + 1 + 2,
	CHANGE_BYTES = MEMTRACE_EVENT_BYTES + MEMTRACE_VARYING_BYTES,
	MAX_SHORT_FRAMES = 255,
};

/* The numbers for sources of allocations in the file. */
enum { FROM_MINOR, FROM_MAJOR, FROM_OUTSIDE };

struct memtrace_writer {
	struct ocp_ctx *ctx;
	int fd;
	const char *path;
	memtrace_locate *locate;
	void *data;
	uint64_t epoch_us;
	uint64_t last_us;
	uint64_t left_out;
	struct memtrace_codes *codes;
	uint32_t max_codes;
	struct memtrace_locations *locations;
	struct memtrace_stacks *stacks;
	/* Stack of the current event, as codes, the outermost first. */
	uint32_t stack[MEMTRACE_MAX_DEPTH];
	uint32_t depth;
	/* Locations; this packet is written before `events`, which need them. */
	struct memtrace_packet places;
	struct memtrace_packet events;
};

/* Stands for all frames beyond the limit. */
static const struct named_frame other_frame = { .function = "[too many frames]",
						.kind = FRAME_UNKNOWN };

/* ---- packets --------------------------------------------------------------------------------- */

static bool is_empty(const struct memtrace_packet *packet)
{
	return packet->n == MEMTRACE_HEADER_BYTES;
}

static int write_packet(struct memtrace_writer *w, struct memtrace_packet *packet)
{
	struct interruptions interruptions = { 0 };
	const uint8_t *at = packet->bytes;
	size_t n = packet->n;

	memtrace_packet_end(packet);
	while (n) {
		const ssize_t done = write(w->fd, at, n);

		if (done < 0 && !is_interrupted(&interruptions))
			return ctx_error(w->ctx, -errno, "%s: %s", w->path, strerror(errno));
		if (done > 0) {
			at += done;
			n -= (size_t)done;
		}
	}
	return 0;
}

/*
 * Begin empty packets. The next events happen at the time US or later, and NUMBER is the number of
 * the next block.
 */
static void begin_packets(struct memtrace_writer *w, uint64_t us, uint64_t number)
{
	memtrace_packet_begin(&w->places, us, number, MEMTRACE_NO_CHECK);
	memtrace_packet_begin(&w->events, us, number, memtrace_stacks_check(w->stacks));
}

static int flush_places(struct memtrace_writer *w)
{
	int err = is_empty(&w->places) ? 0 : write_packet(w, &w->places);

	if (!err)
		memtrace_packet_begin(&w->places, w->places.first_us, w->places.first_block,
				      MEMTRACE_NO_CHECK);
	return err;
}

int memtrace_writer_flush(struct memtrace_writer *w)
{
	int err = flush_places(w);

	if (err || is_empty(&w->events))
		return err;
	err = write_packet(w, &w->events);
	begin_packets(w, w->last_us, w->events.next_block);
	return err;
}

/* ---- the stack ------------------------------------------------------------------------------- */

static int define(struct memtrace_writer *w, uint32_t code, const uint64_t *frame)
{
	const struct named_frame *const other[] = { &other_frame };
	const struct named_frame *const *frames = other;
	size_t n = 1;
	int err = code == w->max_codes ? 0 : w->locate(w->data, frame, &frames, &n);

	if (!err && memtrace_location_bytes(frames, n) > memtrace_packet_room(&w->places))
		err = flush_places(w);
	if (!err)
		memtrace_put_location(w->locations, &w->places, w->places.first_us, code, frames,
				      n);
	return err;
}

static int push_frame(struct memtrace_writer *w, const uint64_t *frame)
{
	bool is_new;
	uint32_t code;
	int err = memtrace_code_of(w->codes, frame ? *frame : 0, &code, &is_new);

	if (err)
		return err;
	w->stack[w->depth++] = code;
	return is_new ? define(w, code, frame) : 0;
}

static int encode_stack(struct memtrace_writer *w, const struct memprof_event *event)
{
	int err = 0;

	w->depth = 0;
	for (uint32_t i = event->depth; i-- > 0 && !err;)
		err = push_frame(w, &event->stack[i]);
	/* Viewers expect at least one frame. */
	return err || event->depth ? err : push_frame(w, NULL);
}

/* ---- events ---------------------------------------------------------------------------------- */

/* Return the time that EVENT gets in the file, in microseconds since 1970. */
static uint64_t time_of(const struct memtrace_writer *w, const struct memprof_event *event,
			uint64_t now_ns)
{
	const uint64_t ns = event->time_ns < now_ns ? event->time_ns : now_ns,
		       us = w->epoch_us + ns / 1000;

	return us > w->last_us ? us : w->last_us;
}

/* Make sure that `events` has space for an event of BYTES bytes; flush it if necessary. */
static int reserve_event(struct memtrace_writer *w, size_t bytes)
{
	return bytes > memtrace_packet_room(&w->events) ? memtrace_writer_flush(w) : 0;
}

/*
 * Return the source for EVENT in the file. The memory of custom blocks and mapped files is outside
 * of the heap, like memtrace's external allocations.
 */
static unsigned int source_of(const struct memprof_event *event)
{
	if (event->source == MEMPROF_CUSTOM || event->source == MEMPROF_MAP_FILE)
		return FROM_OUTSIDE;
	return event->kind == MEMPROF_ALLOC_MAJOR ? FROM_MAJOR : FROM_MINOR;
}

static int put_allocation(struct memtrace_writer *w, const struct memprof_event *event)
{
	const unsigned int source = source_of(event);
	uint32_t common;
	bool is_short;
	int err = encode_stack(w, event);

	if (err)
		return err;
	common = memtrace_stacks_common(w->stacks, w->stack, w->depth);
	err = reserve_event(w, ALLOC_BYTES + (size_t)MEMTRACE_FRAME_BYTES * (w->depth - common));
	if (err)
		return err;
	is_short = source == FROM_MINOR && event->n_samples == 1 && event->size >= 1 &&
		   event->size <= MEMTRACE_SHORT_WORDS && w->depth - common <= MAX_SHORT_FRAMES;
	memtrace_put_event(&w->events,
			   is_short ? MEMTRACE_SHORT_ALLOC + (unsigned int)event->size
				    : MEMTRACE_ALLOC,
			   w->last_us);
	if (!is_short) {
		memtrace_put_varying(&w->events, event->size);
		memtrace_put_varying(&w->events, event->n_samples);
		memtrace_put(&w->events, source, 1);
	}
	w->events.next_block++;
	return memtrace_stacks_put(w->stacks, &w->events, w->stack, w->depth, common,
				   is_short ? 1 : 2);
}

/*
 * Write an event of KIND for the block NUMBER, which was allocated before. In the file, blocks are
 * counted backwards from the last one.
 */
static int put_change(struct memtrace_writer *w, unsigned int kind, uint64_t number)
{
	int err = reserve_event(w, CHANGE_BYTES);

	if (err)
		return err;
	memtrace_put_event(&w->events, kind, w->last_us);
	memtrace_put_varying(&w->events, w->events.next_block - 1 - number);
	return 0;
}

int memtrace_writer_put(struct memtrace_writer *w, const struct memprof_event *event,
			uint64_t number, uint64_t now_ns)
{
	const bool is_allocation = event->kind <= MEMPROF_ALLOC_MAJOR;
	int err = 0;

	if (number == UINT64_MAX || (number < w->events.next_block) == is_allocation) {
		w->left_out++;
		return 0;
	}
	w->last_us = time_of(w, event, now_ns);
	if ((is_allocation && number != w->events.next_block) ||
	    w->last_us - w->events.first_us > MEMTRACE_MAX_SPAN)
		err = memtrace_writer_flush(w);
	if (err)
		return err;
	if (is_empty(&w->events))
		begin_packets(w, w->last_us, is_allocation ? number : w->events.next_block);
	if (is_allocation)
		return put_allocation(w, event);
	return put_change(w, event->kind == MEMPROF_PROMOTE ? MEMTRACE_PROMOTE : MEMTRACE_COLLECT,
			  number);
}

uint64_t memtrace_writer_left_out(const struct memtrace_writer *w)
{
	return w->left_out;
}

/* ---- open and close -------------------------------------------------------------------------- */

static void put_info_text(struct memtrace_packet *packet, const char *text)
{
	const size_t length = strlen(text);

	memtrace_put_text(packet, text, length < MAX_INFO_TEXT ? length : MAX_INFO_TEXT, "");
}

static int write_info(struct memtrace_writer *w, const struct memtrace_info *info)
{
	struct memtrace_packet *p = &w->events;
	uint64_t rate;

	memcpy(&rate, &info->rate, sizeof(rate));
	memtrace_packet_begin(p, info->start_us, 0, MEMTRACE_NO_CHECK);
	memtrace_put_event(p, MEMTRACE_INFO, info->start_us);
	memtrace_put(p, rate, 8);
	memtrace_put(p, WORD_BITS, 1);
	put_info_text(p, info->executable);
	put_info_text(p, info->host);
	put_info_text(p, info->parameters);
	memtrace_put(p, (uint64_t)info->pid, 8);
	put_info_text(p, info->context);
	return write_packet(w, p);
}

int memtrace_writer_open(struct ocp_ctx *ctx, int fd, const char *path,
			 const struct memtrace_info *info, memtrace_locate *locate, void *data,
			 struct memtrace_writer **out)
{
	struct memtrace_writer *w = calloc(1, sizeof(*w));
	int err;

	*out = w;
	if (!w)
		return ctx_no_memory(ctx);
	w->ctx = ctx;
	w->fd = fd;
	w->path = path;
	w->locate = locate;
	w->data = data;
	w->epoch_us = info->epoch_us;
	w->last_us = info->start_us;
	w->max_codes = info->max_codes ? info->max_codes : USUAL_CODES;
	w->places.pid = w->events.pid = (uint64_t)info->pid;
	err = memtrace_codes_new(ctx, w->max_codes, &w->codes);
	if (!err)
		err = memtrace_locations_new(ctx, &w->locations);
	if (!err)
		err = memtrace_stacks_new(ctx, &w->stacks);
	if (!err)
		err = write_info(w, info);
	if (err) {
		memtrace_writer_close(w);
		*out = NULL;
		return err;
	}
	begin_packets(w, info->start_us, 0);
	return 0;
}

void memtrace_writer_close(struct memtrace_writer *w)
{
	if (!w)
		return;
	memtrace_codes_free(w->codes);
	memtrace_locations_free(w->locations);
	memtrace_stacks_free(w->stacks);
	free(w);
}
