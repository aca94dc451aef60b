/* SPDX-License-Identifier: MIT */
/* Converts the statistics of memprof/heap.h to a profile, which can be written in all formats. */
#ifndef MEMPROF_HEAP_PROFILE_H
#define MEMPROF_HEAP_PROFILE_H

#include "memprof/heap_sites.h"
#include "profile/profile.h"

/*
 * Make PROFILE from HEAP, in which each sample stands for 1 / RATE words. The values are allocated
 * words or, if IS_LIVE, words that are alive. The caller sets the times, and frees PROFILE with
 * profile_free().
 */
int heap_profile_make(struct ocp_ctx *ctx, const struct heap *heap, struct heap_names *names,
		      double rate, bool is_live, struct profile *profile);

/*
 * Like heap_profile_make(), but only for the allocations since MARK. `live` and `live_objects` are
 * the difference between now and MARK, and can be negative (modulo 2^64).
 */
int heap_profile_since(struct ocp_ctx *ctx, const struct heap *heap, struct heap_names *names,
		       double rate, const struct heap_mark *mark, struct profile *profile);

#endif
