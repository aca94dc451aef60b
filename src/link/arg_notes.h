/* SPDX-License-Identifier: MIT */
/* The table that the post-linker writes for the arguments of converted sites. */
#ifndef LINK_ARG_NOTES_H
#define LINK_ARG_NOTES_H

#include <stddef.h>
#include <stdint.h>
#include "link/image.h"
#include "link/layout.h"
#include "link/notes.h"

/*
 * Build *SECTION: the table of the sites whose arguments have names, or are in places that a note
 * cannot express. DRAFTS[0..N) describe all converted sites. Sets *BYTES to the contents of the
 * section; the caller frees *BYTES. If IMAGE already has a section of this name, *SECTION replaces
 * that section.
 */
int arg_notes_build(const struct linked_file *image, const struct note_draft *drafts, size_t n,
		    uint64_t base_va, struct layout_section *section, uint8_t **bytes);

#endif
