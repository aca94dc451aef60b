/* SPDX-License-Identifier: MIT */
/* The notes that make the sites known: section .note.stapsdt. */
#ifndef LINK_NOTES_H
#define LINK_NOTES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "link/image.h"

/* One note to be written. */
struct note_draft {
	uint64_t site_va;
	uint64_t semaphore_va;
	const char *name; /* not terminated */
	int name_bytes;
};

/*
 * Set *FOUND if IMAGE has notes of OCaml probes already. -EBADMSG if its notes are damaged: they
 * could not be kept.
 */
int notes_find_ocaml(const struct image *image, bool *found);

/*
 * Add a note for each of the N drafts, in their order, behind the notes that IMAGE has. All that
 * stood in the file stays where it is; the section is written anew at the end.
 */
int notes_append(struct image *image, const struct note_draft *drafts, size_t n);

#endif
