// SPDX-License-Identifier: MIT
/*
 * The ppx (tools/ocaml/ppx) makes `if Sys.opaque_identity MARKER == <0>` of every probe. MARKER is
 *a string constant; ocamlopt puts it into .data, 8-aligned, behind a header word:
 *
 *	-8   header      wosize << 10 | colour << 8 | 252 (String_tag)
 *	 0   u16         the semaphore that tracers count in (ABI v1)
 *	 2   u16         the semaphore that OCaml's side counts in and [%probe_is_enabled] reads
 *	 4   "P1:" KIND ":" NAME "@" FILE ":" LINE ":" COLUMN, perhaps "#" N
 *	 .   padding     the last byte of the last word is the number of padding bytes before it
 *
 * P1 is the version. KIND is 0 for a site without arguments, 0i for one that is enabled from the
 * start, E for [%probe_is_enabled]; whatever else, a newer ppx wrote. The location serves messages,
 * and makes every probe's string a different one: were two probes to share one, CSE might load its
 * address once for both, and a nested site would find the register changed.
 *
 * A string only counts as a marker if header, padding and text all agree, so that a program which
 * merely mentions the format (the ppx itself does) has none.
 */
#include "link/marker.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

enum {
	STRING_TAG = 252,
	WORD = 8,
};

static const char magic[] = "\0\0\0\0P1:";

enum { MAGIC_BYTES = sizeof(magic) - 1 };

static uint64_t read_u64(const uint8_t *bytes)
{
	uint64_t word;

	memcpy(&word, bytes, sizeof(word));
	return word;
}

/* The length of the OCaml string at BYTES + POS, or 0 if there is no well-formed one. */
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

/* Parse TEXT, what follows the magic. False: not a marker after all. */
static bool parse(const char *text, size_t n, struct marker *marker)
{
	const char *colon = memchr(text, ':', n);
	const char *end = text + n;
	size_t kind_bytes;
	const char *at;

	if (!colon || n > 4096)
		return false;
	kind_bytes = (size_t)(colon - text);
	for (at = colon + 1; at < end && is_name_char((unsigned char)*at); at++)
		;
	if (kind_bytes == 0 || at == end || *at != '@')
		return false;
	for (const char *c = at; c < end; c++)
		if (!isgraph((unsigned char)*c))
			return false;

	marker->enabled_at_init = false;
	if (kind_bytes == 1 && *text == '0') {
		marker->kind = MARKER_SITE;
	} else if (kind_bytes == 2 && memcmp(text, "0i", 2) == 0) {
		marker->kind = MARKER_SITE;
		marker->enabled_at_init = true;
	} else if (kind_bytes == 1 && *text == 'E') {
		marker->kind = MARKER_IS_ENABLED;
	} else {
		marker->kind = MARKER_FOREIGN;
	}
	marker->name = colon + 1;
	marker->name_bytes = (int)(at - marker->name);
	marker->where = at + 1;
	marker->where_bytes = (int)(end - marker->where);
	return true;
}

static int append(struct ocp_ctx *ctx, struct marker_set *set, size_t *room,
		  const struct marker *marker)
{
	if (set->n_markers == *room) {
		size_t more = *room ? *room * 2 : 256;
		struct marker *markers = reallocarray(set->markers, more, sizeof(*markers));

		if (!markers)
			return ctx_no_memory(ctx);
		set->markers = markers;
		*room = more;
	}
	set->markers[set->n_markers++] = *marker;
	return 0;
}

static int scan_section(const struct image *image, const Elf64_Shdr *section,
			struct marker_set *set, size_t *room)
{
	const uint8_t *bytes = image->bytes + section->sh_offset;
	size_t n_bytes = section->sh_size;

	for (size_t pos = (WORD - section->sh_addr % WORD) % WORD;
	     pos < n_bytes && n_bytes - pos > WORD; pos += WORD) {
		struct marker marker = { .va = section->sh_addr + pos,
					 .off = section->sh_offset + pos };
		size_t length;
		int err;

		if (memcmp(bytes + pos, magic, MAGIC_BYTES) != 0)
			continue;
		length = string_length(bytes, n_bytes, pos);
		if (length < MAGIC_BYTES ||
		    !parse((const char *)bytes + pos + MAGIC_BYTES, length - MAGIC_BYTES, &marker))
			continue;
		err = append(image->ctx, set, room, &marker);
		if (err)
			return err;
	}
	return 0;
}

static int compare_va(const void *a, const void *b)
{
	const struct marker *x = a, *y = b;

	return x->va < y->va ? -1 : x->va > y->va;
}

static int compare_name(const void *a, const void *b)
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
	qsort(by_name, set->n_markers, sizeof(struct marker *), compare_name);
	for (size_t i = 0; i < set->n_markers; i++) {
		if (i == 0 || compare_name(&by_name[i - 1], &by_name[i]) != 0)
			set->n_probes++;
		by_name[i]->probe = set->n_probes - 1;
	}
	free(by_name);
	return 0;
}

int marker_set_read(const struct image *image, struct marker_set *set)
{
	size_t room = 0;
	int err = 0;

	memset(set, 0, sizeof(*set));
	for (size_t i = 1; i < image->n_sections && !err; i++) {
		const Elf64_Shdr *section = &image->sections[i];

		if (image_section_is_data(section) && image_section_is_loaded(image, section))
			err = scan_section(image, section, set, &room);
	}
	if (!err && set->n_markers) {
		qsort(set->markers, set->n_markers, sizeof(*set->markers), compare_va);
		err = group_by_name(image->ctx, set);
	}
	if (err)
		marker_set_free(set);
	return err;
}

void marker_set_free(struct marker_set *set)
{
	free(set->markers);
	free(set->probes);
	memset(set, 0, sizeof(*set));
}

struct marker *marker_set_find(const struct marker_set *set, uint64_t va)
{
	const struct marker key = { .va = va };

	/* Nearly every address that is asked for lies outside of the markers' range. */
	if (set->n_markers == 0 || va < set->markers[0].va ||
	    va > set->markers[set->n_markers - 1].va)
		return NULL;
	return bsearch(&key, set->markers, set->n_markers, sizeof(key), compare_va);
}
