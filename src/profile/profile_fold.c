// SPDX-License-Identifier: MIT
#include "profile/profile_fold.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/ctx.h"
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

/*
 * Return how many frames of STACK are left if those of the standard library, such as Fun.protect,
 * are removed between the last frame of LIBRARY and the end; all of them if others are between.
 */
static size_t frames_before_stdlib(const struct named_stack *stack,
				   const struct named_frame *library)
{
	size_t n = stack->n;

	while (n && stack->frames[n - 1]->is_stdlib)
		n--;
	return n && stack->frames[n - 1] == library ? n : stack->n;
}

/* Return true if STACK has frames of a library. */
static bool fold_libraries(struct named_stack *stack, size_t leaf, char text[FOLDED_TEXT_BYTES])
{
	const size_t all = stack->n;
	bool has_library = false;

	stack->n = 0;
	for (size_t i = 0; i < all; i++) {
		const struct named_frame *frame = stack->frames[i];
		const struct named_frame *library = i == leaf ? NULL : frame_of_library(frame);

		has_library |= library != NULL;
		if (library && i < leaf)
			stack->n = frames_before_stdlib(stack, library);
		if (library && stack->n && stack->frames[stack->n - 1] == library)
			continue;
		if (library)
			add_folded_name(text, library->function);
		stack->frames[stack->n++] = library ? library : frame;
	}
	return has_library;
}

void profile_fold_libraries(struct profile *profile, char text[FOLDED_TEXT_BYTES])
{
	for (size_t i = 0; i < profile->n; i++)
		fold_libraries(&profile->stacks[i], profile_site_of(profile, i, SITES_LEAF).leaf,
			       text);
	profile_merge(profile);
}

/* ---- copies --------------------------------------------------------------------------------- */

static int copy_stack(struct ocp_ctx *ctx, const struct named_stack *from, struct named_stack *to)
{
	*to = *from;
	to->frames = calloc(from->n + 1, sizeof(const struct named_frame *));
	if (!to->frames)
		return ctx_no_memory(ctx);
	memcpy(to->frames, from->frames, from->n * sizeof(const struct named_frame *));
	return 0;
}

int profile_fold_copy(struct ocp_ctx *ctx, const struct profile *profile,
		      struct folded_profile *folded, char text[FOLDED_TEXT_BYTES])
{
	struct profile *copy = &folded->profile;
	size_t n_before = 0, n_after = 0;
	bool has_library = false;

	*folded = (struct folded_profile){ .profile = *profile };
	copy->n = 0;
	copy->stacks = calloc(profile->n + 1, sizeof(*copy->stacks));
	if (!copy->stacks)
		return ctx_no_memory(ctx);
	for (; copy->n < profile->n; copy->n++) {
		n_before += profile->stacks[copy->n].n;
		if (copy_stack(ctx, &profile->stacks[copy->n], &copy->stacks[copy->n]))
			return -ENOMEM;
	}
	for (size_t i = 0; i < copy->n; i++) {
		const size_t leaf = profile_site_of(copy, i, SITES_LEAF).leaf;

		has_library |= fold_libraries(&copy->stacks[i], leaf, text);
		fold_repeats(&copy->stacks[i]);
		n_after += copy->stacks[i].n;
	}
	folded->is_same = !has_library && n_after == n_before;
	profile_merge(copy);
	return 0;
}

void folded_profile_free(struct folded_profile *folded)
{
	for (size_t i = 0; i < folded->profile.n; i++)
		free(folded->profile.stacks[i].frames);
	free(folded->profile.stacks);
	*folded = (struct folded_profile){ 0 };
}
