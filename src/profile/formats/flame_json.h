/* SPDX-License-Identifier: MIT */
/*
 * A profile as JSON, for the flame graph of page/flame.js:
 *
 *	{ "profile": {...}, "frames": [[function, kind, file, line, is_inlined]...],
 *	  "stacks": [[samples, value, number of a frame...]...],
 *	  "functions": [[number of a frame, self, total]...] }
 *
 * with the outermost frame of a stack first. The text is safe in a script element. A comparison has
 * the stacks of both profiles, with the values of the new profile. The values of the old profile
 * are in the member "old", an array in the order of the stacks. A function is then [number of a
 * frame, self, total, old self, old total].
 */
#ifndef PROFILE_FORMATS_FLAME_JSON_H
#define PROFILE_FORMATS_FLAME_JSON_H

#include <stdio.h>
#include "profile/profile_diff.h"

/* DIFF is NULL, or the comparison whose stacks PROFILE contains. */
int flame_json_write(struct ocp_ctx *ctx, const struct profile *profile,
		     const struct profile_diff *diff, const char *title, FILE *to);

#endif
