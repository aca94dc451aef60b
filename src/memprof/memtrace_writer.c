// SPDX-License-Identifier: MIT
#include "memprof/memtrace_writer.h"

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/ctx.h"
#include "base/hash.h"
#include "base/interrupted.h"
#include "memprof/ring.h"
#include "unwind/frame_names.h"

/* ---- packets --------------------------------------------------------------------------------- */

/*
 * The packets of a memtrace file, version 2. A packet is a header and a sequence of events. All
 * numbers are little-endian, all texts end with 0, and nothing is aligned. See src/trace.ml of
 * memtrace.
 *
 *	header	u32 magic, u32 bits of the packet, u64 time of the first event, u64 time of the last
 *		event, u32 0, u16 version, u64 process; a cache entry (see below: stacks): u16
 *		bucket, u16 next bucket, u64 code; u64 number of the first block that is allocated
 *		in the packet, u64 number of the first block of the next packet
 *	event	u32 low 25 bits of the time, kind << 25; the fields of an event of this kind
 *
 * Times are microseconds since 1970.
 */

enum {
	MEMTRACE_MAGIC = (int)0xc1fc1fc1,
	MEMTRACE_VERSION = 2,
	MEMTRACE_HEADER_BYTES = 66,
	MEMTRACE_EVENT_BYTES = 4, /* size of the first word, which all events have */
	/* The library memtrace cannot read longer packets. */
	MEMTRACE_PACKET_BYTES = 1 << 15,
	/* The maximum number of bytes that memtrace_put_varying() writes. */
	MEMTRACE_VARYING_BYTES = 9,
	/*
	 * Limit for the time span of a packet, in microseconds. An event contains only the low 25
	 * bits of its time, which repeat every 33 s. So the span must be shorter than 33 s.
	 */
	MEMTRACE_MAX_SPAN = 30 * 1000 * 1000,
};

enum memtrace_event {
	MEMTRACE_INFO,
	MEMTRACE_LOCATION,
	MEMTRACE_ALLOC,
	MEMTRACE_PROMOTE,
	MEMTRACE_COLLECT,
	/*
	 * The allocation, in the minor heap, of a block with one sample and at most
	 * MEMTRACE_SHORT_WORDS words. The kind of the event is this number plus the block's number
	 * of words.
	 */
	MEMTRACE_SHORT_ALLOC = 100,
	MEMTRACE_SHORT_WORDS = 16,
};

/*
 * An entry of the writer's cache of stacks, which is written at the start of a packet. The reader
 * compares it with the entry of the same bucket in the reader's cache.
 */
struct memtrace_check {
	uint16_t bucket, next;
	uint64_t code;
};

#define MEMTRACE_NO_CHECK ((struct memtrace_check){ .bucket = 0xffff })

struct memtrace_packet {
	/*
	 * number of bytes so far, including the header; if it is MEMTRACE_HEADER_BYTES, there are
	 * no events
	 */
	size_t n;
	uint64_t pid;
	uint64_t first_us, last_us;
	uint64_t first_block, next_block;
	struct memtrace_check check;
	uint8_t bytes[MEMTRACE_PACKET_BYTES];
};

enum { TIME_BITS = 25 };

/* The first byte of a varying number that does not fit into one byte. */
enum { TWO_BYTES = 253, FOUR_BYTES = 254, EIGHT_BYTES = 255 };

static size_t memtrace_packet_room(const struct memtrace_packet *p)
{
	return sizeof(p->bytes) - p->n;
}

/* Append the low BYTES bytes of VALUE. */
static void memtrace_put(struct memtrace_packet *p, uint64_t value, size_t bytes)
{
	for (size_t i = 0; i < bytes && p->n < sizeof(p->bytes); i++)
		p->bytes[p->n++] = (uint8_t)(value >> 8 * i);
}

/* Append VALUE in a form that is short for small numbers. */
static void memtrace_put_varying(struct memtrace_packet *p, uint64_t value)
{
	if (value < TWO_BYTES) {
		memtrace_put(p, value, 1);
	} else if (value <= UINT16_MAX) {
		memtrace_put(p, TWO_BYTES, 1);
		memtrace_put(p, value, 2);
	} else if (value <= INT32_MAX) { /* the reader takes the 4 bytes for a signed number */
		memtrace_put(p, FOUR_BYTES, 1);
		memtrace_put(p, value, 4);
	} else {
		memtrace_put(p, EIGHT_BYTES, 1);
		memtrace_put(p, value, 8);
	}
}

static void put_bytes(struct memtrace_packet *p, const char *from, size_t bytes)
{
	const size_t room = memtrace_packet_room(p), n = bytes < room ? bytes : room;

	memcpy(p->bytes + p->n, from, n);
	p->n += n;
}

/*
 * Append the first BYTES bytes of TEXT, none of which may be 0, then the string END including its
 * terminating 0.
 */
static void memtrace_put_text(struct memtrace_packet *p, const char *text, size_t bytes,
			      const char *end)
{
	put_bytes(p, text, bytes);
	put_bytes(p, end, strlen(end) + 1);
}

/*
 * Begin an event at the time US, which must not be before the time of the previous event. The
 * caller of this and of the following functions must make sure that the packet has enough space.
 */
static void memtrace_put_event(struct memtrace_packet *p, unsigned int kind, uint64_t us)
{
	p->last_us = us;
	memtrace_put(p, kind << TIME_BITS | (us & ((1U << TIME_BITS) - 1)), MEMTRACE_EVENT_BYTES);
}

/*
 * Make the packet P empty. Its events will have the time US or later, and the first block whose
 * allocation is in the packet will have the number BLOCK.
 */
static void memtrace_packet_begin(struct memtrace_packet *p, uint64_t us, uint64_t block,
				  struct memtrace_check check)
{
	p->n = MEMTRACE_HEADER_BYTES;
	p->first_us = p->last_us = us;
	p->first_block = p->next_block = block;
	p->check = check;
}

/* Fill in the header of P. The whole packet is then the first P->n bytes of P->bytes. */
static void memtrace_packet_end(struct memtrace_packet *p)
{
	const size_t n = p->n;

	p->n = 0;
	memtrace_put(p, (uint32_t)MEMTRACE_MAGIC, 4);
	memtrace_put(p, 8 * n, 4);
	memtrace_put(p, p->first_us, 8);
	memtrace_put(p, p->last_us, 8);
	memtrace_put(p, 0, 4);
	memtrace_put(p, MEMTRACE_VERSION, 2);
	memtrace_put(p, p->pid, 8);
	memtrace_put(p, p->check.bucket, 2);
	memtrace_put(p, p->check.next, 2);
	memtrace_put(p, p->check.code, 8);
	memtrace_put(p, p->first_block, 8);
	memtrace_put(p, p->next_block, 8);
	p->n = n;
}

/* ---- codes of frames ------------------------------------------------------------------------- */

/* Assigns codes to the frames in a memtrace file. Codes are the numbers from 1 on. */

enum { FIRST_SLOTS = 1 << 12 };

struct coded_frame {
	uint64_t frame;
	uint32_t code; /* 0: the slot is free */
};

struct memtrace_codes {
	struct ocp_ctx *ctx;
	struct coded_frame *slots; /* hash table with open addressing */
	size_t n_slots;
	uint32_t n, most;
};

/*
 * Prepare C to assign at most MOST codes. The last code, MOST, is shared by all frames for which no
 * other code is left.
 */
static int memtrace_codes_init(struct ocp_ctx *ctx, struct memtrace_codes *c, uint32_t most)
{
	*c = (struct memtrace_codes){ .ctx = ctx,
				      .slots = calloc(FIRST_SLOTS, sizeof(*c->slots)),
				      .n_slots = FIRST_SLOTS,
				      .most = most };
	return c->slots ? 0 : ctx_no_memory(ctx);
}

static size_t find_code_slot(const struct memtrace_codes *c, uint64_t frame)
{
	size_t slot = hash_word(0, frame) & (c->n_slots - 1);

	while (c->slots[slot].code && c->slots[slot].frame != frame)
		slot = (slot + 1) & (c->n_slots - 1);
	return slot;
}

static int grow_codes(struct memtrace_codes *c)
{
	struct coded_frame *old = c->slots, *slots;
	const size_t n_old = c->n_slots;

	if (2 * (size_t)c->n < n_old)
		return 0;
	slots = n_old ? calloc(2 * n_old, sizeof(*slots)) : NULL;
	if (!slots)
		return ctx_no_memory(c->ctx);
	c->slots = slots;
	c->n_slots = 2 * n_old;
	for (size_t i = 0; i < n_old; i++)
		if (old[i].code)
			slots[find_code_slot(c, old[i].frame)] = old[i];
	free(old);
	return 0;
}

/* Set *CODE to the code of FRAME, and *IS_NEW to whether no earlier call has returned this code. */
static int memtrace_code_of(struct memtrace_codes *c, uint64_t frame, uint32_t *code, bool *is_new)
{
	size_t slot;
	int err = grow_codes(c);

	*is_new = false;
	if (err)
		return err;
	slot = find_code_slot(c, frame);
	*code = c->slots[slot].code;
	if (*code)
		return 0;
	*code = c->most;
	if (c->n >= c->most)
		return 0;
	*code = ++c->n;
	*is_new = true;
	/* Do not store the last code with FRAME, since many frames share this code. */
	if (c->n < c->most)
		c->slots[slot] = (struct coded_frame){ frame, c->n };
	return 0;
}

/* ---- locations ------------------------------------------------------------------------------- */

/*
 * Writes the source places that the codes of a memtrace file stand for. If the name of a file or
 * function is among the 31 that were used most recently, its position in the list of these names is
 * written instead of the name.
 *
 * memtrace_put_location() writes an event with these fields:
 *
 *	u64 code, u8 number of places, and for each place, the outermost first:
 *	u48 line (20 bits), first column (8), last column (10), file (5), function (5)
 *	the name of the file, if its number is 31; the name of the function, if its number is 31
 *
 * The lowest bits of the u48 come first. The numbers of files and functions are positions in lists
 * of names, which are sorted by most recent use. There is one list of files and, for each file in
 * it, one list of functions. A name that is used moves to the front of its list. The 32nd name of a
 * list is dropped; a file is dropped together with its list of functions.
 */

enum {
	RECENT = 31,
	NEW = RECENT,
	MAX_PLACES = 255,
	FIXED_BYTES = MEMTRACE_EVENT_BYTES + 8 + 1,
	PLACE_BYTES = 6,
	MAX_LINE = 0xfffff,
	MAX_START = 0xff,
	MAX_END = 0x3ff,
};

static const char more[] = "...";

struct name {
	const char *text; /* NULL: the entry is free */
	size_t bytes;
	bool is_cut; /* the name was cut, so write `more` after it */
};

struct recent_file {
	struct name name;
	struct name functions[RECENT];
};

struct memtrace_locations {
	struct recent_file files[RECENT];
};

static const char *file_of(const struct named_frame *frame)
{
	return frame->file ? frame->file : "<unknown>";
}

/* Return how many bytes a name may have in an event of N places, at most. */
static size_t longest_name(size_t n)
{
	const size_t room = MEMTRACE_PACKET_BYTES - MEMTRACE_HEADER_BYTES - FIXED_BYTES;

	return (room / n - PLACE_BYTES) / 2 - 1;
}

static struct name shorten_name(const char *text, size_t longest)
{
	struct name name = { .text = text, .bytes = strlen(text) };

	if (name.bytes <= longest)
		return name;
	name.is_cut = true;
	name.bytes = longest - (sizeof(more) - 1);
	/* Do not cut in the middle of a UTF-8 character. */
	while (name.bytes && (text[name.bytes] & 0xc0) == 0x80)
		name.bytes--;
	return name;
}

static bool is_same_name(const struct name *a, const struct name *b)
{
	return a->text && a->bytes == b->bytes && a->is_cut == b->is_cut &&
	       memcmp(a->text, b->text, a->bytes) == 0;
}

/*
 * Move NAME to the front of the list of files. Return the position that NAME had before, or NEW if
 * it was not in the list.
 */
static unsigned int use_file(struct memtrace_locations *l, struct name name)
{
	struct recent_file file = { .name = name };
	unsigned int at = 0, number;

	while (at < RECENT && !is_same_name(&l->files[at].name, &name))
		at++;
	number = at;
	if (at < RECENT)
		file = l->files[at];
	else
		at = RECENT - 1;
	memmove(l->files + 1, l->files, at * sizeof(file));
	l->files[0] = file;
	return number;
}

/* Like use_file(), but for a function of the first file in the list. */
static unsigned int use_function(struct memtrace_locations *l, struct name name)
{
	struct name *list = l->files[0].functions;
	unsigned int at = 0, number;

	while (at < RECENT && !is_same_name(&list[at], &name))
		at++;
	number = at;
	if (at == RECENT)
		at = RECENT - 1;
	memmove(list + 1, list, at * sizeof(*list));
	list[0] = name;
	return number;
}

static uint64_t at_most(uint64_t value, uint64_t most)
{
	return value < most ? value : most;
}

static void put_place(struct memtrace_locations *l, struct memtrace_packet *p,
		      const struct named_frame *frame, size_t longest)
{
	const struct name file = shorten_name(file_of(frame), longest),
			  function = shorten_name(frame->function, longest);
	const uint64_t file_number = use_file(l, file), function_number = use_function(l, function);

	memtrace_put(p,
		     at_most(frame->line, MAX_LINE) | at_most(frame->start_char, MAX_START) << 20 |
			     at_most(frame->end_char, MAX_END) << 28 | file_number << 38 |
			     function_number << 43,
		     PLACE_BYTES);
	if (file_number == NEW)
		memtrace_put_text(p, file.text, file.bytes, file.is_cut ? more : "");
	if (function_number == NEW)
		memtrace_put_text(p, function.text, function.bytes, function.is_cut ? more : "");
}

/*
 * Return an upper bound of the size of the event for FRAMES[0..N). The event always fits into an
 * empty packet.
 */
static size_t memtrace_location_bytes(const struct named_frame *const *frames, size_t n)
{
	const size_t n_places = n < MAX_PLACES ? n : MAX_PLACES, longest = longest_name(n_places);
	size_t bytes = FIXED_BYTES;

	for (size_t i = n - n_places; i < n; i++)
		bytes += PLACE_BYTES + at_most(strlen(file_of(frames[i])), longest) + 1 +
			 at_most(strlen(frames[i]->function), longest) + 1;
	return bytes;
}

/*
 * Write the event which says that CODE stands for FRAMES[0..N), the outermost first. US is the time
 * of the event in microseconds. Names that are too long for a packet are cut, and end with "...".
 * The strings of the frames must outlive LOCATIONS.
 */
static void memtrace_put_location(struct memtrace_locations *l, struct memtrace_packet *p,
				  uint64_t us, uint32_t code,
				  const struct named_frame *const *frames, size_t n)
{
	/* If N exceeds MAX_PLACES, write only the innermost frames. */
	const size_t n_places = n < MAX_PLACES ? n : MAX_PLACES, longest = longest_name(n_places);

	memtrace_put_event(p, MEMTRACE_LOCATION, us);
	memtrace_put(p, code, 8);
	memtrace_put(p, n_places, 1);
	for (size_t i = n - n_places; i < n; i++)
		put_place(l, p, frames[i], longest);
}

/* ---- stacks ---------------------------------------------------------------------------------- */

/*
 * Writes the call stacks of a memtrace file. Each frame is represented by a code, from 1. A stack,
 * outermost frame first, is written as the number of outer frames that it has in common with the
 * previous stack, followed by words for the remaining frames. A word names a bucket of a cache, of
 * which writer and reader have identical copies. A bucket contains a code and a prediction: the
 * number of the bucket that came next when this bucket was last used. So one word can stand for
 * several frames.
 *
 * A word begins with u16 bucket << 2 | tag. The tag says which codes the word stands for:
 *
 *	0	the code in the bucket
 *	1	the code in the bucket, and the code in the bucket that last came after it
 *	2	the code in the bucket, and further codes, whose number follows as u8: each is
 *		in the bucket that last came after the bucket of the code before it
 *	3	a new code for the bucket, which follows as u64
 *
 * Each word also records, for later words, that its bucket came after the last bucket of the
 * previous word. The first word of a stack counts as coming after bucket 0.
 */

enum {
	/*
	 * The maximum number of frames of a stack, including the frame that stands for an empty
	 * stack.
	 */
	MEMTRACE_MAX_DEPTH = MEMPROF_MAX_DEPTH,
	/* The maximum number of bytes that a frame takes. */
	MEMTRACE_FRAME_BYTES = 10,
};

enum { BUCKETS = 1 << 14, CHECK_STEP = 5407, MOST_PREDICTED = 255 };

enum { FOLLOWED_BY_ONE = 1, FOLLOWED_BY_MANY = 2, NEW_CODE = 3 };

struct memtrace_stacks {
	struct ocp_ctx *ctx;
	uint32_t codes[BUCKETS]; /* code in each bucket; 0: the bucket is empty */
	uint16_t next[BUCKETS];
	bool was_used[BUCKETS]; /* the bucket was used since `hand` last passed it */
	uint16_t hand;		/* where the search for a free bucket continues */
	uint16_t checked;
	/* indexed by code: 1 + the number of the bucket that contains the code; 0: no bucket */
	uint16_t *bucket_of;
	size_t room;
	uint32_t last[MEMTRACE_MAX_DEPTH];
	uint32_t n_last;
};

/* Return the length of the longest common prefix of CODES[0..N) and the previous stack. */
static uint32_t memtrace_stacks_common(const struct memtrace_stacks *s, const uint32_t *codes,
				       uint32_t n)
{
	uint32_t common = 0;

	while (common < n && common < s->n_last && codes[common] == s->last[common])
		common++;
	return common;
}

static int reserve_code(struct memtrace_stacks *s, uint32_t code)
{
	size_t room = s->room ? s->room : 1024;
	uint16_t *buckets;

	if (code < s->room)
		return 0;
	while (room <= code)
		room *= 2;
	buckets = reallocarray(s->bucket_of, room, sizeof(*buckets));
	if (!buckets)
		return ctx_no_memory(s->ctx);
	memset(buckets + s->room, 0, (room - s->room) * sizeof(*buckets));
	s->bucket_of = buckets;
	s->room = room;
	return 0;
}

/*
 * Store CODE in a bucket, which loses its previous code: the first bucket from `hand` on that was
 * not used since `hand` last passed it (the clock algorithm). Return the number of the bucket.
 */
static uint16_t take_bucket(struct memtrace_stacks *s, uint32_t code)
{
	uint16_t bucket;

	while (s->was_used[s->hand]) {
		s->was_used[s->hand] = false;
		s->hand = (uint16_t)((s->hand + 1) % BUCKETS);
	}
	bucket = s->hand;
	s->hand = (uint16_t)((s->hand + 1) % BUCKETS);
	if (s->codes[bucket])
		s->bucket_of[s->codes[bucket]] = 0;
	s->codes[bucket] = code;
	s->bucket_of[code] = (uint16_t)(bucket + 1);
	return bucket;
}

/*
 * Write a word for CODES[0] and for as many of CODES[1..N) as the cache predicts. Return the number
 * of codes that the word stands for.
 */
static uint32_t put_stack_word(struct memtrace_stacks *s, struct memtrace_packet *p,
			       const uint32_t *codes, uint32_t n, uint16_t *before)
{
	const bool is_known = s->bucket_of[codes[0]];
	uint16_t at = is_known ? (uint16_t)(s->bucket_of[codes[0]] - 1) : take_bucket(s, codes[0]);
	const uint16_t bucket = at;
	uint32_t predicted = 0;

	s->next[*before] = at;
	s->was_used[at] = true;
	while (is_known && predicted < MOST_PREDICTED && predicted + 1 < n &&
	       s->codes[s->next[at]] == codes[predicted + 1]) {
		at = s->next[at];
		s->was_used[at] = true;
		predicted++;
	}
	*before = at;
	if (!is_known) {
		memtrace_put(p, (uint64_t)bucket << 2 | NEW_CODE, 2);
		memtrace_put(p, codes[0], 8);
		return 1;
	}
	memtrace_put(p,
		     (uint64_t)bucket << 2 |
			     (predicted < FOLLOWED_BY_MANY ? predicted : FOLLOWED_BY_MANY),
		     2);
	if (predicted >= FOLLOWED_BY_MANY)
		memtrace_put(p, predicted, 1);
	return predicted + 1;
}

/*
 * Write the stack CODES[0..N), whose first COMMON frames are the same as in the previous stack:
 * write COMMON as a varying number, the number of words in COUNT_BYTES bytes, and the words, at
 * most one for each frame. Codes need not be contiguous, but memory is allocated for all codes up
 * to the largest one.
 */
static int memtrace_stacks_put(struct memtrace_stacks *s, struct memtrace_packet *p,
			       const uint32_t *codes, uint32_t n, uint32_t common,
			       size_t count_bytes)
{
	uint16_t before = 0;
	uint32_t words = 0;
	size_t count_at, end;
	int err = 0;

	for (uint32_t i = common; i < n && !err; i++)
		err = reserve_code(s, codes[i]);
	if (err)
		return err;
	memtrace_put_varying(p, common);
	count_at = p->n;
	memtrace_put(p, 0, count_bytes);
	for (uint32_t i = common; i < n; words++)
		i += put_stack_word(s, p, codes + i, n - i, &before);
	end = p->n;
	p->n = count_at;
	memtrace_put(p, words, count_bytes);
	p->n = end;
	memcpy(s->last, codes, n * sizeof(*codes));
	s->n_last = n;
	return 0;
}

/* Return a cache entry for the reader to check. Each call selects another bucket. */
static struct memtrace_check memtrace_stacks_check(struct memtrace_stacks *s)
{
	const uint16_t bucket = s->checked;

	s->checked = (uint16_t)((s->checked + CHECK_STEP) % BUCKETS);
	return (struct memtrace_check){ bucket, s->next[bucket], s->codes[bucket] };
}

/* ---- the writer ------------------------------------------------------------------------------ */

enum {
	USUAL_CODES = 1 << 20,
	WORD_BITS = 64,
	MAX_INFO_TEXT = 4095,
	/*
	 * The maximum size of an allocation event without its stack: three varying numbers, the
	 * source, and the number of words of the stack.
	 */
	ALLOC_BYTES = MEMTRACE_EVENT_BYTES + 3 * MEMTRACE_VARYING_BYTES + 1 + 2,
	CHANGE_BYTES = MEMTRACE_EVENT_BYTES + MEMTRACE_VARYING_BYTES,
	MAX_SHORT_FRAMES = 255,
};

/* The numbers that memtrace files use for the sources of allocations. */
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
	struct memtrace_codes codes;
	struct memtrace_locations locations;
	struct memtrace_stacks stacks;
	/* The stack of the current event: the codes of its frames, the outermost first. */
	uint32_t stack[MEMTRACE_MAX_DEPTH];
	uint32_t depth;
	/*
	 * The packet of locations. It is written before `events`, whose stacks need these
	 * locations.
	 */
	struct memtrace_packet places;
	struct memtrace_packet events;
};

/* The frame for the last code. All frames for which no other code is left share this code. */
static const struct named_frame other_frame = { .function = "[too many frames]",
						.kind = FRAME_UNKNOWN };

/* ---- writing packets ------------------------------------------------------------------------- */

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
	memtrace_packet_begin(&w->events, us, number, memtrace_stacks_check(&w->stacks));
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
	int err = code == w->codes.most ? 0 : w->locate(w->data, frame, &frames, &n);

	if (!err && memtrace_location_bytes(frames, n) > memtrace_packet_room(&w->places))
		err = flush_places(w);
	if (!err)
		memtrace_put_location(&w->locations, &w->places, w->places.first_us, code, frames,
				      n);
	return err;
}

static int push_frame(struct memtrace_writer *w, const uint64_t *frame)
{
	bool is_new;
	uint32_t code;
	int err = memtrace_code_of(&w->codes, frame ? *frame : 0, &code, &is_new);

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
	common = memtrace_stacks_common(&w->stacks, w->stack, w->depth);
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
	return memtrace_stacks_put(&w->stacks, &w->events, w->stack, w->depth, common,
				   is_short ? 1 : 2);
}

/*
 * Write an event of KIND for the block NUMBER, which was allocated before. In the file, a block is
 * given by its distance from the block that was allocated last.
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
	w->stacks.ctx = ctx;
	w->places.pid = w->events.pid = (uint64_t)info->pid;
	err = memtrace_codes_init(ctx, &w->codes, info->max_codes ? info->max_codes : USUAL_CODES);
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
	free(w->codes.slots);
	free(w->stacks.bucket_of);
	free(w);
}
