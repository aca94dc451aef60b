/* SPDX-License-Identifier: MIT */
/*
 * A profile as JSON, for the flame graph of page/flame.js:
 *
 *	{ "profile": {...}, "frames": [[function, kind, file, line, is_inlined, item]...],
 *	  "stacks": [[samples, value, number of a frame...]...],
 *	  "functions": [[number of a frame, self, total]...],
 *	  "folded": { "libraries": "[Lwt]", "stacks": [...], "functions": [...] } }
 *
 * with the outermost frame of a stack first. The text is safe in a script element. If two profiles
 * are compared, "stacks" has the stacks of both, with the values of the new profile. The values of
 * the old profile are in another member, "old", an array in the order of "stacks". A function is
 * then [number of a frame, self, total, old self, old total].
 *
 * "folded" has the same of the folded profile (profile/profile_fold.h); it is missing if nothing
 * can be folded. The graph shows it first, unless "profile" has the member "unfolded".
 */
#ifndef PROFILE_FORMATS_FLAME_JSON_H
#define PROFILE_FORMATS_FLAME_JSON_H

#include <stdio.h>
#include "profile/profile_diff.h"

/* How the page shows a profile. */
struct flame_form {
	const char *title; /* any text; the page shows it unchanged */
	bool is_unfolded;  /* all frames are shown first, and the folded graph only on request */
};

/* Write PROFILE or the comparison DIFF to TO. */
int flame_json_write(struct ocp_ctx *ctx, const struct profile *profile,
		     const struct flame_form *form, FILE *to);
int flame_json_write_diff(struct ocp_ctx *ctx, const struct profile_diff *diff,
			  const struct flame_form *form, FILE *to);

#endif
