/* SPDX-License-Identifier: MIT */
/* The parts of a script, for the modules that write it. */
#ifndef BPFTRACE_SCRIPT_H
#define BPFTRACE_SCRIPT_H

#include <stdio.h>

#include "bpftrace/bpftrace_plan.h"
#include "program/program.h"

/*
 * script_points.c: write the attach point of SITE, or all of GROUP. SEPARATOR precedes the first
 * one. Return the separator for the next one.
 */
void script_put_uprobe(FILE *f, const struct bpftrace_group *group,
		       const struct bpftrace_site *site);
const char *script_put_points(FILE *f, const struct bpftrace_group *group, const char *separator);

/*
 * End the line of attach points, and write the predicate. It selects the process, and the hits that
 * meet the condition of CODE (NULL: none).
 */
void script_put_predicate(FILE *f, const struct bpftrace_plan *plan, const struct site *code);

/*
 * script_args.c: write the clauses that print all arguments of each hit, or the comments on the
 * arguments that cannot be printed.
 */
void script_put_args(FILE *f, const struct bpftrace_plan *plan);
void script_put_arg_limits(FILE *f, const struct bpftrace_group *group);

/* script_calls.c: write the clauses that time the calls of a function, or the pauses of a phase. */
void script_put_calls(FILE *f, const struct bpftrace_plan *plan);
bool script_counts_orphans(const struct bpftrace_plan *plan);

#endif
