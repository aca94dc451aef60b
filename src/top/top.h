/* SPDX-License-Identifier: MIT */
/*
 * The state of `top`. Ticks and keys change it; draw() shows it:
 *
 *	watch -> snapshot -> view (filtered, sorted) -> draw
 */
#ifndef TOP_TOP_H
#define TOP_TOP_H

#include <stdbool.h>
#include <stddef.h>
#include <wchar.h>
#include "ocaml_probes.h"
#include "top/heap_view.h"
#include "top/view.h"
#include "watch/watch.h"

enum top_mode {
	MODE_NORMAL,
	MODE_FILTER,  /* keys edit the filter */
	MODE_CONFIRM, /* waiting for y or n */
	MODE_HELP,
};

/* A probe of a program, and the switch of its handlers. */
struct top_switch {
	char *exe, *name;
	bool on;
};

struct top {
	struct ocp_ctx *ctx;
	struct watch *watch;
	struct view view;
	struct heap_view *heap; /* NULL without --memprof */
	enum top_mode mode;
	char message[512];
	char hidden[256];   /* the parts that have no room on the screen; "": none */
	char question[512]; /* for MODE_CONFIRM */
	bool is_paused;	    /* the display is frozen; the watch continues */
	bool scales_by_all; /* one scale for all sparklines on the screen */
	bool is_utf8, has_colours;
	bool is_too_small; /* the screen has room for an error only */
	bool is_ending;
	double budget;	    /* of each program, as a share of one core; 0: no limit */
	bool has_all;	    /* every program with probes is watched */
	size_t n_ticks;	    /* since the start */
	size_t shown_ticks; /* n_ticks of the displayed snapshot */
	size_t help_page;
	struct top_switch asked;     /* in MODE_CONFIRM */
	struct top_switch *switched; /* handlers that this `top` has switched on */
	size_t n_switched;
};

/* The options that only this command has. */
struct top_options {
	size_t screens; /* of --batch; 0: a view in the terminal */
	bool memprof;
	double memprof_rate; /* with memprof */
};

/* Start watching as OPTIONS say. Returns EXIT_DONE, or another code after printing the error. */
struct options;
int top_open(struct top *top, const struct options *options);
void top_close(struct top *top);

/* Handle a tick of the clock. Returns 0, or the library's error code. */
int top_tick(struct top *top);
/* Show the current state of the watch, unless the display is frozen. Returns 0 or -ENOMEM. */
int top_show(struct top *top);
int top_pause(struct top *top, bool pause);

/* Set the message of the status line. */
void top_message(struct top *top, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* ---- switching (switch.c) ------------------------------------------------------------------- */

/*
 * Toggle the handlers, or the counter, of the probe under the cursor. Handlers run code in the
 * program, so they need confirmation (MODE_CONFIRM). The result is shown as the message. Returns 0
 * or -ENOMEM.
 */
int switch_handler(struct top *top);
int switch_counter(struct top *top);
int switch_answered(struct top *top, bool yes);
/* Print to stderr which handlers stay on. */
void switch_say_left_on(const struct top *top);
void switch_free(struct top *top);

/* ---- keys.c, draw.c ------------------------------------------------------------------------- */

/* Handle KEY: a character, or a KEY_... of curses if IS_FUNCTION. Returns like top_tick(). */
int keys_take(struct top *top, wint_t key, bool is_function);

/* Draw the whole screen. The terminal must be open. */
void draw(struct top *top);
/* Find out whether the screen has colours. */
void draw_begin(struct top *top);

#endif
