/* SPDX-License-Identifier: MIT */
/* The sites of a program by live words, while `top --memprof` runs Gc.Memprof there. */
#ifndef TOP_HEAP_VIEW_H
#define TOP_HEAP_VIEW_H

#include <stdbool.h>
#include "base/ctx.h"
#include "watch/watch.h"

enum {
	HEAP_VIEW_READ_MS = 50,	   /* events are to be read so often */
	HEAP_VIEW_LEAST_LINES = 3, /* with less room it is not drawn */
};

struct heap_view;

/* RATE: samples per word. */
int heap_view_open(struct ocp_ctx *ctx, double rate, struct heap_view **out);
/* Ends the profile. Takes NULL. */
void heap_view_close(struct heap_view *view);

/* Read the events of the program. VIEW may be NULL. Returns 0 or -ENOMEM. */
int heap_view_read(struct heap_view *view);
/* Profile the processes of WATCH. At each tick. VIEW may be NULL. Returns 0 or -ENOMEM. */
int heap_view_follow(struct heap_view *view, struct watch *watch);
/* Show the numbers of now. VIEW may be NULL. Returns 0 or -ENOMEM. */
int heap_view_show(struct heap_view *view);

/* Draw it from line Y on, in at most LINES lines. Returns how many. VIEW may be NULL. */
int heap_view_draw(const struct heap_view *view, int y, int lines);

#endif
