// SPDX-License-Identifier: MIT
#include "top/view_snapshot.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "cli/pair_note.h"
#include "top/text.h"

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
 * Set in SEEN how many targets, probes and pairs WATCH has, and *N_PIDS to the number of all pids.
 * Return the number of bytes of all texts.
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
