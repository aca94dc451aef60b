// SPDX-License-Identifier: MIT
#include "profile/profile_fold.h"

#include <stdio.h>
#include <string.h>

#include "unwind/own_frames.h"

enum { MAX_CHAIN = 8 }; /* the longest chain of functions that is recognised when it repeats */

/* ---- repeats -------------------------------------------------------------------------------- */

/* Return true if the last N of the FRAMES[0..ALL) are the same functions as the N before them. */
static bool ends_with_repeat(const struct named_frame *const *frames, size_t all, size_t n)
{
	if (all < 2 * n)
		return false;
	for (size_t i = 1; i <= n; i++)
		if (profile_compare_frames(frames[all - i], frames[all - n - i]) != 0)
			return false;
	return true;
}

static void fold_repeats(struct named_stack *stack)
{
	const size_t all = stack->n;

	stack->n = 0;
	for (size_t i = 0; i < all; i++) {
		stack->frames[stack->n++] = stack->frames[i];
		for (size_t n = 1; n <= MAX_CHAIN; n++) {
			if (!ends_with_repeat(stack->frames, stack->n, n))
				continue;
			memmove(stack->frames + stack->n - 2 * n, stack->frames + stack->n - n,
				n * sizeof(struct named_frame *));
			stack->n -= n;
			break;
		}
	}
}

void profile_fold_repeats(struct profile *profile)
{
	for (size_t i = 0; i < profile->n; i++)
		fold_repeats(&profile->stacks[i]);
	profile_merge_lines(profile);
}

/* ---- libraries ------------------------------------------------------------------------------ */

/* Append NAME to TEXT, unless it is there already. */
static void add_folded_name(char text[FOLDED_TEXT_BYTES], const char *name)
{
	const size_t n = strlen(text);

	if (!strstr(text, name))
		snprintf(text + n, FOLDED_TEXT_BYTES - n, "%s%s", n ? ", " : "", name);
}

static void fold_libraries(struct named_stack *stack, size_t leaf, char text[FOLDED_TEXT_BYTES])
{
	const size_t all = stack->n;

	stack->n = 0;
	for (size_t i = 0; i < all; i++) {
		const struct named_frame *frame = stack->frames[i];
		const struct named_frame *library = i == leaf ? NULL : frame_of_library(frame);

		if (library && stack->n && stack->frames[stack->n - 1] == library)
			continue;
		if (library)
			add_folded_name(text, library->function);
		stack->frames[stack->n++] = library ? library : frame;
	}
}

void profile_fold_libraries(struct profile *profile, char text[FOLDED_TEXT_BYTES])
{
	text[0] = '\0';
	for (size_t i = 0; i < profile->n; i++)
		fold_libraries(&profile->stacks[i], profile_site_of(profile, i, SITES_LEAF).leaf,
			       text);
	profile_merge(profile);
}
