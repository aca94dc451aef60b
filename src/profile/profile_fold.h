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
 * one frame, "[Lwt]". The function that a sample belongs to is not replaced. Set TEXT to the names
 * of these frames, separated by commas; "": there are none.
 */
void profile_fold_libraries(struct profile *profile, char text[FOLDED_TEXT_BYTES]);

#endif
