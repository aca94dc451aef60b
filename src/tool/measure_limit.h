/* SPDX-License-Identifier: MIT */
/*
 * The limit that `attach` has without --budget: the share of a program's CPU time that measuring may take. The
 * programs are other people's, and the user often does not know how many hits there will be.
 */
#ifndef TOOL_MEASURE_LIMIT_H
#define TOOL_MEASURE_LIMIT_H

#include <stdbool.h>
#include <stddef.h>

struct cpu_share;
struct measure_session;
struct ocp_process;
struct options;

/* The share, 0.2 for 20%; 0: OPTIONS lift the limit, or have a budget of their own. */
double measure_limit_of(const struct options *options);
/*
 * Before the attach, where S asks for thousands of places: measure each for a moment, a part of them at a time,
 * and estimate the share. Returns EXIT_DONE, also if that is not possible; EXIT_OVER_BUDGET after saying that
 * the N processes PROCS would run more than twice as long. Warns if the share is above the limit.
 */
int measure_limit_sample(const struct measure_session *s, struct ocp_process **procs, size_t n);
/* Say that measuring has taken SHARE, which is more than the limit, and what takes less. */
void measure_limit_say(const struct measure_session *s, const struct cpu_share *share);

#endif
