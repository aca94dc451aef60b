/* SPDX-License-Identifier: MIT */
/*
 * The default limit of `attach`, without --budget: the share of a program's CPU time that measuring
 * may take. The programs may belong to other people, and the user often cannot foresee the number
 * of hits.
 */
#ifndef TOOL_MEASURE_LIMIT_H
#define TOOL_MEASURE_LIMIT_H

#include <stdbool.h>
#include <stddef.h>

struct cpu_share;
struct measure_session;
struct ocp_process;
struct options;

/* Return the limit: 0.2 for 20%. Return 0 if OPTIONS lift the limit or set a budget. */
double measure_limit_of(const struct options *options);
/*
 * Before the attach, if S measures thousands of places: measure each place for a moment, one part
 * of the places at a time, and estimate the share of CPU time. Warn if the share is above the
 * limit. Returns EXIT_DONE, also if sampling is not possible, or EXIT_OVER_BUDGET after saying that
 * the N processes PROCS would run more than twice as long.
 */
int measure_limit_sample(const struct measure_session *s, struct ocp_process **procs, size_t n);
/*
 * Say that measuring has taken SHARE, which is above the limit, and name cheaper ways to measure.
 */
void measure_limit_say(const struct measure_session *s, const struct cpu_share *share);

#endif
