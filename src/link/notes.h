/* SPDX-License-Identifier: MIT */
/* The notes that make the sites known: section .note.stapsdt. */
#ifndef LINK_NOTES_H
#define LINK_NOTES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "program/dormant/marker.h"
#include "link/image.h"
#include "link/layout.h"

/* One note to be written. */
struct note_draft {
	uint64_t site_va;
	uint64_t semaphore_va;
	const struct marker *marker; /* of the probe */
	char *args;		     /* operands, separated by spaces */
};

/*
 * Set *FOUND if IMAGE has notes of OCaml probes already. -EBADMSG if its notes are damaged: they
 * could not be kept.
 */
int notes_find_ocaml(const struct image *image, bool *found);

/*
 * Make *SECTION the notes that IMAGE has and, behind them, one for each of the N drafts, in their
 * order. *BYTES holds them, and is to be freed.
 */
int notes_build(const struct image *image, const struct note_draft *drafts, size_t n,
		uint64_t base_va, struct layout_section *section, uint8_t **bytes);

#endif
