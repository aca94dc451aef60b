// SPDX-License-Identifier: MIT
/*
 * What `top` shows of a watch, in which order, with the cursor where; on a watch that is made up
 * here, in place of the real one. And how long a tick takes with 10 000 probes, drawing included.
 */
#include <errno.h>
#include <fcntl.h>
#include <locale.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <curses.h>

#include "top/top.h"
#include "unit.h"

/* ---- a watch -------------------------------------------------------------------------------- */

struct watch {
	struct watch_target targets[2];
	size_t n;
	size_t n_switched;
	bool on;
};

WRAP(struct watch *, watch_new, (struct ocp_ctx * ctx, bool by_process), (ctx, by_process))
{
	(void)ctx;
	(void)by_process;
	return NULL;
}

WRAP(void, watch_free, (struct watch * watch), (watch))
{
	(void)watch;
}

WRAP(int, watch_set, (struct watch * watch, const struct watch_spec *specs, size_t n),
     (watch, specs, n))
{
	(void)watch;
	(void)specs;
	(void)n;
	return 0;
}

WRAP(int, watch_tick, (struct watch * watch), (watch))
{
	(void)watch;
	return 0;
}

WRAP(size_t, watch_target_count, (const struct watch *watch), (watch))
{
	return watch->n;
}

WRAP(const struct watch_target *, watch_target, (const struct watch *watch, size_t target),
     (watch, target))
{
	return &watch->targets[target];
}

WRAP(ptrdiff_t, watch_find_target, (const struct watch *watch, const char *title), (watch, title))
{
	for (size_t i = 0; i < watch->n; i++)
		if (strcmp(watch->targets[i].title, title) == 0)
			return (ptrdiff_t)i;
	return -1;
}

WRAP(ptrdiff_t, watch_find_probe, (const struct watch_target *target, const char *name),
     (target, name))
{
	for (size_t i = 0; i < target->n_probes; i++)
		if (strcmp(target->probes[i].name, name) == 0)
			return (ptrdiff_t)i;
	return -1;
}

WRAP(size_t, watch_column_count, (const struct watch *watch, enum watch_span span), (watch, span))
{
	(void)watch;
	(void)span;
	return 10;
}

WRAP(double, watch_probe_rate,
     (const struct watch *watch, enum watch_span span, size_t target, size_t probe, size_t age),
     (watch, span, target, probe, age))
{
	(void)span;
	assert_true(age < 10);
	return watch->targets[target].probes[probe].rate + (double)age;
}

WRAP(int, watch_switch_handler,
     (struct watch * watch, size_t target, const char *probe, bool on, size_t *n),
     (watch, target, probe, on, n))
{
	(void)target;
	(void)probe;
	watch->n_switched++;
	watch->on = on;
	*n = 1;
	return 0;
}

WRAP(int, watch_switch_counter, (struct watch * watch, size_t target, const char *probe, bool on),
     (watch, target, probe, on))
{
	(void)watch;
	(void)target;
	(void)probe;
	(void)on;
	return 0;
}

static pid_t one_pid[] = { 42 }, two_pids[] = { 7, 8 };

static struct watch_probe some_probes[] = {
	{ .name = "alpha",
	  .hits = 10,
	  .rate = 5,
	  .n_sites = 1,
	  .is_counted = true,
	  .handler = WATCH_HANDLER_OFF,
	  .n_enabled = 0 },
	{ .name = "beta",
	  .hits = 99,
	  .rate = 1,
	  .n_sites = 1,
	  .is_counted = true,
	  .handler = WATCH_HANDLER_ON,
	  .n_enabled = 1 },
	{ .name = "gamma",
	  .hits = 50,
	  .rate = 7,
	  .n_sites = 5000,
	  .is_counted = true,
	  .handler = WATCH_HANDLER_OFF,
	  .n_enabled = 0 },
	{ .name = "gamma_hit",
	  .hits = 50,
	  .rate = 0,
	  .n_sites = 1,
	  .is_counted = true,
	  .handler = WATCH_HANDLER_UNKNOWN,
	  .n_enabled = 0 },
};
static struct watch_probe other_probes[] = {
	{ .name = "alpha",
	  .hits = 3,
	  .rate = NAN,
	  .n_sites = 1,
	  .is_counted = true,
	  .handler = WATCH_HANDLER_OFF,
	  .n_enabled = 0 },
};

#define LENGTH(array) (sizeof(array) / sizeof((array)[0]))

static struct watch make_watch(void)
{
	return (struct watch){
		.n = 2,
		.targets = {
			{ .title = "/bin/one", .is_up = true, .knows_pids = true, .pids = one_pid,
			  .n_pids = 1, .probes = some_probes, .n_probes = LENGTH(some_probes) },
			{ .title = "/bin/other", .is_up = true, .knows_pids = true, .pids = two_pids,
			  .n_pids = 2, .probes = other_probes, .n_probes = LENGTH(other_probes) },
		},
	};
}

/* ---- the order and the cursor --------------------------------------------------------------- */

/* The first letters of the program and of the probe, with the last one of the latter. */
static void check_order(const struct view *view, const char *expected)
{
	char text[256] = "";

	for (size_t i = 0; i < view->n_shown; i++) {
		const struct seen_probe *probe = view_probe(view, i);

		snprintf(text + strlen(text), sizeof(text) - strlen(text), "%s%s:%s", i ? " " : "",
			 view->seen->targets[probe->target].name, probe->name);
	}
	assert_string_equal(text, expected);
}

static void open_view(struct view *view, const struct watch *watch)
{
	*view = (struct view){ 0 };
	assert_int_equal(view_show(view, view_snapshot_take(watch)), 0);
	view_set_lines(view, 3);
}

TEST(orders)
{
	struct watch watch = make_watch();
	struct view view;

	open_view(&view, &watch);
	/* No rate is not none. */
	assert_true(view.seen->targets[0].rate == 13);
	assert_true(isnan(view.seen->targets[1].rate));
	/* What is not known is last. */
	check_order(&view, "one:gamma one:alpha one:beta one:gamma_hit other:alpha");
	view_sort(&view, view.key);
	check_order(&view, "other:alpha one:gamma_hit one:beta one:alpha one:gamma");
	/* Equals are in the order of their names, whichever way it goes. */
	view_sort(&view, SORT_HITS);
	check_order(&view, "one:beta one:gamma one:gamma_hit one:alpha other:alpha");
	view_sort(&view, view.key);
	check_order(&view, "other:alpha one:alpha one:gamma one:gamma_hit one:beta");
	view_sort(&view, SORT_NAME);
	check_order(&view, "one:alpha other:alpha one:beta one:gamma one:gamma_hit");
	view_sort(&view, SORT_HANDLER);
	check_order(&view, "one:beta one:alpha other:alpha one:gamma one:gamma_hit");
	view_sort(&view, SORT_EXE);
	view_sort(&view, view.key);
	check_order(&view, "other:alpha one:alpha one:beta one:gamma one:gamma_hit");
	view_free(&view);
}

TEST(the_filter_takes_parts_of_names)
{
	struct watch watch = make_watch();
	struct view view;

	open_view(&view, &watch);
	assert_true(view_filter_add(&view, "A"));
	assert_true(view_filter_add(&view, "m"));
	check_order(&view, "one:gamma one:gamma_hit");
	assert_true(view_filter_remove(&view));
	check_order(&view, "one:gamma one:alpha one:beta one:gamma_hit other:alpha");
	view_filter_clear(&view);
	/* Of programs, too, if there are several. */
	view_filter_add(&view, "oth");
	check_order(&view, "other:alpha");
	view_filter_add(&view, "é");
	check_order(&view, "");
	assert_null(view_hold(&view));
	view_move(&view, 1);
	view_end(&view);
	assert_true(view_filter_remove(&view));
	assert_string_equal(view.filter, "oth");
	while (view_filter_add(&view, "x"))
		;
	assert_int_equal(strlen(view.filter), FILTER_BYTES - 1);
	view_filter_clear(&view);
	assert_false(view_filter_remove(&view));
	view_free(&view);
}

static const char *under_cursor(const struct view *view)
{
	return view_probe(view, view->cursor)->name;
}

TEST(the_cursor_stays_on_its_probe)
{
	struct watch watch = make_watch();
	const double rate = some_probes[1].rate;
	struct view view;

	open_view(&view, &watch);
	/* On none in particular, it stays at the top. */
	assert_string_equal(under_cursor(&view), "gamma");
	some_probes[1].rate = 100;
	assert_int_equal(view_show(&view, view_snapshot_take(&watch)), 0);
	assert_string_equal(under_cursor(&view), "beta");
	/* It goes with the probe, and stays on the screen. */
	view_move(&view, 1);
	view_move(&view, -1);
	some_probes[1].rate = -0.5;
	assert_int_equal(view_show(&view, view_snapshot_take(&watch)), 0);
	assert_string_equal(under_cursor(&view), "beta");
	assert_true(view.cursor == 3 && view.first == 1);
	view_sort(&view, SORT_NAME);
	assert_string_equal(under_cursor(&view), "beta");
	/* Through a filter that hides it. */
	view_filter_add(&view, "gamma");
	assert_true(view.cursor < view.n_shown);
	view_filter_clear(&view);
	assert_string_equal(under_cursor(&view), "beta");
	view_home(&view);
	assert_true(view.cursor == 0 && view.first == 0);
	view_end(&view);
	assert_true(view.cursor == 4 && view.first == 2);
	view_move(&view, 100);
	assert_true(view.cursor == 4);
	view_move(&view, -100);
	assert_true(view.cursor == 0 && view.first == 0);
	/* Its program is not watched any more. */
	view_end(&view);
	watch.n = 0;
	assert_int_equal(view_show(&view, view_snapshot_take(&watch)), 0);
	assert_true(view.cursor == 0 && view.n_shown == 0);
	some_probes[1].rate = rate;
	view_free(&view);
}

/* No line of the screen is empty while there is something to show above. */
TEST(larger_screens_are_filled)
{
	struct watch watch = make_watch();
	struct view view;

	open_view(&view, &watch);
	view_end(&view);
	view_set_lines(&view, 4);
	assert_true(view.first == 1);
	view_set_lines(&view, 40);
	assert_true(view.first == 0);
	view_set_lines(&view, 1);
	assert_true(view.first == view.cursor);
	view_free(&view);
}

TEST(the_last_minute_is_kept_when_asked_for)
{
	struct watch watch = make_watch();
	float rates[WATCH_COLUMNS];
	struct view view;

	open_view(&view, &watch);
	view_snapshot_history(view.seen, &watch, &view.seen->probes[2], rates);
	assert_true(rates[59] == 7 && rates[50] == 16);
	assert_true(isnan(rates[49]) && isnan(rates[0]));
	assert_int_equal(view_snapshot_copy_history(view.seen, &watch), 0);
	memset(rates, 0, sizeof(rates));
	view_snapshot_history(view.seen, NULL, &view.seen->probes[2], rates);
	assert_true(rates[59] == 7 && rates[50] == 16);
	assert_true(isnan(rates[49]) && isnan(rates[0]));
	view_free(&view);
}

/* ---- keys ----------------------------------------------------------------------------------- */

static void open_top(struct top *top, struct watch *watch)
{
	*top = (struct top){ .watch = watch, .n_ticks = 10 };
	assert_int_equal(top_tick(top), 0);
	view_set_lines(&top->view, 3);
}

static void press(struct top *top, const char *keys)
{
	for (; *keys; keys++)
		assert_int_equal(keys_take(top, (wint_t)*keys, false), 0);
}

TEST(switching_is_asked_about)
{
	struct watch watch = make_watch();
	struct top top;

	open_top(&top, &watch);
	/* gamma: 5000 sites */
	press(&top, "e");
	assert_int_equal(top.mode, MODE_CONFIRM);
	assert_non_null(strstr(top.question, "gamma on: 5000 sites in 1 process?"));
	press(&top, "q");
	assert_false(top.is_ending);
	assert_int_equal(watch.n_switched, 0);
	assert_int_equal(top.mode, MODE_NORMAL);
	press(&top, "ey");
	assert_int_equal(watch.n_switched, 1);
	assert_true(watch.on);
	assert_int_equal(top.n_switched, 1);
	/* beta: one site in one process, on */
	press(&top, "/beta\re");
	assert_int_equal(watch.n_switched, 1);
	assert_non_null(strstr(top.question, "beta off: 1 site in 1 process?"));
	press(&top, "y");
	assert_int_equal(watch.n_switched, 2);
	assert_false(watch.on);
	/* gamma_hit: not known */
	keys_take(&top, 27, false);
	press(&top, "/_hit\re");
	assert_int_equal(watch.n_switched, 2);
	assert_int_equal(top.mode, MODE_NORMAL);
	/* other's alpha: two processes */
	keys_take(&top, 27, false);
	press(&top, "/other\re");
	assert_int_equal(top.mode, MODE_CONFIRM);
	keys_take(&top, KEY_DOWN, true);
	assert_int_equal(watch.n_switched, 2);
	press(&top, "q");
	assert_true(top.is_ending);
	switch_free(&top);
	view_free(&top.view);
}

TEST(no_key_does_harm)
{
	struct watch watch = make_watch();
	struct top top;

	open_top(&top, &watch);
	srand(1);
	for (int i = 0; i < 200000; i++) {
		const bool is_function = rand() % 8 == 0;
		const wint_t key = is_function ? (wint_t)(KEY_MIN + rand() % 300)
					       : (wint_t)(rand() % 16 ? rand() % 128 : rand());

		assert_int_equal(keys_take(&top, key == 12 ? 'x' : key, is_function), 0);
		watch.n = i % 1000 < 10 ? 0 : 2;
		if (i % 10 == 0)
			assert_int_equal(top_tick(&top), 0);
		view_set_lines(&top.view, (size_t)(rand() % 9));
		assert_true(top.view.cursor == 0 || top.view.cursor < top.view.n_shown);
	}
	switch_free(&top);
	view_free(&top.view);
}

/* ---- the screen ----------------------------------------------------------------------------- */

/* Curses' idea of a screen; what it would send to the terminal goes nowhere. */
struct test_screen {
	FILE *nowhere;
	SCREEN *screen;
};

static void open_screen(struct test_screen *to, int lines, int columns)
{
	to->nowhere = fopen("/dev/null", "r+");
	assert_non_null(to->nowhere);
	to->screen = newterm("xterm-256color", to->nowhere, to->nowhere);
	assert_non_null(to->screen);
	resizeterm(lines, columns);
}

static void close_screen(struct test_screen *screen)
{
	endwin();
	delscreen(screen->screen);
	fclose(screen->nowhere);
}

/* Is this on the screen? */
static bool shows(const char *text)
{
	char line[2048];

	for (int y = 0; y < LINES; y++) {
		mvinnstr(y, 0, line, sizeof(line) - 1);
		if (strstr(line, text))
			return true;
	}
	return false;
}

static void draw_at(struct top *top, int lines, int columns)
{
	resizeterm(lines, columns);
	draw(top);
}

TEST(what_is_wrong_is_said)
{
	struct watch watch = make_watch();
	struct test_screen screen;
	struct watch_pair pairs[] = {
		{ .start = "start\033[2J",
		  .stop = "stop",
		  .rate = 1,
		  .p50_ns = 2000,
		  .p99_ns = 2999,
		  .sum = { .max_ns = 3000, .open = 4, .orphan_starts = 5, .orphan_stops = 6 } },
	};
	struct top top;

	watch.targets[0].losses = (struct watch_losses){ 2, 3, 4, 5, 6, 0 };
	watch.targets[0].filter_mismatch = "arg0 of probe 'alpha\033' is an int";
	watch.targets[0].pairs = pairs;
	watch.targets[0].n_pairs = 1;
	watch.targets[1].is_up = false;
	watch.targets[1].problem = "this process\033[2J lacks CAP_BPF";
	open_screen(&screen, 30, 220);
	open_top(&top, &watch);
	draw_at(&top, 30, 220);
	assert_true(
		shows("not measured:   2 starts not recorded (map full)   3 starts without a key   "
		      "4 hits in no row (map full)   5 children not followed (map full)   "
		      "6 hits of another type than the filter's"));
	assert_true(shows("filter: arg0 of probe 'alpha?' is an int"));
	assert_true(shows("this process?[2J lacks CAP_BPF"));
	assert_true(shows("not measured"));
	assert_true(shows("2 programs, 3 processes"));
	assert_true(shows("start?[2J,stop"));
	assert_true(shows("2.00us  3.00us  3.00us"));
	assert_true(
		shows("start?[2J,stop: 100% of its stops have no start; usual causes: the start "));
	/* Of the other program's alpha neither rate nor counter are known. */
	press(&top, "/other\r");
	draw_at(&top, 30, 200);
	assert_true(shows("> alpha"));
	assert_true(shows("  off          -"));
	/* One that is not measured, alone. */
	view_filter_clear(&top.view);
	watch.targets[0] = watch.targets[1];
	watch.n = 1;
	assert_int_equal(top_tick(&top), 0);
	draw_at(&top, 24, 80);
	assert_true(shows("/bin/other"));
	assert_true(shows("not measured   pids 7 8"));
	assert_true(shows("this process?[2J lacks CAP_BPF"));
	watch.n = 0;
	assert_int_equal(top_tick(&top), 0);
	draw_at(&top, 24, 80);
	assert_true(shows("no measurable program with probes is running"));
	switch_free(&top);
	view_free(&top.view);
	close_screen(&screen);
}

/* In each of its modes it can be drawn at every size, with the cursor on the screen. */
TEST(every_size_will_do)
{
	static const char *const modes[] = { "", "/a", "?", "?xx", "\033e", " " };
	struct watch watch = make_watch();
	struct test_screen screen;
	struct top top;

	open_screen(&screen, 24, 80);
	open_top(&top, &watch);
	draw_begin(&top);
	for (size_t i = 0; i < sizeof(modes) / sizeof(modes[0]); i++) {
		press(&top, modes[i]);
		for (int lines = 1; lines < 40; lines += lines < 12 ? 1 : 5)
			for (int columns = 1; columns < 150; columns += 3) {
				draw_at(&top, lines, columns);
				if (lines < 8 || columns < 40 || top.mode == MODE_HELP)
					continue;
				assert_true(top.view.cursor >= top.view.first);
				assert_true(top.view.cursor < top.view.first + top.view.n_lines);
				assert_true(shows(">") || !top.view.n_shown);
			}
		press(&top, "\033\033");
		draw_at(&top, 24, 80);
	}
	switch_free(&top);
	view_free(&top.view);
	close_screen(&screen);
}

TEST(help_has_all_keys)
{
	struct watch watch = make_watch();
	struct test_screen screen;
	struct top top;

	open_screen(&screen, 24, 80);
	open_top(&top, &watch);
	press(&top, "?");
	draw_at(&top, 24, 80);
	assert_true(shows("up down j k"));
	assert_true(shows("hits x cost per hit"));
	assert_true(shows("any key: back"));
	press(&top, "?");
	draw_at(&top, 24, 80);
	assert_int_equal(top.mode, MODE_NORMAL);
	assert_true(shows("> gamma"));
	/* It takes several pages here. */
	press(&top, "?");
	draw_at(&top, 10, 40);
	assert_true(shows("any key: more"));
	for (int i = 0; i < 20 && top.mode == MODE_HELP; i++) {
		press(&top, "x");
		draw_at(&top, 10, 40);
	}
	assert_int_equal(top.mode, MODE_NORMAL);
	switch_free(&top);
	view_free(&top.view);
	close_screen(&screen);
}

/* ---- time ----------------------------------------------------------------------------------- */

static double cpu_ms(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &ts);
	return (double)ts.tv_sec * 1e3 + (double)ts.tv_nsec / 1e6;
}

/* The least time of a tick, sorted and drawn, of the rates of N probes that all change. */
static double best_tick_ms(size_t n)
{
	enum { ROUNDS = 20 };
	struct watch_probe *probes = calloc(n, sizeof(*probes));
	char(*names)[48] = calloc(n, sizeof(*names));
	struct watch watch = make_watch();
	struct test_screen screen;
	double best_ms = 1e9, pause_ms;
	struct top top;

	open_screen(&screen, 100, 250);
	for (size_t i = 0; i < n; i++) {
		snprintf(names[i], sizeof(names[i]), "library_module_function_%05zu", i);
		probes[i] = some_probes[0];
		probes[i].name = names[i];
	}
	watch.n = 1;
	watch.targets[0].probes = probes;
	watch.targets[0].n_probes = n;
	open_top(&top, &watch);
	top.is_utf8 = true;
	top.scales_by_all = true;
	draw_begin(&top);
	for (int round = 0; round < ROUNDS; round++) {
		double before_ms;

		for (size_t i = 0; i < n; i++)
			probes[i].rate = rand() % 1000000;
		before_ms = cpu_ms();
		assert_int_equal(top_tick(&top), 0);
		draw(&top);
		best_ms = fmin(best_ms, cpu_ms() - before_ms);
	}
	pause_ms = cpu_ms();
	press(&top, " ");
	pause_ms = cpu_ms() - pause_ms;
	print_message("# a tick with %zu probes: %.2f ms; a pause: %.2f ms\n", n, best_ms,
		      pause_ms);
	close_screen(&screen);
	switch_free(&top);
	view_free(&top.view);
	free(probes);
	free(names);
	return best_ms;
}

/*
 * Ten times as many probes take hardly more than ten times as long: 13 if all is sorting, 100 if it
 * is quadratic. How long 10 000 take is a matter of `make bench`.
 */
TEST(ten_thousand_probes_are_drawn_in_time)
{
	assert_true(best_tick_ms(10000) < 30 * best_tick_ms(1000));
}

static int use_utf8(void **state)
{
	(void)state;
	return setlocale(LC_CTYPE, "C.UTF-8") ? 0 : -1;
}

ALL_TESTS(use_utf8, NULL);
