// SPDX-License-Identifier: MIT
/*
 * memtrace_put_location() writes an event with these fields:
 *
 *	u64 code, u8 number of places, and for each place, the outermost first:
 *	u48 line (20 bits), first column (8), last column (10), file (5), function (5)
 *	the name of the file, if its number is 31; the name of the function, if its number is 31
 *
 * The lowest bits of the u48 come first. The numbers of files and functions are positions in lists
 * of names, in which the name that was used last is the first. There is one list of files and, for
 * each file in it, one list of functions. A name that is used moves to the front of its list. The
 * 32nd name of a list is dropped; a file is dropped together with its list of functions.
 */
#include "memprof/memtrace_locations.h"

#include <stdlib.h>
#include <string.h>

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
	bool is_cut; /* the name was cut; `more` is written after it */
};

struct recent_file {
	struct name name;
	struct name functions[RECENT];
};

struct memtrace_locations {
	struct recent_file files[RECENT];
};

int memtrace_locations_new(struct ocp_ctx *ctx, struct memtrace_locations **out)
{
	*out = calloc(1, sizeof(**out));
	return *out ? 0 : ctx_no_memory(ctx);
}

void memtrace_locations_free(struct memtrace_locations *locations)
{
	free(locations);
}

/* ---- names ----------------------------------------------------------------------------------- */

static const char *file_of(const struct named_frame *frame)
{
	return frame->file ? frame->file : "<unknown>";
}

/* Return the most bytes that a name may have in an event of N places. */
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
 * Move NAME to the front of the list of files. Return its previous position, or NEW if it was not
 * in the list.
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

/* ---- the event ------------------------------------------------------------------------------- */

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

size_t memtrace_location_bytes(const struct named_frame *const *frames, size_t n)
{
	const size_t n_places = n < MAX_PLACES ? n : MAX_PLACES, longest = longest_name(n_places);
	size_t bytes = FIXED_BYTES;

	for (size_t i = n - n_places; i < n; i++)
		bytes += PLACE_BYTES + at_most(strlen(file_of(frames[i])), longest) + 1 +
			 at_most(strlen(frames[i]->function), longest) + 1;
	return bytes;
}

void memtrace_put_location(struct memtrace_locations *l, struct memtrace_packet *p, uint64_t us,
			   uint32_t code, const struct named_frame *const *frames, size_t n)
{
	/* If there are too many places, write the innermost ones. */
	const size_t n_places = n < MAX_PLACES ? n : MAX_PLACES, longest = longest_name(n_places);

	memtrace_put_event(p, MEMTRACE_LOCATION, us);
	memtrace_put(p, code, 8);
	memtrace_put(p, n_places, 1);
	for (size_t i = n - n_places; i < n; i++)
		put_place(l, p, frames[i], longest);
}
