/* SPDX-License-Identifier: MIT */
/* attach --assert: what must hold of the totals. */
#ifndef TOOL_MEASURE_ASSERTS_H
#define TOOL_MEASURE_ASSERTS_H

#include "cli/cli.h"

/*
 * Check that METER, which is open, measures what the assertions of OPTIONS are about. Return 0, or
 * -ENOENT with a message in the ctx.
 */
int asserts_check(const struct options *options, const struct ocp_meter *meter);

/*
 * Decide the assertions of OPTIONS by SAMPLE, the totals. Print a line for each one that fails or
 * is undecided. Return EXIT_NOT_MET if there is one, otherwise EXIT_DONE.
 */
int asserts_report(const struct options *options, const struct ocp_sample *sample);

#endif
