/* SPDX-License-Identifier: MIT */
/* Finding the code of the probes of the source. See code_scan.c. */
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
	struct x86_code code; /* its section */
	size_t pos;
	struct x86_load load;
	struct marker *marker;
	struct x86_site site; /* of a MARKER_SITE */
	struct x86_arg *args; /* as many as marker->n_args; NULL: none */
	const char *why_not;  /* why it cannot be converted; NULL: it can */
};

struct slot;

struct code_scan {
	const struct object *object;
	const struct marker_set *set;
	struct use *uses; /* by address */
	size_t n_uses;
	struct slot *slots; /* by address */
	size_t n_slots;
};

int code_scan_read(const struct object *object, const struct marker_set *set,
		   struct code_scan *scan);
void code_scan_free(struct code_scan *scan);

/* Is USE a site, and can it be switched? */
static inline bool use_is_site(const struct use *use)
{
	return use->marker->kind == MARKER_SITE && !use->why_not;
}

/* Set `marker` and the initial states of each probe of the set. */
void code_scan_find_probes(const struct code_scan *scan, struct marker_set *set);

/*
 * For each marker that no known instruction loads: can any bytes of the file be its address? Sets
 * is_referenced. If not, the compiler has left the code out and kept only the string.
 */
void code_scan_find_references(const struct code_scan *scan);

enum use_args {
	USE_ARGS_ALL,
	USE_ARGS_NOTED, /* without those of our own form, which the readers of notes do not know */
};

/* The operands of a site; the caller frees them. NULL: out of memory. */
char *use_args_text(const struct use *use, enum use_args which);
/* Do the two texts differ? */
bool use_has_paths(const struct use *use);

#endif
