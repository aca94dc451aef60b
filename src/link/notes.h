/* SPDX-License-Identifier: MIT */
/* The notes of the sites: section .note.stapsdt. */
#ifndef LINK_NOTES_H
#define LINK_NOTES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "program/dormant/marker.h"
#include "link/image.h"
#include "link/layout.h"

/* A note to write. */
struct note_draft {
	uint64_t site_va;
	uint64_t semaphore_va;
	const struct marker *marker; /* of the probe */
	char *args;		     /* operands, separated by spaces */
	char *all_args; /* args and the operands that a note cannot express; NULL: none */
};

/*
 * Set *FOUND if IMAGE already has notes of OCaml probes. Returns -EBADMSG if notes of IMAGE are
 * damaged, so that they cannot be kept.
 */
int notes_find_ocaml(const struct image *image, bool *found);

/*
 * Build *SECTION from the notes of IMAGE, followed by one note for each of the N drafts in their
 * order. *BYTES has the notes; the caller frees it.
 */
int notes_build(const struct image *image, const struct note_draft *drafts, size_t n,
		uint64_t base_va, struct layout_section *section, uint8_t **bytes);

#endif
