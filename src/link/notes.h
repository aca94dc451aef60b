/* SPDX-License-Identifier: MIT */
/* The notes of the converted sites: section .note.stapsdt. */
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
	const struct marker *marker; /* the marker of the probe */
	char *args;		     /* operands, separated by spaces */
	/* all operands, including those that a note cannot express; NULL: `args` has all of them */
	char *all_args;
};

/*
 * Set *FOUND to true if IMAGE already has notes of OCaml probes. Returns -EBADMSG if notes of IMAGE
 * are damaged, since damaged notes cannot be copied to the new file.
 */
int notes_find_ocaml(const struct linked_file *image, bool *found);

/*
 * Build *SECTION from the existing notes of IMAGE, followed by one note for each of the N drafts,
 * in the order of DRAFTS. Sets *BYTES to the contents of the section; the caller frees *BYTES.
 */
int notes_build(const struct linked_file *image, const struct note_draft *drafts, size_t n,
		uint64_t base_va, struct layout_section *section, uint8_t **bytes);

#endif
