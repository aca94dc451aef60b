// SPDX-License-Identifier: MIT
/*
 * Writes the table that src/program/arg_notes.c reads; the format is described there.
 *
 * The copies of an inlined probe have equal strings, and are next to each other in most programs.
 * So a site shares the string of the previous site if both strings are equal.
 */
#include "link/arg_notes.h"

#include <stdlib.h>
#include <string.h>
#include "link/note_table.h"
#include "program/arg_names.h"
#include "program/arg_notes.h"

enum { ARG_NOTES_WORDS = (ARG_NOTES_ENTRY_BYTES - sizeof(uint64_t)) / sizeof(uint32_t) };

struct arg_note_entry {
	uint64_t va;
	const char *names; /* not terminated */
	size_t names_bytes;
	const char *operands;
	uint32_t names_off, operands_off;
};

static size_t collect_arg_drafts(const struct note_draft *drafts, size_t n,
				 struct arg_note_entry *entries)
{
	size_t n_entries = 0;

	for (size_t i = 0; i < n; i++) {
		const struct marker *marker = drafts[i].marker;
		const size_t names_bytes = (size_t)marker->arg_names_bytes;
		const bool has_names =
			marker->arg_names && arg_names_are_sound(marker->arg_names, names_bytes);

		if (!has_names && !drafts[i].all_args)
			continue;
		entries[n_entries++] = (struct arg_note_entry){
			.va = drafts[i].site_va,
			.names = has_names ? marker->arg_names : "",
			.names_bytes = has_names ? names_bytes : 0,
			.operands = drafts[i].all_args ? drafts[i].all_args : "",
		};
	}
	qsort(entries, n_entries, sizeof(*entries), note_table_compare_va);
	return n_entries;
}

/*
 * Append TEXT[0..N) and a terminating 0 to STRINGS, and increase *BYTES, the size of STRINGS.
 * Returns the offset of TEXT in STRINGS; if N is 0, returns 0, the offset of the empty string.
 */
static uint32_t append_note_string(char *strings, size_t *bytes, const char *text, size_t n)
{
	const size_t at = *bytes;

	if (n == 0)
		return 0;
	memcpy(strings + at, text, n);
	strings[at + n] = '\0';
	*bytes += n + 1;
	return (uint32_t)at;
}

/*
 * Write the strings of ENTRIES to STRINGS, and set the offset of each string in its entry. The
 * string at offset 0 is empty. Returns the size of all strings.
 */
static size_t put_strings(struct arg_note_entry *entries, size_t n, char *strings)
{
	size_t bytes = 1;

	strings[0] = '\0';
	for (size_t i = 0; i < n; i++) {
		struct arg_note_entry *entry = &entries[i];
		const struct arg_note_entry *last = i ? entry - 1 : NULL;

		if (last && last->names_bytes == entry->names_bytes &&
		    memcmp(last->names, entry->names, entry->names_bytes) == 0)
			entry->names_off = last->names_off;
		else
			entry->names_off = append_note_string(strings, &bytes, entry->names,
							      entry->names_bytes);
		if (last && strcmp(last->operands, entry->operands) == 0)
			entry->operands_off = last->operands_off;
		else
			entry->operands_off = append_note_string(strings, &bytes, entry->operands,
								 strlen(entry->operands));
	}
	return bytes;
}

/* Return an upper limit for the size of the strings of ENTRIES. */
static size_t strings_room(const struct arg_note_entry *entries, size_t n)
{
	size_t room = 1;

	for (size_t i = 0; i < n; i++)
		room += entries[i].names_bytes + strlen(entries[i].operands) + 2;
	return room;
}

static struct note_table_entry written_entry(const struct arg_note_entry *entry)
{
	return (struct note_table_entry){ .va = entry->va,
					  .words = { entry->names_off, entry->operands_off } };
}

int arg_notes_build(const struct linked_file *image, const struct note_draft *drafts, size_t n,
		    uint64_t base_va, struct layout_section *section, uint8_t **bytes)
{
	struct note_table table = { .section = ARG_NOTES_SECTION,
				    .owner = ARG_NOTES_OWNER,
				    .type = ARG_NOTES_TYPE,
				    .n_words = ARG_NOTES_WORDS,
				    .base_va = base_va };
	struct arg_note_entry *entries = calloc(n + 1, sizeof(*entries));
	struct note_table_entry *written = calloc(n + 1, sizeof(*written));
	char *strings = NULL;
	int err;

	if (entries && written) {
		table.n = collect_arg_drafts(drafts, n, entries);
		strings = malloc(strings_room(entries, table.n));
	}
	if (strings) {
		table.strings_bytes = put_strings(entries, table.n, strings);
		table.strings = strings;
		for (size_t i = 0; i < table.n; i++)
			written[i] = written_entry(&entries[i]);
		table.entries = written;
	}
	err = strings ? note_table_build(image, &table, section, bytes) : ctx_no_memory(image->ctx);
	free(strings);
	free(written);
	free(entries);
	return err;
}
