/* SPDX-License-Identifier: MIT */
/* The table that says where in the source the probe of each converted site stands. */
#ifndef LINK_PLACES_H
#define LINK_PLACES_H

#include <stddef.h>
#include <stdint.h>
#include "link/image.h"
#include "link/layout.h"
#include "link/notes.h"

/*
 * Make *SECTION the table of the N drafts. *BYTES holds it, and is to be freed. A table that is
 * there already is replaced: it belongs to no site, or the file would have been converted.
 */
int places_build(const struct image *image, const struct note_draft *drafts, size_t n,
		 uint64_t base_va, struct layout_section *section, uint8_t **bytes);

#endif
