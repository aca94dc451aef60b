/* SPDX-License-Identifier: MIT */
/*
 * Finds the code of the dormant probes: scans the code of a file for instructions that load the
 * address of a marker. See code_scan.c.
 */
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
	struct x86_code code; /* the section that contains the instruction */
	size_t pos;
	struct x86_load load;
	struct marker *marker;
	struct x86_site site; /* set only if `marker` is a MARKER_SITE */
	/* an array of marker->n_args elements; NULL if there are no arguments */
	struct x86_arg *args;
	const char *why_not; /* why the code cannot be converted; NULL if it can be */
};

struct marker_slot;

struct code_scan {
	const struct object *object;
	const struct marker_set *set;
	struct use *uses; /* sorted by address */
	size_t n_uses;
	struct marker_slot *slots; /* sorted by address */
	size_t n_slots;
};

int code_scan_read(const struct object *object, const struct marker_set *set,
		   struct code_scan *scan);
void code_scan_free(struct code_scan *scan);

/* Return true if USE is a site that can be enabled and disabled. */
static inline bool use_is_site(const struct use *use)
{
	return use->marker->kind == MARKER_SITE && !use->why_not;
}

/* Set `marker`, enabled_at_init and disabled_at_init of each probe of the set. */
void code_scan_find_probes(const struct code_scan *scan, struct marker_set *set);

/*
 * Set is_referenced of each marker whose address may occur in the file outside of the known load
 * instructions. If a marker is neither loaded nor referenced, the compiler has left out the code
 * that used the marker, and kept only the string.
 */
void code_scan_find_references(const struct code_scan *scan);

enum use_args {
	USE_ARGS_ALL,
	/*
	 * For a note. Operands that read memory more than once (is_path) become X86_NO_OPERAND,
	 * since they need our own syntax, which other readers of notes do not know.
	 */
	USE_ARGS_NOTED,
};

/*
 * Return the operands of the site USE, as text that the caller frees. Return NULL if out of memory.
 */
char *use_args_text(const struct use *use, enum use_args which);
/* Return true if use_args_text() returns different texts for USE_ARGS_ALL and USE_ARGS_NOTED. */
bool use_has_paths(const struct use *use);

#endif
