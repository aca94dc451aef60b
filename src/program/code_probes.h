/* SPDX-License-Identifier: MIT */
/*
 * Finds the functions, phases of the collector, source lines and notes that users request, in one
 * file, and makes probes of them. A function gets a site at its beginning. If its calls are timed,
 * it also gets sites at its exits. Functions with the same OCaml name are one probe.
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

/* A request: an item (see program/item.h) for which item_is_code() is true. */
struct code_wish {
	const char *text;
	/*
	 * For source lines: the places to leave out (see line_places_read()); NULL if there are
	 * none.
	 */
	const struct line_spans *spans;
	bool is_timed; /* measure the time of calls: sites at the exits are needed */
	bool has_args; /* measure arguments: see code_needs of code_sites.h */
	/*
	 * With by_window: measure a function without its arguments, with a warning, if they cannot
	 * be measured.
	 */
	bool wants_args;
	bool uses_stack; /* begin or end pairs, or group calls: see code_needs */
	bool by_window;	 /* count functions and lines by a jump, in a window, not by a uprobe */
	bool has_bounds; /* for a phase: use only first instructions and returns of functions */
	bool was_found;	 /* set by code_probes_find(): the file has the code that TEXT names */
};

struct code_probes;

/*
 * Find in PROG the code that WISHES[0..N) describe, and set *OUT to the resulting probes. Set *OUT
 * to NULL if nothing is found, or if the file has no symbols. If a wish gives the exact name of
 * code that cannot be measured, return -EOPNOTSUPP. If a function that cannot be measured only
 * matches a regular expression, leave the function out, with a warning.
 */
int code_probes_find(struct ocp_ctx *ctx, const struct ocp_program *prog, struct code_wish *wishes,
		     size_t n, struct code_probes **out);
void code_probes_free(struct code_probes *code);

/*
 * CODE was found in PROG. NOW is a later reading of the same file. Return true if the sites of CODE
 * have the same file offsets and the same code in NOW.
 */
bool code_probes_are_in(const struct code_probes *code, const struct ocp_program *prog,
			const struct ocp_program *now);

/* Return the probes and sites of CODE. They belong to CODE. The set is empty if CODE is NULL. */
struct probe_set code_probes_set(const struct code_probes *code);

/*
 * Set *VA and *BYTES to the link-time address and the size of the code to which site I belongs: the
 * function that contains the site or, if no function is known there, the first instructions at the
 * site. All of this code is in the file.
 */
void code_probes_extent(const struct code_probes *code, size_t i, uint64_t *va, uint64_t *bytes);

/*
 * Record the error that PROG contains nothing that the item TEXT names, and why. Messages call PROG
 * by the name WHERE. Return -ENOENT, -ENODATA or another negative errno.
 */
int code_probes_unknown(struct ocp_ctx *ctx, const struct ocp_program *prog, const char *text,
			const char *where);

/* ---- lines ----------------------------------------------------------------------------------- */

/*
 * Finds the source lines that items of the kinds ITEM_LINE and ITEM_FILE_LINES name, in one
 * program.
 */

/*
 * Return true if PROG has the source file that the item TEXT names. Return false if it does not, or
 * after an error.
 */
bool code_lines_has_source(struct ocp_ctx *ctx, const struct ocp_program *prog,
			   const struct functions *functions, const char *text);

/*
 * Record the error that PROG does not contain the line that TEXT names, and why. Messages call PROG
 * by the name WHERE. Return -ENOENT, -ENODATA or another negative errno.
 */
int code_lines_unknown(struct ocp_ctx *ctx, const struct ocp_program *prog,
		       const struct functions *functions, const char *text, const char *where);

#endif
