/* SPDX-License-Identifier: MIT */
/* Shorten the stacks of a profile for people. */
#ifndef PROFILE_PROFILE_FOLD_H
#define PROFILE_PROFILE_FOLD_H

#include <stdbool.h>
#include "profile/profile.h"

/*
 * Keep one of the same functions that follow each other in a stack, and one of the same chains of
 * functions: A B C B C D becomes A B C D. Of a function or a chain, keep the innermost frames.
 * Merge the stacks that are equal then.
 */
void profile_fold_repeats(struct profile *profile);

enum { FOLDED_TEXT_BYTES = 128 };

/*
 * Replace the frames of a library for concurrency (unwind/own_frames.h) that follow each other by
 * one frame, "[Lwt]". Frames of the standard library between two of them, such as Fun.protect, are
 * part of it. The function that a sample belongs to is not replaced. Add the names of these
 * frames to TEXT, which has them separated by commas.
 */
void profile_fold_libraries(struct profile *profile, char text[FOLDED_TEXT_BYTES]);

/* A folded copy of a profile. Its frames are those of the profile, which must outlive it. */
struct folded_profile {
	struct profile profile; /* do not free it by profile_free() */
	bool is_same;		/* there was nothing to fold */
};

/*
 * Make a copy of PROFILE that is folded in both ways; TEXT is as in profile_fold_libraries().
 * Stacks whose lines differ are not merged. Return 0 or -ENOMEM with a message. The caller frees
 * FOLDED, also after an error.
 */
int profile_fold_copy(struct ocp_ctx *ctx, const struct profile *profile,
		      struct folded_profile *folded, char text[FOLDED_TEXT_BYTES]);
void folded_profile_free(struct folded_profile *folded);

#endif
