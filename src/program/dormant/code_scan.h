/* SPDX-License-Identifier: MIT */
/* Every place of the code that a probe of the source has become. See code_scan.c. */
#ifndef DORMANT_CODE_SCAN_H
#define DORMANT_CODE_SCAN_H

#include <stddef.h>
#include <stdint.h>
#include "program/dormant/marker.h"
#include "program/dormant/object.h"
#include "program/dormant/x86_args.h"
#include "program/dormant/x86_site.h"

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

struct code_scan {
	const struct object *object;
	const struct marker_set *set;
	struct use *uses; /* by address */
	size_t n_uses, uses_room;
	struct slot *slots; /* by address */
	size_t n_slots, slots_room;
};

int code_scan_read(const struct object *object, const struct marker_set *set,
		   struct code_scan *scan);
void code_scan_free(struct code_scan *scan);

/* Is USE a site that can be switched? */
static inline bool use_is_site(const struct use *use)
{
	return use->marker->kind == MARKER_SITE && !use->why_not;
}

/* Set `marker` of each probe of the set, and whether its sites want to start enabled. */
void code_scan_find_probes(const struct code_scan *scan, struct marker_set *set);

/*
 * A marker that no instruction was seen to load: is there anything at all that could be its
 * address? Sets is_referenced. If not, the compiler has kept the string of code that it left out.
 */
void code_scan_find_references(const struct code_scan *scan);

/* The operands of a site's note; to be freed. NULL: out of memory. */
char *use_args_text(const struct use *use);

#endif
