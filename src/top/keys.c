// SPDX-License-Identifier: MIT
/* What the keys do. */
#include "top/top.h"

#include <curses.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <wctype.h>

#include "top/terminal.h"

enum { KEY_DELETE = 127, KEY_RUBOUT = 8, KEY_REDRAW = 12 };

/* ---- moving --------------------------------------------------------------------------------- */

static void take_function(struct top *top, wint_t key)
{
	struct view *view = &top->view;
	const ptrdiff_t page = view->n_lines > 1 ? (ptrdiff_t)view->n_lines - 1 : 1;

	switch (key) {
	case KEY_UP:
		view_move(view, -1);
		break;
	case KEY_DOWN:
		view_move(view, 1);
		break;
	case KEY_PPAGE:
		view_move(view, -page);
		break;
	case KEY_NPAGE:
		view_move(view, page);
		break;
	case KEY_HOME:
		view_home(view);
		break;
	case KEY_END:
		view_end(view);
		break;
	default:
		break;
	}
}

/* ---- the filter ----------------------------------------------------------------------------- */

static void tell_filter(struct top *top)
{
	if (top->view.filter[0])
		top_message(top, "%zu of %zu probes match; Esc shows all", top->view.n_shown,
			    top->view.seen->n_probes);
	else
		top_message(top, "all probes");
}

static void add_to_filter(struct top *top, wint_t key)
{
	char character[MB_LEN_MAX + 1];
	mbstate_t state = { 0 };
	size_t n = wcrtomb(character, (wchar_t)key, &state);

	if (n == (size_t)-1 || !iswprint(key))
		return;
	character[n] = '\0';
	view_filter_add(&top->view, character);
}

static void take_in_filter(struct top *top, wint_t key, bool is_function)
{
	if (is_function) {
		if (key == KEY_BACKSPACE)
			view_filter_remove(&top->view);
		else if (key == KEY_ENTER)
			top->mode = MODE_NORMAL;
		else
			take_function(top, key);
	} else if (key == KEY_ESCAPE) {
		view_filter_clear(&top->view);
		top->mode = MODE_NORMAL;
	} else if (key == '\n' || key == '\r') {
		top->mode = MODE_NORMAL;
	} else if (key == KEY_DELETE || key == KEY_RUBOUT) {
		view_filter_remove(&top->view);
	} else {
		add_to_filter(top, key);
	}
	if (top->mode == MODE_NORMAL)
		tell_filter(top);
}

/* ---- all other keys ------------------------------------------------------------------------- */

static void sort_by(struct top *top, enum sort_key key)
{
	static const char *const orders[N_SORT_KEYS][2] = {
		[SORT_RATE] = { "most hits/s first", "fewest hits/s first" },
		[SORT_HITS] = { "most hits first", "fewest hits first" },
		[SORT_NAME] = { "by name", "by name, reversed" },
		[SORT_HANDLER] = { "handlers that are on first", "handlers that are on last" },
		[SORT_EXE] = { "by program", "by program, reversed" },
	};

	view_sort(&top->view, key);
	top_message(top, "sorted: %s", orders[key][top->view.is_reversed]);
}

/* Sort by the next column. Skip the column of programs if there is only one program. */
static void sort_by_next(struct top *top)
{
	enum sort_key key = (top->view.key + 1) % N_SORT_KEYS;

	if (key == SORT_EXE && top->view.seen->n_targets < 2)
		key = (key + 1) % N_SORT_KEYS;
	top->view.is_reversed = false;
	sort_by(top, key);
}

static bool take_sorting(struct top *top, wint_t key)
{
	switch (key) {
	case 's':
		sort_by_next(top);
		return true;
	case 'S':
		sort_by(top, top->view.key);
		return true;
	case 'r':
		sort_by(top, SORT_RATE);
		return true;
	case 'n':
		sort_by(top, SORT_NAME);
		return true;
	case 'h':
		sort_by(top, SORT_HITS);
		return true;
	default:
		return false;
	}
}

static int take_character(struct top *top, wint_t key)
{
	switch (key) {
	case 'q':
		top->is_ending = true;
		return 0;
	case 'j':
		view_move(&top->view, 1);
		return 0;
	case 'k':
		view_move(&top->view, -1);
		return 0;
	case 'g':
		view_home(&top->view);
		return 0;
	case 'G':
		view_end(&top->view);
		return 0;
	case '/':
		top->mode = MODE_FILTER;
		return 0;
	case KEY_ESCAPE:
		view_filter_clear(&top->view);
		tell_filter(top);
		return 0;
	case ' ':
		return top_pause(top, !top->is_paused);
	case 'e':
		return switch_handler(top);
	case 'c':
		return switch_counter(top);
	case 'a':
		top->scales_by_all = !top->scales_by_all;
		top_message(top, top->scales_by_all ? "bars: one scale for all"
						    : "bars: one scale for each");
		return 0;
	case '?':
		top->mode = MODE_HELP;
		top->help_page = 0;
		return 0;
	case KEY_REDRAW:
		clearok(stdscr, TRUE);
		return 0;
	default:
		return 0;
	}
}

int keys_take(struct top *top, wint_t key, bool is_function)
{
	/*
	 * While the screen is too small, accept only q: the user does not see what other keys would
	 * change.
	 */
	if (top->is_too_small) {
		top->is_ending = !is_function && key == 'q';
		return 0;
	}
	switch (top->mode) {
	case MODE_FILTER:
		take_in_filter(top, key, is_function);
		return 0;
	case MODE_CONFIRM:
		return switch_answered(top, !is_function && (key == 'y' || key == 'Y'));
	case MODE_HELP:
		/*
		 * draw() knows the number of pages, and returns to MODE_NORMAL after the last page.
		 */
		top->help_page++;
		return 0;
	default:
		if (is_function)
			take_function(top, key);
		else if (!take_sorting(top, key))
			return take_character(top, key);
		return 0;
	}
}
