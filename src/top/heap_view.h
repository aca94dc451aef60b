/* SPDX-License-Identifier: MIT */
/*
 * The view of `top --memprof`, which runs Gc.Memprof in a program: the program's allocation sites,
 * sorted by live words.
 */
#ifndef TOP_HEAP_VIEW_H
#define TOP_HEAP_VIEW_H

#include <stdbool.h>
#include "base/ctx.h"
#include "watch/watch.h"

enum {
	HEAP_VIEW_READ_MS = 50,	   /* how often to call heap_view_read() */
	HEAP_VIEW_LEAST_LINES = 3, /* with fewer lines, nothing is drawn */
};

struct heap_view;

/* Make a view. The profile begins with heap_view_follow(). RATE: samples per word. */
int heap_view_open(struct ocp_ctx *ctx, double rate, struct heap_view **out);
/* End the profile and free VIEW, which may be NULL. */
void heap_view_close(struct heap_view *view);

/* Read the events of the program. VIEW may be NULL. Return 0 or -ENOMEM. */
int heap_view_read(struct heap_view *view);
/*
 * Profile the processes that WATCH has now. Call this at each tick. VIEW may be NULL. Return 0 or
 * -ENOMEM.
 */
int heap_view_follow(struct heap_view *view, struct watch *watch);
/* Store the current numbers for heap_view_draw(). VIEW may be NULL. Return 0 or -ENOMEM. */
int heap_view_show(struct heap_view *view);

/*
 * Draw VIEW from line Y on, in at most LINES lines. Return the number of lines used. VIEW may be
 * NULL.
 */
int heap_view_draw(const struct heap_view *view, int y, int lines);

#endif
