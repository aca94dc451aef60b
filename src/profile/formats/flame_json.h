/* SPDX-License-Identifier: MIT */
/*
 * A profile as JSON, for the flame graph of page/flame.js:
 *
 *	{ "profile": {...}, "frames": [[function, kind, file, line, is_inlined, item]...],
 *	  "stacks": [[samples, value, number of a frame...]...],
 *	  "functions": [[number of a frame, self, total]...] }
 *
 * with the outermost frame of a stack first. The text is safe in a script element. If two profiles
 * are compared, "stacks" has the stacks of both, with the values of the new profile. The values of
 * the old profile are in another member, "old", an array in the order of "stacks". A function is
 * then [number of a frame, self, total, old self, old total].
 */
#ifndef PROFILE_FORMATS_FLAME_JSON_H
#define PROFILE_FORMATS_FLAME_JSON_H

#include <stdio.h>
#include "profile/profile_diff.h"

/*
 * Write PROFILE to TO. For a comparison, DIFF is the comparison, and PROFILE has the stacks of both
 * profiles; otherwise DIFF is NULL.
 */
int flame_json_write(struct ocp_ctx *ctx, const struct profile *profile,
		     const struct profile_diff *diff, const char *title, FILE *to);

#endif
