/* SPDX-License-Identifier: MIT */
/* The semaphores: section .probes, and the symbols that name them. See semaphores.c. */
#ifndef LINK_SEMAPHORES_H
#define LINK_SEMAPHORES_H

#include <stddef.h>
#include <stdint.h>
#include "program/dormant/marker.h"
#include "link/image.h"
#include "link/layout.h"

struct semaphores {
	uint64_t va; /* the address of section .probes */
	size_t n;
	/* the address of section .stapsdt.base, which IMAGE has or which is added */
	uint64_t base_va;
	/* The sections to add or to replace. This struct owns the bytes of the sections. */
	struct layout_section sections[4];
	uint8_t *bytes[4];
	size_t n_sections;
};

/*
 * Set semaphore_va of each probe of SET that has a site (`marker` is not NULL). The semaphores
 * follow each other from room->va on.
 */
void semaphores_place(const struct linked_file *image, const struct layout_room *room,
		      struct marker_set *set, struct semaphores *semaphores);

/*
 * Build the sections of SEMAPHORES. The initial state of each probe (enabled_at_init) must be
 * known.
 */
int semaphores_build(const struct linked_file *image, const struct marker_set *set,
		     struct semaphores *semaphores);
void semaphores_free(struct semaphores *semaphores);

#endif
