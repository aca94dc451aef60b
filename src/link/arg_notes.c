// SPDX-License-Identifier: MIT
/*
 * src/program/arg_notes.c reads the table and describes its format. Like .note.stapsdt the section
 * has type SHT_NOTE and is not loaded, so that strip, objcopy and eu-strip keep it.
 *
 * A string is written once for all sites that share it with the site before: the copies of an
 * inlined probe are next to each other in most programs.
 */
#include "link/arg_notes.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include "program/arg_names.h"
#include "program/arg_notes.h"

enum {
	NOTE_ALIGN = 4,
	OWNER_ROOM = (sizeof(ARG_NOTES_OWNER) + NOTE_ALIGN - 1) / NOTE_ALIGN * NOTE_ALIGN,
};

struct entry {
	uint64_t va;
	const char *names; /* not terminated */
	size_t names_bytes;
	const char *operands;
	uint32_t names_off, operands_off;
};

static int compare_by_va(const void *a, const void *b)
{
	const struct entry *x = a, *y = b;

	return (x->va > y->va) - (x->va < y->va);
}

static size_t collect(const struct note_draft *drafts, size_t n, struct entry *entries)
{
	size_t n_entries = 0;

	for (size_t i = 0; i < n; i++) {
		const struct marker *marker = drafts[i].marker;
		const size_t names_bytes = (size_t)marker->arg_names_bytes;
		const bool has_names =
			marker->arg_names && arg_names_are_sound(marker->arg_names, names_bytes);

		if (!has_names && !drafts[i].all_args)
			continue;
		entries[n_entries++] = (struct entry){
			.va = drafts[i].site_va,
			.names = has_names ? marker->arg_names : "",
			.names_bytes = has_names ? names_bytes : 0,
			.operands = drafts[i].all_args ? drafts[i].all_args : "",
		};
	}
	qsort(entries, n_entries, sizeof(*entries), compare_by_va);
	return n_entries;
}

/* Add the N bytes of TEXT to the strings. Returns its offset. */
static uint32_t add_string(char *strings, size_t *bytes, const char *text, size_t n)
{
	const size_t at = *bytes;

	if (n == 0)
		return 0;
	memcpy(strings + at, text, n);
	strings[at + n] = '\0';
	*bytes += n + 1;
	return (uint32_t)at;
}

/* Write the strings; the empty one is the first. Returns their size. */
static size_t put_strings(struct entry *entries, size_t n, char *strings)
{
	size_t bytes = 1;

	strings[0] = '\0';
	for (size_t i = 0; i < n; i++) {
		struct entry *entry = &entries[i];
		const struct entry *last = i ? entry - 1 : NULL;

		if (last && last->names_bytes == entry->names_bytes &&
		    memcmp(last->names, entry->names, entry->names_bytes) == 0)
			entry->names_off = last->names_off;
		else
			entry->names_off =
				add_string(strings, &bytes, entry->names, entry->names_bytes);
		if (last && strcmp(last->operands, entry->operands) == 0)
			entry->operands_off = last->operands_off;
		else
			entry->operands_off = add_string(strings, &bytes, entry->operands,
							 strlen(entry->operands));
	}
	return bytes;
}

static void put(uint8_t **to, const void *bytes, size_t n)
{
	memcpy(*to, bytes, n);
	*to += n;
}

static void put_table(const struct entry *entries, size_t n, uint64_t base_va, const char *strings,
		      size_t n_strings, uint8_t *to)
{
	const size_t desc = ARG_NOTES_HEAD_BYTES + n * ARG_NOTES_ENTRY_BYTES + n_strings;
	const Elf64_Nhdr head = { sizeof(ARG_NOTES_OWNER), (Elf64_Word)desc, ARG_NOTES_TYPE };
	const uint32_t counts[] = { (uint32_t)n, (uint32_t)n_strings };

	put(&to, &head, sizeof(head));
	memcpy(to, ARG_NOTES_OWNER, sizeof(ARG_NOTES_OWNER));
	to += OWNER_ROOM;
	put(&to, &base_va, sizeof(base_va));
	put(&to, counts, sizeof(counts));
	for (size_t i = 0; i < n; i++) {
		const uint32_t offsets[] = { entries[i].names_off, entries[i].operands_off };

		put(&to, &entries[i].va, sizeof(entries[i].va));
		put(&to, offsets, sizeof(offsets));
	}
	put(&to, strings, n_strings);
}

/* The room that the strings need at most. */
static size_t strings_room(const struct entry *entries, size_t n)
{
	size_t room = 1;

	for (size_t i = 0; i < n; i++)
		room += entries[i].names_bytes + strlen(entries[i].operands) + 2;
	return room;
}

int arg_notes_build(const struct image *image, const struct note_draft *drafts, size_t n,
		    uint64_t base_va, struct layout_section *section, uint8_t **bytes)
{
	const Elf64_Shdr *old = image_find_section(image, ARG_NOTES_SECTION);
	const size_t before = sizeof(Elf64_Nhdr) + OWNER_ROOM + ARG_NOTES_HEAD_BYTES;
	struct entry *entries = calloc(n + 1, sizeof(*entries));
	size_t n_entries, room, n_strings, n_bytes = 0;
	char *strings = NULL;

	if (!entries)
		return ctx_no_memory(image->ctx);
	n_entries = collect(drafts, n, entries);
	room = before + n_entries * ARG_NOTES_ENTRY_BYTES + strings_room(entries, n_entries);
	if (room < UINT32_MAX) {
		strings = malloc(room);
		*bytes = calloc(1, room + NOTE_ALIGN);
	}
	if (strings && *bytes) {
		n_strings = put_strings(entries, n_entries, strings);
		put_table(entries, n_entries, base_va, strings, n_strings, *bytes);
		n_bytes = before + n_entries * ARG_NOTES_ENTRY_BYTES + n_strings;
		n_bytes = (n_bytes + NOTE_ALIGN - 1) / NOTE_ALIGN * NOTE_ALIGN;
	}
	free(strings);
	free(entries);
	*section = (struct layout_section){
		.name = ARG_NOTES_SECTION,
		.header = { .sh_type = SHT_NOTE, .sh_addralign = NOTE_ALIGN, .sh_size = n_bytes },
		.bytes = *bytes,
		.replaces = old ? (size_t)(old - image->sections) : 0,
	};
	return n_bytes ? 0 : ctx_no_memory(image->ctx);
}
