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
	const char *provider; /* the three strings point into the section's bytes */
	const char *name;
	const char *args;
};

struct note_reader {
	const uint8_t *bytes;
	size_t n_bytes;
	size_t pos;
	const char *why; /* after note_next() returned -1: the defect of the note at `pos` */
};

/* A note of any owner; owner and descriptor point into the section's bytes. */
struct raw_note {
	const uint8_t *owner, *desc;
	size_t owner_bytes, desc_bytes;
	uint32_t type;
	size_t off; /* offset of the note in the section */
};

void note_reader_init(struct note_reader *reader, const uint8_t *bytes, size_t n_bytes);

/*
 * Read the next stapsdt note, skipping notes of other owners. Return 1 and fill *NOTE, or 0 at the
 * end, or -1 if the bytes at reader->pos are not a well-formed note (see reader->why).
 */
int note_next(struct note_reader *reader, struct note *note);

/*
 * Find the first note of OWNER and TYPE in BYTES, the contents of a section. Return 1 and fill
 * *RAW, or 0 if there is no such note. If a note before it is not well-formed, return -1 and set
 * *WHY to a static string.
 */
int note_find(const uint8_t *bytes, size_t n_bytes, const char *owner, uint32_t type,
	      struct raw_note *raw, const char **why);

#endif
