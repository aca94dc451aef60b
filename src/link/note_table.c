// SPDX-License-Identifier: MIT
#include "link/note_table.h"
#include "base/search.h"

#include <stdlib.h>
#include <string.h>

enum { NOTE_ALIGN = 4 };

static size_t aligned(size_t bytes)
{
	return (bytes + NOTE_ALIGN - 1) / NOTE_ALIGN * NOTE_ALIGN;
}

int note_table_compare_va(const void *a, const void *b)
{
	const uint64_t *x = a, *y = b;

	return COMPARE(*x, *y);
}

static void put_table_bytes(uint8_t **to, const void *bytes, size_t n)
{
	memcpy(*to, bytes, n);
	*to += n;
}

static size_t description_bytes(const struct note_table *table)
{
	const size_t head = sizeof(uint64_t) + 2 * sizeof(uint32_t),
		     entry = sizeof(uint64_t) + table->n_words * sizeof(uint32_t);

	return head + table->n * entry + table->strings_bytes;
}

static void put_table(const struct note_table *table, uint8_t *to)
{
	const size_t owner_bytes = strlen(table->owner) + 1;
	const Elf64_Nhdr head = { (Elf64_Word)owner_bytes, (Elf64_Word)description_bytes(table),
				  table->type };
	const uint32_t counts[] = { (uint32_t)table->n, (uint32_t)table->strings_bytes };

	put_table_bytes(&to, &head, sizeof(head));
	memcpy(to, table->owner, owner_bytes);
	to += aligned(owner_bytes);
	put_table_bytes(&to, &table->base_va, sizeof(table->base_va));
	put_table_bytes(&to, counts, sizeof(counts));
	for (size_t i = 0; i < table->n; i++) {
		const struct note_table_entry *entry = &table->entries[i];

		put_table_bytes(&to, &entry->va, sizeof(entry->va));
		put_table_bytes(&to, entry->words, table->n_words * sizeof(*entry->words));
	}
	put_table_bytes(&to, table->strings, table->strings_bytes);
}

int note_table_build(const struct linked_file *image, const struct note_table *table,
		     struct layout_section *section, uint8_t **bytes)
{
	const Elf64_Shdr *old = image_find_section(image, table->section);
	const size_t n_bytes = sizeof(Elf64_Nhdr) + aligned(strlen(table->owner) + 1) +
			       aligned(description_bytes(table));

	*bytes = n_bytes <= UINT32_MAX ? calloc(1, n_bytes) : NULL;
	if (!*bytes)
		return ctx_no_memory(image->ctx);
	put_table(table, *bytes);
	*section = (struct layout_section){
		.name = table->section,
		.header = { .sh_type = SHT_NOTE, .sh_addralign = NOTE_ALIGN, .sh_size = n_bytes },
		.bytes = *bytes,
		.replaces = old ? (size_t)(old - image->sections) : 0,
	};
	return 0;
}
