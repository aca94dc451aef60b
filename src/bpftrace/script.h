/* SPDX-License-Identifier: MIT */
/* Write the parts of a script: shared by bpftrace_script.c and script_*.c. */
#ifndef BPFTRACE_SCRIPT_H
#define BPFTRACE_SCRIPT_H

#include <stdio.h>

#include "bpftrace/bpftrace_plan.h"
#include "program/program.h"

/*
 * script_points.c: script_put_uprobe() writes the attach point of SITE. script_put_points() writes
 * all attach points of GROUP, the first one after SEPARATOR, and returns the separator to pass to
 * the next call.
 */
void script_put_uprobe(FILE *f, const struct bpftrace_group *group,
		       const struct bpftrace_site *site);
const char *script_put_points(FILE *f, const struct bpftrace_group *group, const char *separator);

/*
 * End the line of attach points, and write the predicate: it selects the process of PLAN (if it has
 * one), and the hits that meet the condition of CODE (NULL: no condition).
 */
void script_put_predicate(FILE *f, const struct bpftrace_plan *plan, const struct site *code);

/*
 * script_args.c: script_put_args() writes the clauses that print all arguments of each hit.
 * script_put_arg_limits() writes comments that name the arguments of GROUP that cannot be printed.
 */
void script_put_args(FILE *f, const struct bpftrace_plan *plan);
void script_put_arg_limits(FILE *f, const struct bpftrace_group *group);

/*
 * script_calls.c: script_put_calls() writes the clauses that time the calls of a function, or the
 * pauses of a phase. script_counts_orphans() returns true if these clauses count orphans.
 */
void script_put_calls(FILE *f, const struct bpftrace_plan *plan);
bool script_counts_orphans(const struct bpftrace_plan *plan);

#endif
