// SPDX-License-Identifier: MIT
#include "memprof/heap_profile.h"

#include <stdlib.h>
#include <string.h>

/*
 * Return FROM, the statistics of a stack now, minus THEN, the earlier statistics of the same stack.
 * The values for live blocks may have decreased: their difference is then negative. Unsigned
 * integers store it modulo 2^64.
 */
static struct heap_stack since_then(const struct heap_stack *from, const struct heap_stack *then)
{
	struct heap_stack more = *from;

	if (!then)
		return more;
	more.samples -= then->samples;
	more.blocks -= then->blocks;
	more.objects -= then->objects;
	more.live_samples -= then->live_samples;
	more.live_blocks -= then->live_blocks;
	more.live_objects -= then->live_objects;
	return more;
}

static int add_heap_stack(struct ocp_ctx *ctx, const struct heap_stack *from,
			  struct heap_names *names, double rate, bool is_live,
			  struct profile *profile)
{
	const struct named_frame *const *frames;
	struct named_stack *to = &profile->stacks[profile->n];
	size_t n;
	int err;

	if (!from->live_samples && (is_live || !from->samples))
		return 0;
	err = heap_names_of(names, from->frames, from->depth, &frames, &n);
	if (err)
		return err;
	*to = (struct named_stack){
		.frames = calloc(n, sizeof(struct named_frame *)),
		.n = n,
		.samples = is_live ? from->live_blocks : from->blocks,
		.objects = (uint64_t)(from->objects / rate),
		.live = (uint64_t)(int64_t)((double)(int64_t)from->live_samples / rate),
		.live_objects = (uint64_t)(int64_t)(from->live_objects / rate),
		.value = (uint64_t)((double)(is_live ? from->live_samples : from->samples) / rate),
	};
	if (!to->frames)
		return ctx_no_memory(ctx);
	memcpy(to->frames, frames, n * sizeof(struct named_frame *));
	profile->n++;
	profile->samples += to->samples;
	profile->value += to->value;
	return 0;
}

static int make(struct ocp_ctx *ctx, const struct heap *heap, struct heap_names *names, double rate,
		bool is_live, const struct heap_mark *mark, struct profile *profile)
{
	size_t n;
	const struct heap_stack *stacks = heap_stacks(heap, &n);
	int err = 0;

	*profile = (struct profile){ .kind = PROFILE_WORDS,
				     .has_heap = true,
				     .word_period = (uint64_t)(1 / rate),
				     .stacks = calloc(n + 1, sizeof(*profile->stacks)) };
	if (!profile->stacks)
		return ctx_no_memory(ctx);
	for (size_t i = 0; i < n && !err; i++) {
		const struct heap_stack more =
			since_then(&stacks[i], mark && i < mark->n ? &mark->stacks[i] : NULL);

		err = add_heap_stack(ctx, &more, names, rate, is_live, profile);
	}
	if (err)
		profile_free(profile);
	else
		profile_merge(profile);
	return err;
}

int heap_profile_make(struct ocp_ctx *ctx, const struct heap *heap, struct heap_names *names,
		      double rate, bool is_live, struct profile *profile)
{
	return make(ctx, heap, names, rate, is_live, NULL, profile);
}

int heap_profile_since(struct ocp_ctx *ctx, const struct heap *heap, struct heap_names *names,
		       double rate, const struct heap_mark *mark, struct profile *profile)
{
	return make(ctx, heap, names, rate, false, mark, profile);
}
