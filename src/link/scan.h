/* SPDX-License-Identifier: MIT */
/* Every place of the code that a probe of the source has become. See scan.c. */
#ifndef LINK_SCAN_H
#define LINK_SCAN_H

#include <stddef.h>
#include <stdint.h>
#include "link/image.h"
#include "link/marker.h"
#include "link/x86_args.h"
#include "link/x86_site.h"

/* An instruction that loads a marker's address. */
struct use {
	struct x86_code code; /* the section it stands in */
	size_t pos;
	struct x86_load load;
	struct marker *marker;
	struct x86_site site; /* of a MARKER_SITE */
	struct x86_arg *args; /* as many as marker->n_args; NULL: none */
	const char *why_not;  /* it cannot be converted; NULL: it can */
};

struct slot;

struct scan {
	const struct image *image;
	const struct marker_set *set;
	struct use *uses; /* by address */
	size_t n_uses, uses_room;
	struct slot *slots; /* by address */
	size_t n_slots, slots_room;
};

int scan_image(const struct image *image, const struct marker_set *set, struct scan *scan);
void scan_free(struct scan *scan);

#endif
