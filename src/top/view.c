// SPDX-License-Identifier: MIT
#include "top/view.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/search.h"
#include "cli/pair_note.h"
#include "top/text.h"

/* ---- snapshots ------------------------------------------------------------------------------ */

static size_t longer(size_t a, size_t b)
{
	return a > b ? a : b;
}

/*
 * Copy TEXT to *AT, advance *AT past the copy, and return the copy. If TEXT is NULL, return NULL.
 */
static const char *copy_into(char **at, const char *text)
{
	char *to = *at;

	if (!text)
		return NULL;
	*at = stpcpy(to, text) + 1;
	return to;
}

static size_t kept_bytes(const char *text)
{
	return text ? strlen(text) + 1 : 0;
}

static const char *note_of(char *text, const struct watch_pair *pair)
{
	return pair_note(text, pair->start, pair->stop, &pair->sum) ? text : NULL;
}

static size_t pair_bytes(const struct watch_pair *pair)
{
	char note[PAIR_NOTE_BYTES];

	return kept_bytes(pair->start) + kept_bytes(pair->stop) + kept_bytes(note_of(note, pair));
}

/*
 * Set the n_targets, n_probes and n_pairs of SEEN from WATCH, and *N_PIDS to the number of all
 * pids. Return the number of bytes of all texts.
 */
static size_t size_up(struct view_snapshot *seen, const struct watch *watch, size_t *n_pids)
{
	size_t bytes = 0;

	*n_pids = 0;
	seen->n_targets = watch_target_count(watch);
	for (size_t t = 0; t < seen->n_targets; t++) {
		const struct watch_target *target = watch_target(watch, t);

		seen->n_probes += target->n_probes;
		seen->n_pairs += target->n_pairs;
		*n_pids += target->n_pids;
		bytes += kept_bytes(target->title) + kept_bytes(target->problem) +
			 kept_bytes(target->filter_mismatch);
		for (size_t i = 0; i < target->n_probes; i++)
			bytes += kept_bytes(target->probes[i].name);
		for (size_t i = 0; i < target->n_pairs; i++)
			bytes += pair_bytes(&target->pairs[i]);
	}
	return bytes;
}

static void copy_target(struct seen_target *to, const struct watch_target *from, pid_t **pids,
			char **at)
{
	*to = (struct seen_target){
		.exe = copy_into(at, from->title),
		.problem = copy_into(at, from->problem),
		.filter_mismatch = copy_into(at, from->filter_mismatch),
		.is_up = from->is_up,
		.engine = from->engine,
		.knows_pids = from->knows_pids,
		.pids = *pids,
		.n_pids = from->n_pids,
		.since_ns = from->since_ns,
		.cost_per_hit_ns = from->cost_per_hit_ns,
		.cpu_overhead = from->cpu_overhead,
		.losses = from->losses,
		.gc = from->gc,
	};
	to->name = text_base_name(to->exe);
	for (size_t i = 0; i < from->n_pids; i++)
		*(*pids)++ = from->pids[i];
}

static void copy_probes(struct view_snapshot *seen, size_t target, const struct watch_target *from,
			struct seen_probe **to, char **at)
{
	size_t n_rates = 0;
	double rate = 0;

	for (size_t i = 0; i < from->n_probes; i++) {
		const struct watch_probe *probe = &from->probes[i];

		*(*to)++ = (struct seen_probe){
			.name = copy_into(at, probe->name),
			.target = target,
			.index = i,
			.hits = probe->hits,
			.rate = probe->rate,
			.n_sites = probe->n_sites,
			.n_uses = probe->n_uses,
			.n_uses_without_site = probe->n_uses_without_site,
			.n_enabled = probe->n_enabled,
			.handler = probe->handler,
			.is_counted = probe->is_counted,
			.is_in_pair = probe->is_in_pair,
		};
		if (!isnan(probe->rate)) {
			rate += probe->rate;
			n_rates++;
		}
		seen->longest_name = longer(seen->longest_name, strlen(probe->name));
		if (probe->hits > seen->most_hits)
			seen->most_hits = probe->hits;
	}
	seen->targets[target].rate = n_rates || !from->n_probes ? rate : NAN;
}

static void copy_pairs(struct view_snapshot *seen, size_t target, const struct watch_target *from,
		       struct seen_pair **to, char **at)
{
	for (size_t i = 0; i < from->n_pairs; i++) {
		const struct watch_pair *pair = &from->pairs[i];
		char note[PAIR_NOTE_BYTES];

		*(*to)++ = (struct seen_pair){
			.start = copy_into(at, pair->start),
			.stop = copy_into(at, pair->stop),
			.target = target,
			.rate = pair->rate,
			.p50_ns = pair->p50_ns,
			.p99_ns = pair->p99_ns,
			.max_ns = pair->sum.max_ns,
			.open = pair->sum.open,
			.orphans = pair->sum.orphan_starts + pair->sum.orphan_stops,
			.mismatched = pair->sum.mismatched,
			.note = copy_into(at, note_of(note, pair)),
		};
		seen->longest_pair =
			longer(seen->longest_pair, pair_name_length(pair->start, pair->stop));
	}
}

struct view_snapshot *view_snapshot_take(const struct watch *watch)
{
	struct view_snapshot *seen = calloc(1, sizeof(*seen));
	struct seen_probe *probes;
	struct seen_pair *pairs;
	size_t bytes, n_pids;
	pid_t *pids;
	char *at;

	if (!seen)
		return NULL;
	bytes = size_up(seen, watch, &n_pids);
	seen->targets = calloc(seen->n_targets + 1, sizeof(*seen->targets));
	seen->probes = probes = calloc(seen->n_probes + 1, sizeof(*probes));
	seen->pairs = pairs = calloc(seen->n_pairs + 1, sizeof(*pairs));
	seen->texts = pids = malloc(n_pids * sizeof(*pids) + bytes + 1);
	if (!seen->targets || !probes || !pairs || !pids) {
		view_snapshot_free(seen);
		return NULL;
	}
	at = (char *)(pids + n_pids);
	seen->time_ns = clock_ns(CLOCK_REALTIME);
	for (size_t t = 0; t < seen->n_targets; t++) {
		const struct watch_target *target = watch_target(watch, t);

		copy_target(&seen->targets[t], target, &pids, &at);
		copy_probes(seen, t, target, &probes, &at);
		copy_pairs(seen, t, target, &pairs, &at);
		seen->longest_exe = longer(seen->longest_exe, strlen(seen->targets[t].name));
	}
	return seen;
}

void view_snapshot_free(struct view_snapshot *seen)
{
	if (!seen)
		return;
	free(seen->targets);
	free(seen->probes);
	free(seen->pairs);
	free(seen->texts);
	free(seen->history);
	free(seen);
}

static void read_history(const struct watch *watch, const struct seen_probe *probe, float *rates)
{
	const size_t n = watch_column_count(watch, WATCH_MINUTE);

	for (size_t age = 0; age < WATCH_COLUMNS; age++)
		rates[WATCH_COLUMNS - 1 - age] =
			age < n ? (float)watch_probe_rate(watch, WATCH_MINUTE, probe->target,
							  probe->index, age)
				: NAN;
}

int view_snapshot_copy_history(struct view_snapshot *seen, const struct watch *watch)
{
	if (seen->history)
		return 0;
	seen->history = calloc(seen->n_probes + 1, WATCH_COLUMNS * sizeof(*seen->history));
	if (!seen->history)
		return -ENOMEM;
	for (size_t i = 0; i < seen->n_probes; i++)
		read_history(watch, &seen->probes[i], seen->history + i * WATCH_COLUMNS);
	return 0;
}

void view_snapshot_history(const struct view_snapshot *seen, const struct watch *watch,
			   const struct seen_probe *probe, float *rates)
{
	const size_t i = (size_t)(probe - seen->probes);

	if (seen->history)
		memcpy(rates, seen->history + i * WATCH_COLUMNS, WATCH_COLUMNS * sizeof(*rates));
	else
		read_history(watch, probe, rates);
}

const struct seen_target *view_snapshot_find_target(const struct view_snapshot *seen,
						    const char *exe)
{
	for (size_t t = 0; t < seen->n_targets; t++)
		if (strcmp(seen->targets[t].exe, exe) == 0)
			return &seen->targets[t];
	return NULL;
}

struct seen_probe *view_snapshot_find_probe(const struct view_snapshot *seen, const char *exe,
					    const char *name)
{
	for (size_t i = 0; i < seen->n_probes; i++) {
		struct seen_probe *probe = &seen->probes[i];

		if (strcmp(probe->name, name) == 0 &&
		    strcmp(seen->targets[probe->target].exe, exe) == 0)
			return probe;
	}
	return NULL;
}

/* ---- the view ------------------------------------------------------------------------------- */

void view_free(struct view *view)
{
	view_snapshot_free(view->seen);
	free(view->order);
	free(view->exe);
	free(view->name);
	*view = (struct view){ 0 };
}

const struct seen_probe *view_probe(const struct view *view, size_t line)
{
	return &view->seen->probes[view->order[line]];
}

static const char *exe_of(const struct view *view, const struct seen_probe *probe)
{
	return view->seen->targets[probe->target].exe;
}

/* ---- the order ------------------------------------------------------------------------------ */

static int compare_numbers(double a, double b)
{
	/* Unknown rates sort as if they were below 0. */
	a = isnan(a) ? -1 : a;
	b = isnan(b) ? -1 : b;
	return COMPARE(a, b);
}

static int compare_exe(const struct view *view, const struct seen_probe *a,
		       const struct seen_probe *b)
{
	int order;

	if (a->target == b->target)
		return 0;
	order = strcmp(view->seen->targets[a->target].name, view->seen->targets[b->target].name);
	return order ? order : strcmp(exe_of(view, a), exe_of(view, b));
}

/*
 * Return the rank of PROBE for sorting by the state of its handlers; the highest rank comes first.
 */
static int handler_rank(const struct seen_probe *probe)
{
	static const int ranks[] = {
		[WATCH_HANDLER_ON] = 3,	     [WATCH_HANDLER_MIXED] = 2, [WATCH_HANDLER_OFF] = 1,
		[WATCH_HANDLER_UNKNOWN] = 0, [WATCH_HANDLER_NONE] = 0,
	};

	return ranks[probe->handler];
}

static int compare_by_key(const struct view *view, const struct seen_probe *a,
			  const struct seen_probe *b)
{
	switch (view->key) {
	case SORT_RATE:
		return compare_numbers(b->rate, a->rate);
	case SORT_HITS:
		return COMPARE(b->hits, a->hits);
	case SORT_HANDLER:
		return handler_rank(b) - handler_rank(a);
	case SORT_EXE:
		return compare_exe(view, a, b);
	default:
		return strcmp(a->name, b->name);
	}
}

static int compare_seen_probes(const void *left, const void *right, void *data)
{
	const struct view *view = data;
	const struct seen_probe *a = &view->seen->probes[*(const size_t *)left];
	const struct seen_probe *b = &view->seen->probes[*(const size_t *)right];
	int order = compare_by_key(view, a, b);

	if (view->is_reversed)
		order = -order;
	/* Order equal probes by name and program, so that their order does not change. */
	if (!order)
		order = strcmp(a->name, b->name);
	return order ? order : compare_exe(view, a, b);
}

static bool is_shown(const struct view *view, const struct seen_probe *probe)
{
	return !view->filter[0] || strcasestr(probe->name, view->filter) ||
	       (view->seen->n_targets > 1 &&
		strcasestr(view->seen->targets[probe->target].name, view->filter));
}

bool view_shows_pair(const struct view *view, const struct seen_pair *pair)
{
	return !view->filter[0] || strcasestr(pair->start, view->filter) ||
	       strcasestr(pair->stop, view->filter);
}

/* ---- the cursor ----------------------------------------------------------------------------- */

/* Scroll so that the line of the cursor is visible, without blank lines at the end. */
static void scroll_to_cursor(struct view *view)
{
	const size_t n = view->n_lines;

	if (view->cursor >= view->n_shown)
		view->cursor = view->n_shown ? view->n_shown - 1 : 0;
	if (n && view->cursor >= view->first + n)
		view->first = view->cursor - n + 1;
	if (n && view->first + n > view->n_shown)
		view->first = view->n_shown > n ? view->n_shown - n : 0;
	if (view->cursor < view->first)
		view->first = view->cursor;
}

static void forget_held(struct view *view)
{
	free(view->exe);
	free(view->name);
	view->exe = view->name = NULL;
}

struct seen_probe *view_hold(struct view *view)
{
	struct seen_probe *probe;

	if (!view->n_shown)
		return NULL;
	probe = &view->seen->probes[view->order[view->cursor]];
	forget_held(view);
	view->exe = strdup(exe_of(view, probe));
	view->name = strdup(probe->name);
	/* If out of memory, let the cursor stay on the first line, instead of on a probe. */
	if (!view->exe || !view->name)
		forget_held(view);
	return probe;
}

/*
 * Move the cursor to the line where its probe is now. If the probe is not visible, leave the cursor
 * on the line where it is.
 */
static void find_held(struct view *view)
{
	if (!view->name) {
		view->cursor = 0;
		return;
	}
	for (size_t i = 0; i < view->n_shown; i++) {
		const struct seen_probe *probe = view_probe(view, i);

		if (strcmp(probe->name, view->name) == 0 &&
		    strcmp(exe_of(view, probe), view->exe) == 0) {
			view->cursor = i;
			return;
		}
	}
}

void view_move(struct view *view, ptrdiff_t lines)
{
	if (lines < 0 && (size_t)-lines > view->cursor)
		view->cursor = 0;
	else
		view->cursor += (size_t)lines;
	scroll_to_cursor(view);
	view_hold(view);
}

void view_home(struct view *view)
{
	view->cursor = 0;
	scroll_to_cursor(view);
	forget_held(view);
}

void view_end(struct view *view)
{
	view->cursor = view->n_shown ? view->n_shown - 1 : 0;
	scroll_to_cursor(view);
	view_hold(view);
}

void view_set_lines(struct view *view, size_t n)
{
	view->n_lines = n;
	scroll_to_cursor(view);
}

/* ---- showing -------------------------------------------------------------------------------- */

/*
 * Choose and sort the visible lines. Called when the data, the key, the order or the filter has
 * changed.
 */
static void arrange(struct view *view)
{
	view->n_shown = 0;
	for (size_t i = 0; i < view->seen->n_probes; i++)
		if (is_shown(view, &view->seen->probes[i]))
			view->order[view->n_shown++] = i;
	qsort_r(view->order, view->n_shown, sizeof(*view->order), compare_seen_probes, view);
	find_held(view);
	scroll_to_cursor(view);
}

int view_show(struct view *view, struct view_snapshot *seen)
{
	size_t *order = calloc(seen->n_probes + 1, sizeof(*order));

	if (!order) {
		view_snapshot_free(seen);
		return -ENOMEM;
	}
	view_snapshot_free(view->seen);
	free(view->order);
	view->seen = seen;
	view->order = order;
	arrange(view);
	return 0;
}

void view_sort(struct view *view, enum sort_key key)
{
	view_hold(view);
	view->is_reversed = view->key == key && !view->is_reversed;
	view->key = key;
	arrange(view);
}

bool view_filter_add(struct view *view, const char *character)
{
	const size_t bytes = strlen(view->filter), more = strlen(character);

	if (bytes + more >= sizeof(view->filter))
		return false;
	memcpy(view->filter + bytes, character, more + 1);
	arrange(view);
	return true;
}

bool view_filter_remove(struct view *view)
{
	size_t bytes = strlen(view->filter);

	if (!bytes)
		return false;
	/* Remove all bytes of one UTF-8 character. */
	do
		bytes--;
	while (bytes && (view->filter[bytes] & 0xc0) == 0x80);
	view->filter[bytes] = '\0';
	arrange(view);
	return true;
}

void view_filter_clear(struct view *view)
{
	view->filter[0] = '\0';
	arrange(view);
}
