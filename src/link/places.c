// SPDX-License-Identifier: MIT
/*
 * Writes the table that src/program/places.c reads; the format is described there.
 *
 * The entries are sorted by file name while the names are written, so that each name is written
 * once. Then the entries are sorted by address.
 */
#include "link/places.h"

#include <stdlib.h>
#include <string.h>
#include "link/note_table.h"
#include "program/places.h"

enum { PLACES_WORDS = (PLACES_ENTRY_BYTES - sizeof(uint64_t)) / sizeof(uint32_t) };

struct place_note_entry {
	uint64_t va;
	struct marker_place place;
	uint32_t name_off;
};

static int compare_files(const struct place_note_entry *x, const struct place_note_entry *y)
{
	int bytes = x->place.file_bytes < y->place.file_bytes ? x->place.file_bytes
							      : y->place.file_bytes;
	int order = memcmp(x->place.file, y->place.file, (size_t)bytes);

	return order ? order : x->place.file_bytes - y->place.file_bytes;
}

static int compare_by_file(const void *a, const void *b)
{
	return compare_files(a, b);
}

/*
 * Fill ENTRIES with the drafts whose place in the source is known, sorted by file name. Sets *ROOM
 * to an upper limit for the size of the file names. Returns the number of entries.
 */
static size_t collect_placed_drafts(const struct note_draft *drafts, size_t n,
				    struct place_note_entry *entries, size_t *room)
{
	size_t n_entries = 0;

	*room = 0;
	for (size_t i = 0; i < n; i++) {
		struct place_note_entry *entry = &entries[n_entries];

		entry->va = drafts[i].site_va;
		n_entries += marker_read_place(drafts[i].marker, &entry->place);
	}
	qsort(entries, n_entries, sizeof(*entries), compare_by_file);
	for (size_t i = 0; i < n_entries; i++)
		if (i == 0 || compare_files(&entries[i - 1], &entries[i]) != 0)
			*room += (size_t)entries[i].place.file_bytes + 1;
	return n_entries;
}

/*
 * Write the file names to NAMES, and set the offset of each entry's file name in ENTRIES. Returns
 * the size of all names.
 */
static size_t put_names(struct place_note_entry *entries, size_t n, char *names)
{
	size_t bytes = 0, last = 0;

	for (size_t i = 0; i < n; i++) {
		if (i == 0 || compare_files(&entries[i - 1], &entries[i]) != 0) {
			last = bytes;
			bytes += marker_decode_file(&entries[i].place, names + bytes) + 1;
		}
		entries[i].name_off = (uint32_t)last;
	}
	return bytes;
}

static struct note_table_entry written_entry(const struct place_note_entry *entry)
{
	return (struct note_table_entry){ .va = entry->va,
					  .words = { entry->name_off, (uint32_t)entry->place.line,
						     (uint32_t)entry->place.column } };
}

int places_build(const struct linked_file *image, const struct note_draft *drafts, size_t n,
		 uint64_t base_va, struct layout_section *section, uint8_t **bytes)
{
	struct note_table table = { .section = PLACES_SECTION,
				    .owner = PLACES_OWNER,
				    .type = PLACES_TYPE,
				    .n_words = PLACES_WORDS,
				    .base_va = base_va };
	struct place_note_entry *entries = calloc(n + 1, sizeof(*entries));
	struct note_table_entry *written = calloc(n + 1, sizeof(*written));
	char *names = NULL;
	size_t room;
	int err;

	if (entries && written) {
		table.n = collect_placed_drafts(drafts, n, entries, &room);
		names = malloc(room + 1);
	}
	if (names) {
		table.strings_bytes = put_names(entries, table.n, names);
		table.strings = names;
		for (size_t i = 0; i < table.n; i++)
			written[i] = written_entry(&entries[i]);
		qsort(written, table.n, sizeof(*written), note_table_compare_va);
		table.entries = written;
	}
	err = names ? note_table_build(image, &table, section, bytes) : ctx_no_memory(image->ctx);
	free(names);
	free(written);
	free(entries);
	return err;
}
