/* SPDX-License-Identifier: MIT */
/*
 * Reads the ELF notes in a section: the stapsdt notes of probes, and raw notes of any owner.
 * Addresses are as in the file, without the prelink correction. See note.c for the format.
 */
#ifndef PROGRAM_NOTE_H
#define PROGRAM_NOTE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct note {
	uint64_t off;	  /* offset of the note in the section */
	uint64_t site_va; /* address before the prelink correction; 0: the note has no site */
	uint64_t base_va; /* address of section .stapsdt.base when the note was written */
	/* Address before the prelink correction; 0: the note has no semaphore. */
	uint64_t semaphore_va;
	const char *provider; /* provider, name and args point into the section's bytes */
	const char *name;
	const char *args;
};

struct note_reader {
	const uint8_t *bytes;
	size_t n_bytes;
	size_t pos;
	/* after note_next() has returned -1: what is wrong with the note at `pos` */
	const char *why;
};

/* A note of any owner. `owner` and `desc` point into the section's bytes. */
struct raw_note {
	const uint8_t *owner, *desc;
	size_t owner_bytes, desc_bytes;
	uint32_t type;
	size_t off; /* offset of the note in the section */
};

void note_reader_init(struct note_reader *reader, const uint8_t *bytes, size_t n_bytes);

/*
 * Read the next stapsdt note. Skip notes of other owners. Return 1 and fill *NOTE; return 0 at the
 * end; return -1, and set reader->why, if the bytes at reader->pos are not a well-formed note.
 */
int note_next(struct note_reader *reader, struct note *note);

/*
 * Find the first note of OWNER and TYPE in BYTES, the contents of a section. Return 1 and fill
 * *RAW; return 0 if there is no such note. If the search meets a note that is not well-formed,
 * return -1 and set *WHY to the reason, a static string.
 */
int note_find(const uint8_t *bytes, size_t n_bytes, const char *owner, uint32_t type,
	      struct raw_note *raw, const char **why);

#endif
