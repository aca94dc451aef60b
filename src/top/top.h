/* SPDX-License-Identifier: MIT */
/*
 * What `top` is doing at the moment. A tick of the clock or a key changes it, draw() shows it:
 *
 *	watch -> snapshot -> view (filtered, sorted) -> draw
 */
#ifndef TOP_TOP_H
#define TOP_TOP_H

#include <stdbool.h>
#include <stddef.h>
#include <wchar.h>
#include "ocaml_probes.h"
#include "top/view.h"
#include "watch/watch.h"

enum top_mode {
	MODE_NORMAL,
	MODE_FILTER,  /* keys are added to the filter */
	MODE_CONFIRM, /* y or n is awaited */
	MODE_HELP,
};

/* A probe of a program whose handlers are switched. */
struct top_switch {
	char *exe, *name;
	bool on;
};

struct top {
	struct ocp_ctx *ctx;
	struct watch *watch;
	struct view view;
	enum top_mode mode;
	char message[512];
	char question[512]; /* of MODE_CONFIRM */
	bool is_paused;	    /* what is shown stands still; the watch goes on */
	bool scales_by_all; /* sparklines, by the highest on the screen instead of each by itself */
	bool is_utf8, has_colours;
	bool is_too_small; /* the screen, for more than saying so */
	bool is_ending;
	double budget;	    /* of each program, a share of one core; 0: no limit */
	bool has_all;	    /* programs, nobody named one */
	size_t n_ticks;	    /* ever */
	size_t shown_ticks; /* at what is shown */
	size_t help_page;
	struct top_switch asked;     /* in MODE_CONFIRM */
	struct top_switch *switched; /* on, by us, and not off since */
	size_t n_switched;
};

/* Open what OPTIONS ask to be watched. Returns EXIT_DONE, or another code after having said why. */
struct options;
int top_open(struct top *top, const struct options *options);
void top_close(struct top *top);

/* A tick of the watch has come. Returns 0, or the library's code. */
int top_tick(struct top *top);
/* Show what the watch knows now, unless it is paused. Returns 0 or -ENOMEM. */
int top_show(struct top *top);
int top_pause(struct top *top, bool pause);

/* What the status line says. */
void top_message(struct top *top, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* ---- switching (switch.c) ------------------------------------------------------------------- */

/*
 * Switch the handlers, or the counter, of the probe that the cursor is on: on if off, off if on.
 * Handlers in several processes, or of very many sites, after it has been asked for (MODE_CONFIRM)
 * and answered. What came of it is the message. Return 0 or -ENOMEM.
 */
int switch_handler(struct top *top);
int switch_counter(struct top *top);
int switch_answered(struct top *top, bool yes);
/* Say which handlers stay on, in a line on stderr. */
void switch_say_left_on(const struct top *top);
void switch_free(struct top *top);

/* ---- keys.c, draw.c ------------------------------------------------------------------------- */

/* Do what KEY asks for: a character, or with IS_FUNCTION a KEY_... of curses. As top_tick. */
int keys_take(struct top *top, wint_t key, bool is_function);

/* Draw everything. The screen is open. */
void draw(struct top *top);
/* Find out what the screen can do. */
void draw_begin(struct top *top);

#endif
