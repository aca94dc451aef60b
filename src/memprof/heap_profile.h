/* SPDX-License-Identifier: MIT */
/* Converts the accounts of memprof/heap.h to a profile, which can be written in all formats. */
#ifndef MEMPROF_HEAP_PROFILE_H
#define MEMPROF_HEAP_PROFILE_H

#include "memprof/heap_sites.h"
#include "profile/profile.h"

/*
 * Make the PROFILE of HEAP, each of whose samples stands for 1 / RATE words. The values are
 * allocated words or, with IS_LIVE, words that are alive. The caller sets the times, and frees
 * PROFILE with profile_free().
 */
int heap_profile_make(struct ocp_ctx *ctx, const struct heap *heap, struct heap_names *names,
		      double rate, bool is_live, struct profile *profile);

/*
 * Like heap_profile_make(), for the allocations since MARK. `live` and `live_objects` are the
 * difference between now and MARK: signed numbers.
 */
int heap_profile_since(struct ocp_ctx *ctx, const struct heap *heap, struct heap_names *names,
		       double rate, const struct heap_mark *mark, struct profile *profile);

#endif
