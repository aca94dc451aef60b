// SPDX-License-Identifier: MIT
/*
 * src/program/places.c reads the table and describes its format. Like .note.stapsdt the section has
 * type SHT_NOTE and is not loaded: strip, objcopy and eu-strip keep sections of this type.
 *
 * To write each file name once, the entries are sorted by name first, and then by address.
 */
#include "link/places.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include "program/places.h"

struct entry {
	uint64_t va;
	struct marker_place place;
	uint32_t name_off;
};

static int compare_files(const struct entry *x, const struct entry *y)
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

static int compare_by_va(const void *a, const void *b)
{
	const struct entry *x = a, *y = b;

	return (x->va > y->va) - (x->va < y->va);
}

/* Collect the drafts with a known place. *ROOM is an upper limit for the size of the names. */
static size_t collect(const struct note_draft *drafts, size_t n, struct entry *entries,
		      size_t *room)
{
	size_t n_entries = 0;

	*room = 0;
	for (size_t i = 0; i < n; i++) {
		struct entry *entry = &entries[n_entries];

		entry->va = drafts[i].site_va;
		n_entries += marker_read_place(drafts[i].marker, &entry->place);
	}
	qsort(entries, n_entries, sizeof(*entries), compare_by_file);
	for (size_t i = 0; i < n_entries; i++)
		if (i == 0 || compare_files(&entries[i - 1], &entries[i]) != 0)
			*room += (size_t)entries[i].place.file_bytes + 1;
	return n_entries;
}

/* Write the names. Returns their size. */
static size_t put_names(struct entry *entries, size_t n, char *names)
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

static void put(uint8_t **to, const void *bytes, size_t n)
{
	memcpy(*to, bytes, n);
	*to += n;
}

static void put_table(const struct entry *entries, size_t n, uint64_t base_va, const char *names,
		      size_t names_bytes, uint8_t *to)
{
	const size_t desc = PLACES_HEAD_BYTES + n * PLACES_ENTRY_BYTES + names_bytes;
	const Elf64_Nhdr head = { sizeof(PLACES_OWNER), (Elf64_Word)desc, PLACES_TYPE };
	const uint32_t counts[] = { (uint32_t)n, (uint32_t)names_bytes };

	put(&to, &head, sizeof(head));
	memcpy(to, PLACES_OWNER, sizeof(PLACES_OWNER));
	to += (sizeof(PLACES_OWNER) + 3) / 4 * 4;
	put(&to, &base_va, sizeof(base_va));
	put(&to, counts, sizeof(counts));
	for (size_t i = 0; i < n; i++) {
		const uint32_t words[] = { entries[i].name_off, (uint32_t)entries[i].place.line,
					   (uint32_t)entries[i].place.column };

		put(&to, &entries[i].va, sizeof(entries[i].va));
		put(&to, words, sizeof(words));
	}
	put(&to, names, names_bytes);
}

int places_build(const struct image *image, const struct note_draft *drafts, size_t n,
		 uint64_t base_va, struct layout_section *section, uint8_t **bytes)
{
	const Elf64_Shdr *old = image_find_section(image, PLACES_SECTION);
	struct entry *entries = calloc(n + 1, sizeof(*entries));
	size_t room, n_entries, names_bytes, n_bytes;
	char *names;

	if (!entries)
		return ctx_no_memory(image->ctx);
	n_entries = collect(drafts, n, entries, &room);
	names = malloc(room + 1);
	n_bytes = sizeof(Elf64_Nhdr) + sizeof(PLACES_OWNER) + PLACES_HEAD_BYTES +
		  n_entries * PLACES_ENTRY_BYTES + room + 8;
	*bytes = calloc(1, n_bytes);
	if (!names || !*bytes || n_bytes > UINT32_MAX) {
		free(names);
		free(entries);
		return ctx_no_memory(image->ctx);
	}
	names_bytes = put_names(entries, n_entries, names);
	qsort(entries, n_entries, sizeof(*entries), compare_by_va);
	put_table(entries, n_entries, base_va, names, names_bytes, *bytes);
	n_bytes = sizeof(Elf64_Nhdr) + (sizeof(PLACES_OWNER) + 3) / 4 * 4 + PLACES_HEAD_BYTES +
		  n_entries * PLACES_ENTRY_BYTES + (names_bytes + 3) / 4 * 4;
	*section = (struct layout_section){
		.name = PLACES_SECTION,
		.header = { .sh_type = SHT_NOTE, .sh_addralign = 4, .sh_size = n_bytes },
		.bytes = *bytes,
		.replaces = old ? (size_t)(old - image->sections) : 0,
	};
	free(names);
	free(entries);
	return 0;
}
