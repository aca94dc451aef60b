/* SPDX-License-Identifier: MIT */
/* The table of the places in the source of converted sites. */
#ifndef LINK_PLACES_H
#define LINK_PLACES_H

#include <stddef.h>
#include <stdint.h>
#include "link/image.h"
#include "link/layout.h"
#include "link/notes.h"

/*
 * Build *SECTION: the table of the source places of the N drafts. Sets *BYTES to the contents of
 * the section; the caller frees *BYTES. If IMAGE already has a section of this name, *SECTION
 * replaces that section. No place is lost: convert() builds a table only if IMAGE has no notes of
 * OCaml probes, that is, no converted site that the old section could describe.
 */
int places_build(const struct linked_file *image, const struct note_draft *drafts, size_t n,
		 uint64_t base_va, struct layout_section *section, uint8_t **bytes);

#endif
