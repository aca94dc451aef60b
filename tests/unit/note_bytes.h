/* SPDX-License-Identifier: MIT */
/* Hand-built note sections. */
#ifndef TESTS_UNIT_NOTE_BYTES_H
#define TESTS_UNIT_NOTE_BYTES_H

#include <stddef.h>
#include <stdint.h>

struct note_bytes {
	uint8_t *bytes;
	size_t n, room;
};

/* What goes into a stapsdt note; strings that are NULL count as "". */
struct note_spec {
	uint64_t site, base, semaphore;
	const char *provider, *name, *args;
};

/* Append a note of any owner, padded as notes are. Returns its offset. */
size_t put_note(struct note_bytes *out, const char *owner, uint32_t type, const void *desc,
		size_t desc_bytes);
size_t put_stapsdt(struct note_bytes *out, const struct note_spec *spec);

/* Overwrite a header word of the note at OFF. */
enum note_word { NOTE_NAMESZ = 0, NOTE_DESCSZ = 4, NOTE_TYPE = 8 };
void set_note_word(struct note_bytes *notes, size_t off, enum note_word word, uint32_t value);

void note_bytes_free(struct note_bytes *notes);

#endif
