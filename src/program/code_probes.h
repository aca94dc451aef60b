/* SPDX-License-Identifier: MIT */
/*
 * Functions of a file that has been asked for, as probes: a site at the beginning of each function,
 * and if its calls are timed, sites at all of its exits. Functions with the same OCaml name are one
 * probe.
 */
#ifndef PROGRAM_CODE_PROBES_H
#define PROGRAM_CODE_PROBES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "program/program.h"

struct line_spans;

/* What is asked for: an item of program/item.h that item_is_code(). */
struct code_wish {
	const char *text;
	bool is_timed;	 /* its exits are needed */
	bool has_args;	 /* its arguments are needed: its site must be the first instruction */
	bool has_bounds; /* of a phase: only first instructions and returns will do */
	const struct line_spans *spans; /* of lines: see line_places_read(); NULL: none */
	bool was_found; /* set by code_probes_find(): a function of the file has this name */
};

struct code_probes;

/*
 * Find the functions of PROG that WISHES[0..N) describe. *OUT is NULL if there are none, also for a
 * file without symbols. -EOPNOTSUPP if a function that is named, not matched, cannot be measured.
 * Other functions that cannot be measured are left out with a warning.
 */
int code_probes_find(struct ocp_ctx *ctx, const struct ocp_program *prog, struct code_wish *wishes,
		     size_t n, struct code_probes **out);
void code_probes_free(struct code_probes *code);

/* Has NOW, which the file of PROG contains now, the code of CODE's sites at the same places? */
bool code_probes_are_in(const struct code_probes *code, const struct ocp_program *prog,
			const struct ocp_program *now);

/* The probes and sites; empty if CODE is NULL. They belong to CODE. */
struct probe_set code_probes_set(const struct code_probes *code);

/*
 * The code that site I belongs to: the function, from its link-time address *VA on, or the first
 * instructions at the site if no function is known there. All of it is in the file.
 */
void code_probes_extent(const struct code_probes *code, size_t i, uint64_t *va, uint64_t *bytes);

/* Record why PROG, called WHERE, has no function TEXT. Returns -ENOENT or -ENODATA. */
int code_probes_unknown(struct ocp_ctx *ctx, const struct ocp_program *prog, const char *text,
			const char *where);

#endif
