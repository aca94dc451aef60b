/* SPDX-License-Identifier: MIT */
/*
 * Names the frames in the call stacks of memprof/heap.h, and adds up the statistics of all stacks
 * with the same allocation site.
 */
#ifndef MEMPROF_HEAP_SITES_H
#define MEMPROF_HEAP_SITES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/ctx.h"
#include "memprof/heap.h"
#include "unwind/frame_names.h"

/* Names the frames in the call stacks of a process, by the files that the process has mapped. */
struct heap_names;

/*
 * Read the mappings of PID; files that cannot be read are left out. If a frame is in no known
 * mapping, heap_names_of() reads the mappings again, but at most once a second and only while the
 * process exists.
 */
int heap_names_open(struct ocp_ctx *ctx, pid_t pid, struct heap_names **out);
void heap_names_close(struct heap_names *names);

/*
 * Name the frames of STACK: set *FRAMES to a list of *N >= 1 frames, the outermost first. The list
 * is valid until the next call; the frames in it are valid as long as NAMES.
 */
int heap_names_of(struct heap_names *names, const uint64_t *stack, uint32_t depth,
		  const struct named_frame *const **frames, size_t *n);

/*
 * An allocation site: a place in the source that is the innermost frame of an own function (see
 * unwind/own_frames.h) in one or more call stacks. If a call stack contains no own function,
 * or if own functions do not matter, it is the innermost frame.
 */
struct heap_site {
	const struct named_frame *frame;
	/*
	 * The innermost frame of one of the call stacks, whose function allocates; NULL: `frame` is
	 * the innermost frame. All call stacks of a site have the same innermost function.
	 */
	const struct named_frame *via;
	/* Sum over all call stacks of the site; its `frames` has no meaning. */
	struct heap_stack sum;
};

/* Which sites to list, and in which order. */
struct heap_sites_order {
	bool by_live; /* sort by live words instead of allocated words */
	bool by_leaf; /* the sites are the innermost frames, of own functions or not */
};

/* List the sites in ORDER. The caller frees *SITES. */
int heap_sites(struct ocp_ctx *ctx, const struct heap *heap, struct heap_names *names,
	       struct heap_sites_order order, struct heap_site **sites, size_t *n);
/*
 * Merge sites of the same functions and source line (they may come from several programs), and
 * sort the list as heap_sites() does.
 */
void heap_sites_merge(struct heap_site *sites, size_t *n, bool by_live);

#endif
