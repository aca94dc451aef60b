/* SPDX-License-Identifier: MIT */
/*
 * A table of sites, in a note with its own section. Like .note.stapsdt, the section has type
 * SHT_NOTE and is not loaded: strip, objcopy and eu-strip keep sections of this type.
 *
 * The note's description has three parts: a header (the address of .stapsdt.base when the table was
 * written, the number of entries, and the size of the strings in bytes), the entries (each has an
 * address and some words), and the strings.
 */
#ifndef LINK_NOTE_TABLE_H
#define LINK_NOTE_TABLE_H

#include <elf.h>
#include <stddef.h>
#include <stdint.h>
#include "link/image.h"
#include "link/layout.h"

enum { NOTE_TABLE_MAX_WORDS = 3 };

struct note_table_entry {
	uint64_t va;
	uint32_t words[NOTE_TABLE_MAX_WORDS];
};

struct note_table {
	const char *section, *owner; /* the names of the section and of the note's owner */
	Elf64_Word type;	     /* the type of the note */
	size_t n_words;		     /* the number of words of each entry */
	uint64_t base_va;
	const struct note_table_entry *entries; /* sorted by address */
	size_t n;
	const char *strings;
	size_t strings_bytes;
};

/* A comparison function for qsort(3), for structs that begin with an address of type uint64_t. */
int note_table_compare_va(const void *a, const void *b);

/*
 * Build *SECTION from TABLE. Sets *BYTES to the note; the caller frees *BYTES. A section of IMAGE
 * with the same name is replaced. Returns 0, or -ENOMEM with a message.
 */
int note_table_build(const struct linked_file *image, const struct note_table *table,
		     struct layout_section *section, uint8_t **bytes);

#endif
