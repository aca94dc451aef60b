/* SPDX-License-Identifier: MIT */
/*
 * Room top: the full-screen view ocaml-probes-top.
 * In: a watch, and keys.
 * Out: a screen.
 * Callers: none, since it is a program.
 */
/*
 * The state of `top`. Ticks and keys change the state; draw() shows it:
 *
 *	watch -> snapshot -> view (filtered, sorted) -> draw
 */
#ifndef TOP_TOP_H
#define TOP_TOP_H

#include <stdbool.h>
#include <stddef.h>
#include <wchar.h>
#include "ocaml_probes.h"
#include "cli/session.h"
#include "top/view.h"
#include "watch/watch.h"

/* ---- heap_view.c ---------------------------------------------------------------------------- */

/*
 * The view of `top --memprof`, which runs Gc.Memprof in a program: the program's allocation sites,
 * sorted by live words.
 */
enum {
	HEAP_VIEW_READ_MS = 50,	   /* how often to call heap_view_read() */
	HEAP_VIEW_LEAST_LINES = 3, /* with fewer lines, nothing is drawn */
};

struct heap_view;

/*
 * Make a view. The profile begins with heap_view_follow(). RATE: samples per word. If BY_LEAF, the
 * sites are the innermost frames, whether their functions are own or not.
 */
int heap_view_open(struct ocp_ctx *ctx, double rate, bool by_leaf, struct heap_view **out);
/* End the profile and free VIEW, which may be NULL. */
void heap_view_close(struct heap_view *view);

/* Read the events of the program. VIEW may be NULL. Return 0 or -ENOMEM. */
int heap_view_read(struct heap_view *view);
/*
 * Let VIEW profile the processes that WATCH watches now. Call this at each tick. VIEW may be NULL.
 * Return 0 or -ENOMEM.
 */
int heap_view_follow(struct heap_view *view, struct watch *watch);
/* Store the current numbers for heap_view_draw(). VIEW may be NULL. Return 0 or -ENOMEM. */
int heap_view_show(struct heap_view *view);

/*
 * Draw VIEW from line Y on, in at most LINES lines. Return the number of lines used. VIEW may be
 * NULL.
 */
int heap_view_draw(const struct heap_view *view, int y, int lines);

/* ---- the state ------------------------------------------------------------------------------ */

enum top_mode {
	MODE_NORMAL,
	MODE_FILTER,  /* keys edit the filter */
	MODE_CONFIRM, /* waiting for y or n */
	MODE_HELP,
};

/* A switch of the handlers of the probe NAME of the program EXE, on or off. */
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
	char hidden[256];   /* the parts that do not fit on the screen; "": all fit */
	char question[512]; /* shown in MODE_CONFIRM */
	bool is_paused;	    /* the display is frozen; the watch continues */
	bool scales_by_all; /* one scale for all sparklines on the screen */
	bool is_utf8, has_colours;
	bool is_too_small; /* the screen has room only for an error */
	bool is_ending;
	/* limit of the overhead of each program, as a share of one core; 0: no limit */
	double budget;
	bool has_all;	    /* every program with probes is watched */
	size_t n_ticks;	    /* number of ticks since the start */
	size_t shown_ticks; /* the value of n_ticks when the displayed snapshot was taken */
	size_t help_page;
	struct top_switch asked;     /* the switch to confirm in MODE_CONFIRM */
	struct top_switch *switched; /* probes whose handlers this `top` has switched on */
	size_t n_switched;
};

/* The values of the options that only this command has. */
struct top_options {
	size_t screens; /* the value of --batch; 0: show a view in the terminal */
	bool memprof, by_leaf;
	double memprof_rate; /* samples per word, with `memprof` */
};

/*
 * Start watching the programs that OPTIONS name. Return EXIT_DONE, or another code after printing
 * the error.
 */
struct options;
int top_open(struct top *top, const struct options *options);
void top_close(struct top *top);

/* Handle a tick of the clock. Return 0, or the library's error code. */
int top_tick(struct top *top);
/* Show the current state of the watch, unless the display is frozen. Return 0 or -ENOMEM. */
int top_show(struct top *top);
int top_pause(struct top *top, bool pause);

/* Set the message of the status line. */
void top_message(struct top *top, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* ---- switching (switch.c) ------------------------------------------------------------------- */

/*
 * switch_handler() asks the user whether to switch the handlers of the probe under the cursor
 * (MODE_CONFIRM), since handlers run code in the program; switch_answered() handles the reply.
 * switch_counter() switches the counter of the probe at once. The result of a switch, or why there
 * is none, is shown as the message. Return 0 or -ENOMEM.
 */
int switch_handler(struct top *top);
int switch_counter(struct top *top);
int switch_answered(struct top *top, bool yes);
/* Print to stderr the handlers that this `top` has switched on and that stay on. */
void switch_say_left_on(const struct top *top);
void switch_free(struct top *top);

/* ---- keys.c, draw.c ------------------------------------------------------------------------- */

/*
 * Handle KEY: a character or, if IS_FUNCTION, a KEY_... of curses. Return 0, or the library's error
 * code.
 */
int keys_take(struct top *top, wint_t key, bool is_function);

/* Draw the whole screen. The terminal must be open. */
void draw(struct top *top);
/* Set has_colours to whether the screen has colours. */
void draw_begin(struct top *top);

/* ---- batch.c: top --batch N ----------------------------------------------------------------- */

/* Screens as plain text on stdout; ocaml-probes-top(1) defines the format. */

/*
 * Print N screens, one per tick, beginning at the first tick for which there are rates. A signal of
 * SESSION ends the run early. Return 0, or the library's error code.
 */
int batch_run(struct top *top, struct session *session, size_t n);

#endif
