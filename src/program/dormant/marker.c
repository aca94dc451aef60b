// SPDX-License-Identifier: MIT
/*
 * The ppx (tools/ocaml/ppx) turns each probe into `if Sys.opaque_identity MARKER == <0>`. MARKER is
 * a string constant; ocamlopt puts it into .data, 8-aligned, after a header word:
 *
 *	-8   header      wosize << 10 | colour << 8 | 252 (String_tag)
 *	 0   u16, u16    two counters, the semaphores of a program that was not converted; in a
 *			 converted file they stay 0
 *	 4   "P1:" KIND ":" NAME "@" FILE ":" LINE ":" COLUMN, perhaps "#" N, after that perhaps
 *		 "(" ARGS ")", perhaps several "="
 *	 .   padding     the last byte of the last word is the number of padding bytes before it
 *
 * P1 is the version. KIND is
 *
 *	a number	a site with that many arguments; an i follows if it starts enabled
 *	A		the string to which the site at the same place stores its arguments, one
 *			word each; the "=" make it long enough
 *	E		[%probe_is_enabled]
 *	any other	a newer ppx wrote it
 *
 * ARGS are the names and types of the arguments, in the format of program/arg_names.c. (An older
 * ppx does not write them, and older readers ignore what follows "#".)
 *
 * FILE is as given to the compiler, with %XX for each byte that is not a letter, a digit or one of
 * _./-+; LINE counts from 1, COLUMN from 0. (An older ppx wrote '?' for each such byte, and of a
 * FILE of more than 200 bytes only "..." and the last 200.) The location is shown for the probe's
 * sites. The location also makes each probe's string unique; N differs between probes of one
 * location. If two probes shared a string, the compiler might load its address only once, for both
 * probes (CSE). If one site is then nested in the other, a converted outer site would have changed
 * the register from which the inner site takes the address.
 *
 * A string is a marker only if header, padding and text all agree. So a program that only contains
 * such text, like the ppx itself, has no markers.
 */
#include "program/dormant/marker.h"

#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include "base/array.h"
#include "base/search.h"
#include "program/dormant/x86_args.h"

enum {
	STRING_TAG = 252,
	WORD = 8,
	MAX_MARKERS = 1 << 21,
	/* limit for a line or a column, which has at most 8 digits */
	MAX_NUMBER = 10 * 1000 * 1000,
};

static const char magic[] = "\0\0\0\0P1:";

enum { MAGIC_BYTES = sizeof(magic) - 1 };
_Static_assert((int)MARKER_START_BYTES == (int)MAGIC_BYTES, "the start of a marker");

bool marker_starts_with(const uint8_t bytes[MARKER_START_BYTES])
{
	return memcmp(bytes, magic, MAGIC_BYTES) == 0;
}

/*
 * The size of one read, and the limit for the data that is searched. Most files without markers
 * have only a few KB of data that stay writable, so one read shows that they have no marker. No
 * OCaml program has more data than the limit.
 */
enum { WINDOW_BYTES = 64 * 1024 };
#define MAX_DATA_BYTES (UINT64_C(256) << 20)

static uint64_t read_u64(const uint8_t *bytes)
{
	uint64_t word;

	memcpy(&word, bytes, sizeof(word));
	return word;
}

/* Return the length of the OCaml string at BYTES + POS, or 0 if no well-formed string is there. */
static size_t string_length(const uint8_t *bytes, size_t n_bytes, size_t pos)
{
	uint64_t header, words;
	size_t last;

	if (pos < WORD)
		return 0;
	header = read_u64(bytes + pos - WORD);
	words = header >> 10;
	if ((header & 0xff) != STRING_TAG || words == 0 || words > (n_bytes - pos) / WORD)
		return 0;
	last = words * WORD - 1;
	if (bytes[pos + last] >= WORD)
		return 0;
	return last - bytes[pos + last];
}

static bool is_name_char(int c)
{
	return isalnum(c) || c == '_';
}

static void parse_kind(const char *text, size_t n, struct marker *marker)
{
	size_t n_args = 0, i;

	marker->kind = MARKER_FOREIGN;
	for (i = 0; i < n && i < 3 && isdigit((unsigned char)text[i]); i++)
		n_args = n_args * 10 + (size_t)(text[i] - '0');
	if (i > 0 && n_args <= X86_MAX_ARGS && (i == n || (i + 1 == n && text[i] == 'i'))) {
		marker->kind = MARKER_SITE;
		marker->n_args = n_args;
		marker->enabled_at_init = i < n;
	} else if (n == 1 && *text == 'A') {
		marker->kind = MARKER_ARGS;
	} else if (n == 1 && *text == 'E') {
		marker->kind = MARKER_IS_ENABLED;
	}
}

/* Set arg_names of MARKER from "(ARGS)" at the end of the text after "@". */
static void find_arg_names(struct marker *marker)
{
	const char *end = marker->where + marker->where_bytes;
	const char *copy = memchr(marker->where, '#', (size_t)marker->where_bytes);
	const char *open = copy ? memchr(copy, '(', (size_t)(end - copy)) : NULL;

	if (!open || end[-1] != ')')
		return;
	marker->arg_names = open + 1;
	marker->arg_names_bytes = (int)(end - 1 - marker->arg_names);
}

/*
 * Parse TEXT, the part of a string after the magic, into MARKER. Return false if TEXT is not the
 * text of a marker.
 */
static bool parse_marker(const char *text, size_t n, struct marker *marker)
{
	const char *colon = memchr(text, ':', n);
	const char *end = text + n;
	const char *at;

	if (!colon || n > MARKER_MAX_BYTES)
		return false;
	for (at = colon + 1; at < end && is_name_char((unsigned char)*at); at++)
		;
	if (colon == text || at == end || *at != '@')
		return false;
	for (const char *c = at; c < end; c++)
		if (!isgraph((unsigned char)*c))
			return false;
	while (end[-1] == '=')
		end--;
	parse_kind(text, (size_t)(colon - text), marker);
	marker->name = colon + 1;
	marker->name_bytes = (int)(at - marker->name);
	marker->where = at + 1;
	marker->where_bytes = (int)(end - marker->where);
	find_arg_names(marker);
	return true;
}

static int append_marker(struct ocp_ctx *ctx, struct marker_set *set, const struct marker *marker)
{
	struct marker *new;

	if (set->n_markers == MAX_MARKERS)
		return ctx_error(ctx, -EBADMSG, "more probes than the limit of %d", MAX_MARKERS);
	new = array_add(set->markers, set->n_markers);
	if (!new)
		return ctx_no_memory(ctx);
	*new = *marker;
	return 0;
}

/* Return true if the string at BYTES + POS is a marker, and fill all of *MARKER but its address. */
static bool read_marker(const uint8_t *bytes, size_t n_bytes, size_t pos, struct marker *marker)
{
	size_t length;

	if (n_bytes - pos < MAGIC_BYTES || memcmp(bytes + pos, magic, MAGIC_BYTES) != 0)
		return false;
	length = string_length(bytes, n_bytes, pos);
	return length >= MAGIC_BYTES &&
	       parse_marker((const char *)bytes + pos + MAGIC_BYTES, length - MAGIC_BYTES, marker);
}

static int scan_data_section(struct ocp_ctx *ctx, const struct object_section *section,
			     struct marker_set *set)
{
	const uint8_t *bytes = section->bytes;
	size_t n_bytes = section->n_bytes;

	for (size_t pos = (WORD - section->va % WORD) % WORD; pos < n_bytes && n_bytes - pos > WORD;
	     pos += WORD) {
		struct marker marker = { .va = section->va + pos };
		int err;

		if (!read_marker(bytes, n_bytes, pos, &marker))
			continue;
		err = append_marker(ctx, set, &marker);
		if (err)
			return err;
	}
	return 0;
}

static int compare_va(const void *a, const void *b)
{
	const struct marker *x = a, *y = b;

	return COMPARE(x->va, y->va);
}

static int compare_marker_names(const void *a, const void *b)
{
	const struct marker *x = *(struct marker *const *)a, *y = *(struct marker *const *)b;
	int shorter = x->name_bytes < y->name_bytes ? x->name_bytes : y->name_bytes;
	int order = memcmp(x->name, y->name, (size_t)shorter);

	return order ? order : x->name_bytes - y->name_bytes;
}

static int group_by_name(struct ocp_ctx *ctx, struct marker_set *set)
{
	struct marker **by_name = calloc(set->n_markers, sizeof(struct marker *));

	set->probes = calloc(set->n_markers, sizeof(*set->probes));
	if (!by_name || !set->probes) {
		free(by_name);
		return ctx_no_memory(ctx);
	}
	for (size_t i = 0; i < set->n_markers; i++)
		by_name[i] = &set->markers[i];
	qsort(by_name, set->n_markers, sizeof(struct marker *), compare_marker_names);
	for (size_t i = 0; i < set->n_markers; i++) {
		if (i == 0 || compare_marker_names(&by_name[i - 1], &by_name[i]) != 0)
			set->n_probes++;
		by_name[i]->probe = set->n_probes - 1;
	}
	free(by_name);
	return 0;
}

/* Set *FOUND to true if the magic occurs in the BYTES bytes at offset OFF of the file. */
static int look_for_magic(struct elf_file *elf, uint64_t off, uint64_t bytes, uint8_t *window,
			  bool *found)
{
	while (!*found && bytes >= MAGIC_BYTES) {
		size_t n = bytes < WINDOW_BYTES ? (size_t)bytes : WINDOW_BYTES;
		int err = elf_file_read(elf, off, window, n);

		if (err)
			return err;
		*found = memmem(window, n, magic, MAGIC_BYTES);
		/* Read the last bytes of the window again: the magic may begin there. */
		off += n - (MAGIC_BYTES - 1);
		bytes -= n - (MAGIC_BYTES - 1);
	}
	return 0;
}

int marker_may_be_in(struct ocp_ctx *ctx, struct elf_file *elf, bool *may)
{
	const struct elf_segment *segments;
	uint64_t n_looked_at = 0;
	uint8_t *window = NULL;
	size_t n;
	int err = 0;

	*may = false;
	segments = elf_file_segments(elf, &n);
	for (size_t i = 0; i < n && !*may && !err; i++) {
		const struct elf_segment *segment = &segments[i];
		uint64_t skipped = segment->relro_bytes, bytes = segment->file_bytes;

		if (!segment->writable || skipped > bytes || bytes - skipped < MAGIC_BYTES ||
		    bytes - skipped > MAX_DATA_BYTES - n_looked_at)
			continue;
		n_looked_at += bytes - skipped;
		if (!window)
			window = malloc(WINDOW_BYTES);
		if (!window)
			return ctx_no_memory(ctx);
		err = look_for_magic(elf, segment->off + skipped, bytes - skipped, window, may);
	}
	free(window);
	/*
	 * Report no error if the file is truncated: a truncated program cannot run, so its probes
	 * need not be found.
	 */
	return err == -EBADMSG ? 0 : err;
}

static int sort_set(const struct object *object, struct marker_set *set, int err)
{
	if (!err && set->n_markers) {
		qsort(set->markers, set->n_markers, sizeof(*set->markers), compare_va);
		err = group_by_name(object->ctx, set);
	}
	if (err)
		marker_set_free(set);
	return err;
}

int marker_set_read(const struct object *object, struct marker_set *set)
{
	int err = 0;

	memset(set, 0, sizeof(*set));
	for (size_t i = 0; i < object->n_sections && !err; i++)
		if (object->sections[i].kind == OBJECT_DATA)
			err = scan_data_section(object->ctx, &object->sections[i], set);
	return sort_set(object, set, err);
}

int marker_set_read_external(const struct object *object, struct marker_set *set)
{
	int err = 0;

	memset(set, 0, sizeof(*set));
	for (size_t i = 0; i < object->n_externals && !err; i++) {
		const struct object_external *external = &object->externals[i];
		struct marker marker = { .va = external->va };

		if (external->n_bytes > WORD &&
		    read_marker(external->bytes, external->n_bytes, WORD, &marker))
			err = append_marker(object->ctx, set, &marker);
	}
	return sort_set(object, set, err);
}

void marker_set_free(struct marker_set *set)
{
	free(set->markers);
	free(set->probes);
	memset(set, 0, sizeof(*set));
}

bool marker_same_place(const struct marker *a, const struct marker *b)
{
	return a->probe == b->probe && a->where_bytes == b->where_bytes &&
	       memcmp(a->where, b->where, (size_t)a->where_bytes) == 0;
}

/*
 * Remove ":" and a number from the end of the *N bytes at TEXT, and set *NUMBER. Return false if
 * TEXT does not end with ":" and a number.
 */
static bool take_last_number(const char *text, int *n, int *number)
{
	int at = *n, scale = 1;

	*number = 0;
	while (at > 0 && isdigit((unsigned char)text[at - 1]) && scale <= MAX_NUMBER) {
		*number += (text[--at] - '0') * scale;
		scale *= 10;
	}
	if (at == *n || at == 0 || text[at - 1] != ':')
		return false;
	*n = at - 1;
	return true;
}

bool marker_read_place(const struct marker *marker, struct marker_place *place)
{
	const char *copy = memchr(marker->where, '#', (size_t)marker->where_bytes);
	int n = copy ? (int)(copy - marker->where) : marker->where_bytes;

	place->file = marker->where;
	if (!take_last_number(marker->where, &n, &place->column) ||
	    !take_last_number(marker->where, &n, &place->line) || place->line == 0)
		return false;
	place->file_bytes = n;
	return n > 0;
}

/*
 * Decode the three characters %XX at C to *BYTE. Return false if the characters do not have this
 * form.
 */
static bool decode_percent(const char *c, unsigned char *byte)
{
	const char hex[] = { c[1], c[2], '\0' };

	if (c[0] != '%' || !isxdigit((unsigned char)c[1]) || !isxdigit((unsigned char)c[2]))
		return false;
	*byte = (unsigned char)strtoul(hex, NULL, 16);
	return true;
}

size_t marker_decode_file(const struct marker_place *place, char *to)
{
	size_t n = 0;

	for (int i = 0; i < place->file_bytes; i++) {
		unsigned char byte = (unsigned char)place->file[i];

		if (place->file_bytes - i > 2 && decode_percent(place->file + i, &byte))
			i += 2;
		to[n++] = byte < ' ' || byte == 0x7f ? '?' : (char)byte;
	}
	to[n] = '\0';
	return n;
}

struct marker *marker_set_find(const struct marker_set *set, uint64_t va)
{
	const struct marker key = { .va = va };

	/* Check the range first: nearly all addresses are outside the range of the markers. */
	if (set->n_markers == 0 || va < set->markers[0].va ||
	    va > set->markers[set->n_markers - 1].va)
		return NULL;
	return bsearch(&key, set->markers, set->n_markers, sizeof(key), compare_va);
}
