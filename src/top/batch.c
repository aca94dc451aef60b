// SPDX-License-Identifier: MIT
#include "top/top.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <time.h>

#include "cli/cli.h"
#include "cli/pair_note.h"
#include "top/tables.h"
#include "top/text.h"

enum { PAIR_BYTES = 1024 };

/* ---- one screen ----------------------------------------------------------------------------- */

/* Write RATE to TEXT with one decimal, or "-" if it is unknown. Return TEXT. */
static const char *write_rate(char *text, double rate)
{
	snprintf(text, TEXT_BYTES, isnan(rate) ? "-" : "%.1f", rate);
	return text;
}

/* Write NS to TEXT, or "-" if it is 0. Return TEXT. */
static const char *write_ns(char *text, uint64_t ns)
{
	snprintf(text, TEXT_BYTES, ns ? "%" PRIu64 : "-", ns);
	return text;
}

/* Print NAME as the last field of a line, since it may contain spaces. */
static void print_name(const char *name)
{
	print_text(name);
	putchar('\n');
}

static void print_programs(const struct top *top)
{
	const struct view_snapshot *seen = top->view.seen;
	char rate[TEXT_BYTES], ns[TEXT_BYTES], pids[TEXT_BYTES];

	printf("program  state         processes      hits/s  overhead%%    ns/hit  name\n");
	for (size_t i = 0; i < seen->n_targets; i++) {
		const struct seen_target *target = &seen->targets[i];
		const char *state = target_state(top, target);

		snprintf(pids, sizeof(pids), target->knows_pids ? "%zu" : "-", target->n_pids);
		printf("%-7zu  %-12s  %9s  %10s  %9.2f  %8s  ", i + 1,
		       target->is_up   ? state
		       : *state == 'n' ? "not_measured"
				       : state,
		       pids, write_rate(rate, target->rate), 100 * target->cpu_overhead,
		       write_ns(ns, (uint64_t)target->cost_per_hit_ns));
		print_name(target->exe);
	}
}

static void print_pairs(const struct view_snapshot *seen)
{
	char rate[TEXT_BYTES], p50[TEXT_BYTES], p99[TEXT_BYTES], max[TEXT_BYTES];
	char name[PAIR_BYTES];

	if (seen->n_pairs)
		printf("\n   pairs/s       p50_ns       p99_ns       max_ns      open   orphans  "
		       "program  pair\n");
	for (size_t i = 0; i < seen->n_pairs; i++) {
		const struct seen_pair *pair = &seen->pairs[i];

		printf("%10s  %11s  %11s  %11s  %8" PRIu64 "  %8" PRIu64 "  %10" PRIu64 "  %-7zu  ",
		       write_rate(rate, pair->rate), write_ns(p50, pair->p50_ns),
		       write_ns(p99, pair->p99_ns), write_ns(max, pair->max_ns), pair->open,
		       pair->orphans, pair->mismatched, pair->target + 1);
		pair_name(name, sizeof(name), pair->start, pair->stop);
		print_name(name);
	}
}

static void print_probes(const struct view *view)
{
	static const char *const handlers[] = {
		[WATCH_HANDLER_UNKNOWN] = "-", [WATCH_HANDLER_OFF] = "off",
		[WATCH_HANDLER_ON] = "on",     [WATCH_HANDLER_MIXED] = "mixed",
		[WATCH_HANDLER_NONE] = "none",
	};
	char rate[TEXT_BYTES];

	if (view->n_shown)
		printf("\n    hits/s          hits     sites  handler  counted  program  probe\n");
	for (size_t i = 0; i < view->n_shown; i++) {
		const struct seen_probe *probe = view_probe(view, i);
		const bool is_measured = probe->is_counted || probe->is_in_pair;

		printf("%10s  %12" PRIu64 "  %8zu  %-7s  %-7s  %-7zu  ",
		       write_rate(rate, is_measured ? probe->rate : NAN), probe->hits,
		       probe->n_sites, handlers[probe->handler],
		       probe->is_in_pair   ? "pair"
		       : probe->is_counted ? "yes"
					   : "no",
		       probe->target + 1);
		print_name(probe->name);
	}
}

/* Print the losses that are not 0, so that the reader knows that other numbers are too small. */
static void print_losses(const struct view_snapshot *seen)
{
	bool is_first = true;

	for (size_t i = 0; i < seen->n_targets; i++) {
		const struct watch_losses *losses = &seen->targets[i].losses;
		const struct {
			uint64_t n;
			const char *reason;
		} all[] = {
			{ losses->pair_map_full, "pair_map_full" },
			{ losses->pair_not_keyed, "pair_not_keyed" },
			{ losses->rows_full, "rows_full" },
			{ losses->children_full, "children_full" },
			{ losses->filter_mismatches, "filter_mismatches" },
		};

		for (size_t j = 0; j < sizeof(all) / sizeof(all[0]); j++) {
			if (!all[j].n)
				continue;
			if (is_first)
				printf("\n      lost  program  reason\n");
			is_first = false;
			printf("%10" PRIu64 "  %-7zu  %s\n", all[j].n, i + 1, all[j].reason);
		}
	}
}

static void print_engines(const struct view_snapshot *seen)
{
	bool is_first = true;

	for (size_t i = 0; i < seen->n_targets; i++) {
		const char *engine = watch_engine_name(seen->targets[i].engine);

		if (!engine)
			continue;
		printf("%s%-6s  %zu\n", is_first ? "\nengine  program\n" : "", engine, i + 1);
		is_first = false;
	}
}

static void print_screen(const struct top *top, size_t number, size_t n)
{
	const struct view_snapshot *seen = top->view.seen;
	const time_t now = (time_t)(seen->time_ns / 1000000000);
	char text[64] = "-";
	struct tm tm;

	if (localtime_r(&now, &tm))
		strftime(text, sizeof(text), "%Y-%m-%dT%H:%M:%S%z", &tm);
	printf("%sscreen %zu/%zu  %s\n", number > 1 ? "\n" : "", number, n, text);
	print_programs(top);
	print_pairs(seen);
	print_probes(&top->view);
	print_losses(seen);
	print_engines(seen);
}

/* ---- all of them ---------------------------------------------------------------------------- */

struct batch {
	struct top *top;
	size_t number, n; /* screens printed so far, and screens to print */
	int err;
};

static enum ending next_screen(void *data)
{
	struct batch *b = data;

	b->err = top_tick(b->top);
	if (b->err)
		return ENDED_BY_ERROR;
	print_screen(b->top, ++b->number, b->n);
	fflush(stdout);
	return b->number == b->n || ferror(stdout) ? ENDED_BY_TIME : NOT_ENDED;
}

int batch_run(struct top *top, struct session *session, size_t n)
{
	struct batch b = { .top = top, .n = n };
	struct session_timer tick =
		session_every(session_now_ns(), (int64_t)WATCH_TICK_MS * 1000000, next_screen);

	/*
	 * Tick once before the session: rates need a previous tick, so the first screen is printed
	 * at the second tick.
	 */
	b.err = top_tick(top);
	if (!b.err)
		session_run(session,
			    &(struct session_events){ .timers = &tick, .n_timers = 1, .data = &b });
	return b.err;
}
