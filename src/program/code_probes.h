/* SPDX-License-Identifier: MIT */
/*
 * Finds the functions, phases of the collector, source lines and notes that users request, in one
 * file, and makes probes of them. A function gets a site at its beginning, and if its calls are
 * timed, sites at all of its exits. Functions with the same OCaml name are one probe.
 */
#ifndef PROGRAM_CODE_PROBES_H
#define PROGRAM_CODE_PROBES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "code/functions.h"
#include "code/line_places.h"
#include "program/program.h"

struct line_spans;

/* A request: an item for which item_is_code() of program/item.h is true. */
struct code_wish {
	const char *text;
	bool is_timed;	 /* calls are timed: the exits are needed */
	bool has_args;	 /* arguments are needed: the site must be the first instruction */
	bool has_bounds; /* for a phase: use only first instructions and returns of functions */
	/* For source lines: excluded places, see line_places_read(); NULL: none. */
	const struct line_spans *spans;
	bool was_found; /* set by code_probes_find(): the file has what TEXT names */
};

struct code_probes;

/*
 * Find in PROG what WISHES[0..N) describe, and set *OUT to the resulting probes, or to NULL if
 * nothing is found (or if the file has no symbols). If a wish names code by its exact name, and the
 * code cannot be measured, return -EOPNOTSUPP. If a function only matches a regular expression, and
 * cannot be measured, leave it out, with a warning.
 */
int code_probes_find(struct ocp_ctx *ctx, const struct ocp_program *prog, struct code_wish *wishes,
		     size_t n, struct code_probes **out);
void code_probes_free(struct code_probes *code);

/*
 * Return true if the sites of CODE, which were found in PROG, have the same file offsets and the
 * same code in NOW, a later reading of the file.
 */
bool code_probes_are_in(const struct code_probes *code, const struct ocp_program *prog,
			const struct ocp_program *now);

/* Return the probes and sites of CODE, which owns them. The set is empty if CODE is NULL. */
struct probe_set code_probes_set(const struct code_probes *code);

/*
 * Set *VA and *BYTES to the code that site I belongs to: link-time address and size of the function
 * that contains the site, or of the first instructions at the site if no function is known there.
 * All of this code is in the file.
 */
void code_probes_extent(const struct code_probes *code, size_t i, uint64_t *va, uint64_t *bytes);

/*
 * Record why PROG, which messages call WHERE, has nothing that the item TEXT names. Return -ENOENT,
 * -ENODATA or another negative errno.
 */
int code_probes_unknown(struct ocp_ctx *ctx, const struct ocp_program *prog, const char *text,
			const char *where);

/* ---- lines ----------------------------------------------------------------------------------- */

/*
 * Finds the source lines that items of the kinds ITEM_LINE and ITEM_FILE_LINES name, in one
 * program.
 */

/* Return true if PROG has the source file of the item TEXT; false if not, or after an error. */
bool code_lines_has_source(struct ocp_ctx *ctx, const struct ocp_program *prog,
			   const struct functions *functions, const char *text);

/*
 * Record why PROG, which messages call WHERE, has no line TEXT. Return -ENOENT, -ENODATA or another
 * negative errno.
 */
int code_lines_unknown(struct ocp_ctx *ctx, const struct ocp_program *prog,
		       const struct functions *functions, const char *text, const char *where);

#endif
