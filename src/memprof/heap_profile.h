/* SPDX-License-Identifier: MIT */
/* The books of memprof/heap.h as a profile, which all formats can be written of. */
#ifndef MEMPROF_HEAP_PROFILE_H
#define MEMPROF_HEAP_PROFILE_H

#include "memprof/heap_sites.h"
#include "profile/profile.h"

/*
 * The profile of HEAP, whose samples stand for 1 / RATE words. The values are words that were allocated;
 * IS_LIVE: words that are alive. The caller sets the times and frees it with profile_free.
 */
int heap_profile_make(struct ocp_ctx *ctx, const struct heap *heap, struct heap_names *names,
		      double rate, bool is_live, struct profile *profile);

/*
 * The same of what was allocated since MARK, and with what is alive now less what was alive then:
 * `live` and `live_objects` are signed numbers.
 */
int heap_profile_since(struct ocp_ctx *ctx, const struct heap *heap, struct heap_names *names,
		       double rate, const struct heap_mark *mark, struct profile *profile);

#endif
