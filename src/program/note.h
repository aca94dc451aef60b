/* SPDX-License-Identifier: MIT */
/*
 * A stapsdt note as it is in the file, with unresolved addresses. See note.c for the format.
 */
#ifndef PROGRAM_NOTE_H
#define PROGRAM_NOTE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct note {
	uint64_t off;	       /* of the note, from the section's start */
	uint64_t site_va;      /* before the prelink correction; 0: no site */
	uint64_t base_va;      /* where .stapsdt.base was when the note was written */
	uint64_t semaphore_va; /* before the prelink correction; 0: none */
	const char *provider;  /* strings point into the section's bytes */
	const char *name;
	const char *args;
};

struct note_reader {
	const uint8_t *bytes;
	size_t n_bytes;
	size_t pos;
	const char *why; /* after -1 from note_next: the defect of the note at `pos` */
};

/* A note of any owner; owner and descriptor point into the section's bytes. */
struct raw_note {
	const uint8_t *owner, *desc;
	size_t owner_bytes, desc_bytes;
	uint32_t type;
	size_t off; /* of the note, from the section's start */
};

void note_reader_init(struct note_reader *reader, const uint8_t *bytes, size_t n_bytes);

/*
 * Read the next stapsdt note and skip notes of other owners. Returns 1 and fills *NOTE, 0 at the
 * end, or -1 if the bytes at reader->pos are not a well-formed note (see reader->why).
 */
int note_next(struct note_reader *reader, struct note *note);

/* As note_next, for notes of any owner. */
int note_next_raw(struct note_reader *reader, struct raw_note *raw);

/* Is it of this OWNER and TYPE? */
bool note_is_of(const struct raw_note *raw, const char *owner, uint32_t type);

/*
 * Find the first note of OWNER and TYPE among the BYTES of a section. Returns 1 and fills *RAW, 0
 * without such a note, or -1 and *WHY, a static string, if a note before it is not well-formed.
 */
int note_find(const uint8_t *bytes, size_t n_bytes, const char *owner, uint32_t type,
	      struct raw_note *raw, const char **why);

#endif
