// SPDX-License-Identifier: MIT
#include "watch/target.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/array.h"
#include "base/base_name.h"
#include "base/clock.h"
#include "base/ctx.h"
#include "base/search.h"

int target_new(struct ocp_ctx *ctx, const char *exe, const char *title,
	       const struct container *container, struct target **out)
{
	struct target *target = calloc(1, sizeof(*target));

	if (!target || !(target->exe = strdup(exe)) || !(target->title = strdup(title))) {
		target_free(target);
		return ctx_no_memory(ctx);
	}
	target->ctx = ctx;
	target->container = *container;
	target->view.exe = target->exe;
	target->view.title = target->title;
	target->view.container = *container->id ? target->container.id : NULL;
	target->view.pod = *container->pod ? target->container.pod : NULL;
	target->view.since_ns = clock_ns(CLOCK_REALTIME);
	*out = target;
	return 0;
}

void target_free(struct target *target)
{
	if (!target)
		return;
	for (size_t i = 0; i < target->n_sources; i++)
		source_free(target->sources[i]);
	for (size_t i = 0; i < target->view.n_probes; i++) {
		free((char *)target->probes[i].name);
		labelled_hits_free(&target->probe_records[i]->values);
		free(target->probe_records[i]);
	}
	for (size_t i = 0; i < target->view.n_pairs; i++) {
		free((char *)target->pairs[i].start);
		free((char *)target->pairs[i].stop);
		labelled_times_free(&target->pair_records[i]->values);
		free(target->pair_records[i]);
	}
	target_forgive(target);
	label_free(&target->label);
	handlers_free(&target->handlers);
	collector_free(&target->collector);
	free(target->sources);
	free(target->exe);
	free(target->title);
	free(target->problem);
	free(target->mismatch);
	free(target->pids);
	free(target->probes);
	free(target->probe_records);
	free(target->pairs);
	free(target->pair_records);
	free(target->rows);
	free(target->base_rows);
	free(target->given_up);
	free(target);
}

int target_set_problem(struct target *target, const char *why)
{
	char *copy = NULL;

	if (why ? target->problem && strcmp(target->problem, why) == 0 : !target->problem)
		return 0;
	if (why && !(copy = strdup(why)))
		return ctx_no_memory(target->ctx);
	if (copy)
		ctx_log(target->ctx, OCP_LOG_WARN, "%s: %s", target->title, copy);
	else
		ctx_log(target->ctx, OCP_LOG_INFO, "%s: measured again", target->title);
	free(target->problem);
	target->problem_passes = false;
	target->problem = copy;
	target->view.problem = copy;
	return 0;
}

/* Return a new record of a probe, with unknown rates. NULL: out of memory. */
static struct probe_record *target_new_probe_record(void)
{
	struct probe_record *record = calloc(1, sizeof(*record));

	for (size_t i = 0; record && i < WATCH_COLUMNS; i++)
		record->rates[i] = NAN;
	for (size_t i = 0; record && i < QUARTER_RING; i++)
		record->quarters[i] = NAN;
	return record;
}

/* ---- names of probes and pairs -------------------------------------------------------------- */

/* Enlarge *LIST, which has COUNT entries of SIZE bytes, for N more entries. */
static int enlarge_list(struct ocp_ctx *ctx, void *list, size_t size, size_t count, size_t n)
{
	void *grown = realloc(*(void **)list, (count + n) * size);

	if (!grown)
		return ctx_no_memory(ctx);
	*(void **)list = grown;
	return 0;
}

/* Insert a probe called NAME at index AT. The lists must have room for it. */
static int insert_probe(struct target *target, size_t at, const char *name)
{
	const size_t behind = target->view.n_probes - at;
	struct probe_record *record = target_new_probe_record();
	char *copy = strdup(name);

	if (!record || !copy) {
		free(record);
		free(copy);
		return ctx_no_memory(target->ctx);
	}
	memmove(target->probes + at + 1, target->probes + at, behind * sizeof(*target->probes));
	memmove(target->probe_records + at + 1, target->probe_records + at,
		behind * sizeof(void *));
	target->probes[at] = (struct watch_probe){ .name = copy, .rate = NAN };
	target->probe_records[at] = record;
	target->view.n_probes++;
	return 0;
}

/* Add the probes of SAMPLE that are new: all probes of the first sample, usually none later. */
static int add_new_probes(struct target *target, const struct ocp_sample *sample)
{
	const size_t n = ocp_sample_probe_count(sample);
	bool has_room = false;
	size_t at = 0;
	int err = 0;

	for (size_t i = 0; !err && i < n; i++) {
		const char *name = ocp_sample_probe(sample, i)->probe;

		while (at < target->view.n_probes && strcmp(target->probes[at].name, name) < 0)
			at++;
		if (at < target->view.n_probes && strcmp(target->probes[at].name, name) == 0)
			continue;
		if (!has_room) {
			err = enlarge_list(target->ctx, &target->probes, sizeof(*target->probes),
					   target->view.n_probes, n);
			if (!err)
				err = enlarge_list(target->ctx, &target->probe_records,
						   sizeof(void *), target->view.n_probes, n);
			has_room = true;
		}
		if (!err)
			err = insert_probe(target, at, name);
	}
	target->view.probes = target->probes;
	return err;
}

ptrdiff_t target_find_pair(const struct target *target, const struct ocp_pair *pair)
{
	for (size_t i = 0; i < target->view.n_pairs; i++)
		if (strcmp(target->pairs[i].start, pair->start) == 0 &&
		    strcmp(target->pairs[i].stop, pair->stop) == 0)
			return (ptrdiff_t)i;
	return -1;
}

ptrdiff_t target_find_probe(const struct target *target, const char *name)
{
	return (ptrdiff_t)SEARCH(i, target->view.n_probes,
				 strcmp(target->probes[i].name, name) < 0);
}

static int add_pair_record(struct target *target, const struct ocp_pair *pair)
{
	const size_t n = target->view.n_pairs;
	struct pair_record *record = calloc(1, sizeof(*record));
	char *start = strdup(pair->start), *stop = strdup(pair->stop);
	int err = record && start && stop ? 0 : ctx_no_memory(target->ctx);

	if (!err)
		err = enlarge_list(target->ctx, &target->pairs, sizeof(*target->pairs), n, 1);
	if (!err)
		err = enlarge_list(target->ctx, &target->pair_records, sizeof(void *), n, 1);
	if (err) {
		free(record);
		free(start);
		free(stop);
		return err;
	}
	target->pairs[n] = (struct watch_pair){ .start = start, .stop = stop, .rate = NAN };
	target->pair_records[n] = record;
	target->view.pairs = target->pairs;
	target->view.n_pairs++;
	return 0;
}

static int add_names(struct target *target, const struct ocp_sample *sample)
{
	int err = add_new_probes(target, sample);

	for (size_t i = 0; !err && i < ocp_sample_pair_count(sample); i++)
		if (target_find_pair(target, ocp_sample_pair(sample, i)) < 0)
			err = add_pair_record(target, ocp_sample_pair(sample, i));
	return err;
}

/* ---- adding up ------------------------------------------------------------------------------ */

static void add_sample_losses(struct watch_losses *sum, const struct ocp_sample *sample)
{
	const struct ocp_losses *losses = ocp_sample_losses(sample);

	sum->rows_full += losses->rows_full;
	sum->children_full += losses->children_full;
	sum->filter_mismatches += losses->filter_mismatches;
	for (size_t i = 0; i < ocp_sample_pair_count(sample); i++) {
		const struct ocp_pair *pair = ocp_sample_pair(sample, i);

		sum->pair_map_full += pair->map_full;
		sum->pair_not_keyed += pair->not_keyed;
	}
}

/* Record the filter mismatch of SAMPLE, unless a mismatch has been recorded before. */
static int note_mismatch(struct target *target, const struct ocp_sample *sample)
{
	const char *mismatch = ocp_sample_losses(sample)->filter_mismatch;

	if (target->mismatch || !mismatch)
		return 0;
	target->mismatch = strdup(mismatch);
	if (!target->mismatch)
		return ctx_no_memory(target->ctx);
	target->view.filter_mismatch = target->mismatch;
	ctx_log(target->ctx, OCP_LOG_WARN,
		"%s: filter: %s: the comparison is false, and the hit counts as filter_mismatch",
		target->title, mismatch);
	return 0;
}

static void add_to_pair(struct ocp_pair *sum, uint64_t *buckets, const struct ocp_pair *part)
{
	if (part->count && (!sum->count || part->min_ns < sum->min_ns))
		sum->min_ns = part->min_ns;
	if (part->max_ns > sum->max_ns)
		sum->max_ns = part->max_ns;
	sum->count += part->count;
	sum->sum_ns += part->sum_ns;
	sum->starts += part->starts;
	sum->orphan_starts += part->orphan_starts;
	sum->orphan_stops += part->orphan_stops;
	sum->map_full += part->map_full;
	sum->not_keyed += part->not_keyed;
	sum->mismatched += part->mismatched;
	sum->open += part->open;
	sum->by_key = part->by_key;
	for (size_t i = 0; i < OCP_BUCKETS; i++)
		buckets[i] += part->buckets[i];
}

static void add_source_hits(struct target *target, const struct source *source)
{
	size_t at = 0;

	for (size_t i = 0; i < ocp_sample_probe_count(source->sample); i++) {
		const struct ocp_probe_hits *part = ocp_sample_probe(source->sample, i);
		struct watch_probe *probe;

		while (strcmp(target->probes[at].name, part->probe) < 0)
			at++;
		probe = &target->probes[at];
		probe->hits += part->hits;
		probe->n_sites = part->n_sites > probe->n_sites ? part->n_sites : probe->n_sites;
		if (part->n_uses > probe->n_uses)
			probe->n_uses = part->n_uses;
		if (part->n_uses_without_site > probe->n_uses_without_site)
			probe->n_uses_without_site = part->n_uses_without_site;
		probe->is_counted |= part->n_sites && !target->probe_records[at]->is_off;
		probe->is_in_pair |= part->is_in_pair;
	}
}

/* Fill ROWS with the hits of SOURCE, split by process. Return the number of rows. */
static size_t list_rows(const struct target *target, const struct source *source,
			struct watch_row *rows)
{
	const size_t n = ocp_sample_hits_count(source->sample);
	size_t at = 0;

	for (size_t i = 0; i < n; i++) {
		const struct ocp_hits *hits = ocp_sample_hits(source->sample, i);

		while (strcmp(target->probes[at].name, hits->probe) < 0)
			at++;
		rows[i] = (struct watch_row){ target->probes[at].name, hits->pid, hits->hits };
	}
	return n;
}

static size_t count_rows(const struct source *source)
{
	if (ocp_meter_get_split(source->meter) != OCP_BY_PROCESS)
		return 0;
	return ocp_sample_hits_count(source->sample);
}

/* Collect the rows of ended and of current sources. */
static int collect_rows(struct target *target)
{
	size_t n = target->n_base_rows;

	for (size_t i = 0; i < target->n_sources; i++)
		n += count_rows(target->sources[i]);
	if (n > target->rows_room) {
		int err = enlarge_list(target->ctx, &target->rows, sizeof(*target->rows), n, 0);

		if (err)
			return err;
		target->rows_room = n;
		target->view.rows = target->rows;
	}
	n = target->n_base_rows;
	if (n)
		memcpy(target->rows, target->base_rows, n * sizeof(*target->rows));
	for (size_t i = 0; i < target->n_sources; i++)
		if (count_rows(target->sources[i]))
			n += list_rows(target, target->sources[i], target->rows + n);
	target->view.n_rows = n;
	return 0;
}

static int compare_watch_rows(const void *a, const void *b)
{
	const struct watch_row *x = a, *y = b;
	const int order = strcmp(x->probe, y->probe);

	return order ? order : COMPARE(x->pid, y->pid);
}

/*
 * Merge the rows of one probe and process that come from several sources. A process has several
 * sources if it executed another file at the same path, or if the request changed. Return the
 * number of remaining rows.
 */
static size_t merge_rows(struct watch_row *rows, size_t n)
{
	size_t left = 0;

	for (size_t i = 1; i < n; i++) {
		if (compare_watch_rows(&rows[i - 1], &rows[i]) < 0)
			continue;
		qsort(rows, n, sizeof(*rows), compare_watch_rows);
		break;
	}
	for (size_t i = 0; i < n; i++) {
		if (left && compare_watch_rows(&rows[left - 1], &rows[i]) == 0)
			rows[left - 1].hits += rows[i].hits;
		else
			rows[left++] = rows[i];
	}
	return left;
}

/* Keep the rows of SOURCE when it ends, since its processes may continue in another source. */
static int keep_rows(struct target *target, const struct source *source)
{
	const size_t n = count_rows(source);
	int err;

	if (!n)
		return 0;
	err = enlarge_list(target->ctx, &target->base_rows, sizeof(*target->base_rows),
			   target->n_base_rows, n);
	if (err)
		return err;
	list_rows(target, source, target->base_rows + target->n_base_rows);
	target->n_base_rows = merge_rows(target->base_rows, target->n_base_rows + n);
	return 0;
}

static int compare_target_pids(const void *a, const void *b)
{
	const pid_t x = *(const pid_t *)a, y = *(const pid_t *)b;

	return COMPARE(x, y);
}

static void note_engine(struct target *target)
{
	unsigned int engine = WATCH_ENGINE_UNKNOWN;

	for (size_t i = 0; i < target->n_sources; i++)
		engine |= target->sources[i]->is_inside ? WATCH_ENGINE_INSIDE : WATCH_ENGINE_BPF;
	if (engine != WATCH_ENGINE_UNKNOWN)
		target->view.engine = (enum watch_engine)engine;
}

int target_collect_pids(struct target *target)
{
	size_t n = 0, n_all = 0;

	for (size_t i = 0; i < target->n_sources; i++)
		n_all += target->sources[i]->n_pids;
	note_engine(target);
	free(target->pids);
	target->pids = calloc(n_all + 1, sizeof(*target->pids));
	target->view.pids = target->pids;
	target->view.n_pids = 0;
	/* If measuring was given up, processes may still run, but nothing searches for them. */
	target->view.knows_pids = !target->is_over_budget;
	if (!target->pids)
		return ctx_no_memory(target->ctx);
	for (size_t i = 0; i < target->n_sources; i++) {
		const struct source *source = target->sources[i];

		target->view.knows_pids &= source->knows_pids;
		if (source->n_pids)
			memcpy(target->pids + n, source->pids,
			       source->n_pids * sizeof(*target->pids));
		n += source->n_pids;
	}
	qsort(target->pids, n, sizeof(*target->pids), compare_target_pids);
	for (size_t i = 0; i < n; i++)
		if (!target->view.n_pids ||
		    target->pids[target->view.n_pids - 1] != target->pids[i])
			target->pids[target->view.n_pids++] = target->pids[i];
	target->view.is_up = target->n_sources && (n || !target->view.knows_pids);
	return 0;
}

static bool is_running(const struct target *target, pid_t pid)
{
	char path[32];

	if (target->view.knows_pids)
		return target->view.n_pids && bsearch(&pid, target->pids, target->view.n_pids,
						      sizeof(pid), compare_target_pids);
	snprintf(path, sizeof(path), "/proc/%d", (int)pid);
	return access(path, F_OK) == 0 || errno != ENOENT;
}

void target_forget_rows(struct target *target)
{
	for (size_t i = 0; i < target->n_base_rows; i++)
		if (!is_running(target, target->base_rows[i].pid))
			target->base_rows[i].pid = 0;
	target->n_base_rows = merge_rows(target->base_rows, target->n_base_rows);
}

static void add_pairs(struct target *target, const struct ocp_sample *sample)
{
	for (size_t i = 0; i < ocp_sample_pair_count(sample); i++) {
		const struct ocp_pair *part = ocp_sample_pair(sample, i);
		const ptrdiff_t at = target_find_pair(target, part);

		if (at >= 0)
			add_to_pair(&target->pairs[at].sum, target->pair_records[at]->buckets,
				    part);
	}
}

static void start_from_bases(struct target *target)
{
	target->view.losses = target->base_losses;
	target->view.cpu_overhead_seconds = target->base_cost_seconds;
	target->view.n_rows = 0;
	for (size_t i = 0; i < target->view.n_probes; i++) {
		target->probes[i].hits = target->probe_records[i]->base_hits;
		target->probes[i].is_counted = target->probes[i].is_in_pair = false;
	}
	for (size_t i = 0; i < target->view.n_pairs; i++) {
		struct pair_record *record = target->pair_records[i];

		target->pairs[i].sum = record->base;
		memcpy(record->buckets, record->base_buckets, sizeof(record->buckets));
		target->pairs[i].sum.start = target->pairs[i].start;
		target->pairs[i].sum.stop = target->pairs[i].stop;
		target->pairs[i].sum.buckets = record->buckets;
	}
	target_reset_labelled(target);
}

static int add_up_sources(struct target *target)
{
	int err = target_learn_values(target), its_err;

	start_from_bases(target);
	for (size_t i = 0; i < target->n_sources; i++) {
		const struct source *source = target->sources[i];

		add_source_hits(target, source);
		add_pairs(target, source->sample);
		add_sample_losses(&target->view.losses, source->sample);
		err = err ? err : note_mismatch(target, source->sample);
		its_err = target_add_labelled(target, source, false);
		err = err ? err : its_err;
		target->view.cpu_overhead_seconds +=
			(double)source->hits * source->cost_per_hit_ns / 1e9;
		if (source->cost_per_hit_ns > 0)
			target->view.cost_per_hit_ns = source->cost_per_hit_ns;
	}
	target_show_labelled(target);
	its_err = collect_rows(target);
	target->view.n_rows = merge_rows(target->rows, target->view.n_rows);
	return err ? err : its_err;
}

int target_read(struct target *target)
{
	int err = 0;

	for (size_t i = 0; !err && i < target->n_sources; i++) {
		err = source_read(target->sources[i]);
		if (!err)
			err = add_names(target, target->sources[i]->sample);
	}
	collector_read(&target->collector, &target->view.gc);
	return err ? err : add_up_sources(target);
}

/* ---- sources -------------------------------------------------------------------------------- */

int target_add_source(struct target *target, struct source *source)
{
	int err = enlarge_list(target->ctx, &target->sources, sizeof(void *), target->n_sources, 1);

	if (!err)
		err = add_names(target, source->sample);
	if (err)
		return err;
	target->sources[target->n_sources++] = source;
	for (size_t i = 0; i < target->view.n_probes; i++) {
		struct watch_probe *probe = &target->probes[i];

		probe->n_sites = probe->n_uses = probe->n_uses_without_site = 0;
	}
	return add_up_sources(target);
}

int target_end_source(struct target *target, size_t number)
{
	struct source *source = target->sources[number];
	int err = source_end(source);
	size_t at = 0;

	if (!err)
		err = add_names(target, source->sample);
	if (!err)
		err = keep_rows(target, source);
	if (!err)
		err = target_learn_values(target);
	if (!err)
		err = target_add_labelled(target, source, true);
	if (err)
		return err;
	for (size_t i = 0; i < ocp_sample_probe_count(source->sample); i++) {
		const struct ocp_probe_hits *part = ocp_sample_probe(source->sample, i);

		while (strcmp(target->probes[at].name, part->probe) < 0)
			at++;
		target->probe_records[at]->base_hits += part->hits;
	}
	for (size_t i = 0; i < ocp_sample_pair_count(source->sample); i++) {
		const struct ocp_pair *part = ocp_sample_pair(source->sample, i);
		struct pair_record *record = target->pair_records[target_find_pair(target, part)];

		add_to_pair(&record->base, record->base_buckets, part);
		/* The stops of open pairs will not be seen, so the starts become orphans. */
		record->base.orphan_starts += record->base.open;
		record->base.open = 0;
	}
	add_sample_losses(&target->base_losses, source->sample);
	target->base_cost_seconds += (double)source->hits * source->cost_per_hit_ns / 1e9;
	source_free(source);
	memmove(target->sources + number, target->sources + number + 1,
		(--target->n_sources - number) * sizeof(void *));
	return add_up_sources(target);
}

int target_give_up_source(struct target *target, size_t number)
{
	const struct source *source = target->sources[number];
	int err = enlarge_list(target->ctx, &target->given_up, sizeof(*target->given_up),
			       target->n_given_up, 1);

	if (err)
		return err;
	target->given_up[target->n_given_up++] = (struct file_id){
		.dev = source->dev,
		.ino = source->ino,
		.file = fcntl(source->file, F_DUPFD_CLOEXEC, 0),
	};
	return target_end_source(target, number);
}

int target_end_sources(struct target *target, const void *owner,
		       int (*end)(struct target *target, size_t source))
{
	int err = 0;

	for (size_t i = target->n_sources; !err && i-- > 0;)
		if (target->sources[i]->owner == owner)
			err = end(target, i);
	return err;
}

int target_is_run(struct target *target, struct find_memory *known, bool *is_run)
{
	const char *base = base_name(target->exe);
	struct found_processes found;
	int err = 0;

	*is_run = false;
	for (size_t i = 0; !err && !*is_run && i < target->n_given_up; i++) {
		const struct file_id *id = &target->given_up[i];
		const struct stat st = { .st_dev = id->dev, .st_ino = id->ino };

		err = find_processes(target->ctx, &st, base, known, &found);
		*is_run = found.n || found.n_hidden;
		found_processes_free(&found);
	}
	return err;
}

void target_forgive(struct target *target)
{
	for (size_t i = 0; i < target->n_given_up; i++)
		if (target->given_up[i].file >= 0)
			close(target->given_up[i].file);
	target->is_over_budget = false;
	target->n_given_up = 0;
}

/* ---- the history: the last minute by seconds, and the last quarter of an hour ---------------- */

/*
 * Return the quantile of the pair's times in the last minute. The position within a bucket is an
 * estimate, so limit the result to the pair's longest time.
 */
static uint64_t minute_quantile(const struct pair_record *record, const struct watch_pair *pair,
				double quantile)
{
	const uint64_t ns = ocp_bucket_quantile(record->minute, quantile);

	return ns < pair->sum.max_ns ? ns : pair->sum.max_ns;
}

static void tick_pair(struct target *target, size_t i, size_t column, size_t quarter,
		      double seconds)
{
	struct pair_record *record = target->pair_records[i];
	struct watch_pair *pair = &target->pairs[i];

	pair->rate = target->had_tick ? (double)(pair->sum.count - record->count_at_tick) / seconds
				      : NAN;
	record->count_at_tick = pair->sum.count;
	for (size_t j = 0; j < OCP_BUCKETS; j++) {
		record->minute[j] -= record->columns[column][j];
		record->columns[column][j] =
			target->had_tick
				? (uint32_t)(record->buckets[j] - record->buckets_at_tick[j])
				: 0;
		record->minute[j] += record->columns[column][j];
		record->quarters[quarter][j] += record->columns[column][j];
		record->buckets_at_tick[j] = record->buckets[j];
	}
	record->has_column[column] = target->had_tick;
	record->has_quarter[quarter] |= target->had_tick;
	pair->p50_ns = minute_quantile(record, pair, 0.5);
	pair->p99_ns = minute_quantile(record, pair, 0.99);
}

static void tick_probe(struct target *target, size_t i, size_t column, size_t quarter,
		       int64_t dt_ns)
{
	struct probe_record *record = target->probe_records[i];
	struct watch_probe *probe = &target->probes[i];
	const uint64_t hits = probe->hits - record->hits_at_tick;

	probe->rate = target->had_tick ? (double)hits * 1e9 / (double)dt_ns : NAN;
	/* The rate of a probe that is not counted is unknown, not 0. */
	if ((record->is_off || target->is_over_budget) && !hits)
		probe->rate = NAN;
	record->hits_at_tick = probe->hits;
	record->rates[column] = (float)probe->rate;
	if (isnan(probe->rate))
		return;
	record->quarter_hits += hits;
	record->quarter_ns += dt_ns;
	record->quarters[quarter] =
		(float)((double)record->quarter_hits * 1e9 / (double)record->quarter_ns);
}

/*
 * Compute the CPU overhead of SOURCE in the last tick. The cost of a hit is known only some time
 * after the attach. In the first tick after that, include all hits since the attach, and divide
 * their cost by the time since the attach. Otherwise, a budget would not notice a program that is
 * busy only at first.
 */
static void tick_cost(struct source *source, int64_t dt_ns)
{
	source->cpu_overhead = 0;
	source->uncharged_ns += dt_ns;
	if (!source->asked_costs)
		return;
	source->cpu_overhead = (double)(source->hits - source->charged_hits) *
			       source->cost_per_hit_ns / (double)source->uncharged_ns;
	source->charged_hits = source->hits;
	source->uncharged_ns = 0;
}

void target_tick(struct target *target, size_t column, size_t quarter, int64_t dt_ns)
{
	const double seconds = (double)dt_ns / 1e9;

	target->view.cpu_overhead = 0;
	for (size_t i = 0; i < target->n_sources; i++) {
		tick_cost(target->sources[i], dt_ns);
		target->view.cpu_overhead += target->sources[i]->cpu_overhead;
	}
	for (size_t i = 0; i < target->view.n_probes; i++)
		tick_probe(target, i, column, quarter, dt_ns);
	for (size_t i = 0; i < target->view.n_pairs; i++)
		tick_pair(target, i, column, quarter, seconds);
	collector_tick(&target->collector, target->pairs, target->view.n_pairs, dt_ns,
		       &target->view.gc);
	target->had_tick = true;
}

void target_begin_quarter(struct target *target, size_t quarter)
{
	for (size_t i = 0; i < target->view.n_probes; i++) {
		struct probe_record *record = target->probe_records[i];

		record->quarter_hits = 0;
		record->quarter_ns = 0;
		record->quarters[quarter] = NAN;
	}
	for (size_t i = 0; i < target->view.n_pairs; i++) {
		struct pair_record *record = target->pair_records[i];

		memset(record->quarters[quarter], 0, sizeof(record->quarters[quarter]));
		record->has_quarter[quarter] = false;
	}
}

void target_skip(struct target *target, size_t column)
{
	for (size_t i = 0; i < target->view.n_probes; i++)
		target->probe_records[i]->rates[column] = NAN;
	for (size_t i = 0; i < target->view.n_pairs; i++) {
		struct pair_record *record = target->pair_records[i];

		for (size_t j = 0; j < OCP_BUCKETS; j++)
			record->minute[j] -= record->columns[column][j];
		memset(record->columns[column], 0, sizeof(record->columns[column]));
		record->has_column[column] = false;
	}
}

/* ---- the targets of a watch ------------------------------------------------------------------ */

enum { SHORT_ID_BYTES = 12 }; /* the number of characters that container runtimes show */

int targets_init(struct targets *targets, struct ocp_ctx *ctx, bool by_process)
{
	*targets = (struct targets){ .ctx = ctx, .by_process = by_process };
	targets->verdicts = verdicts_new(ctx);
	return targets->verdicts ? 0 : -ENOMEM;
}

void targets_free(struct targets *targets)
{
	for (size_t i = 0; i < targets->n; i++)
		target_free(targets->list[i]);
	free(targets->list);
	find_memory_free(&targets->known);
	verdicts_free(targets->verdicts);
	*targets = (struct targets){ 0 };
}

struct target *targets_find(const struct targets *targets, const char *exe,
			    const struct container *container)
{
	for (size_t i = 0; i < targets->n; i++) {
		struct target *target = targets->list[i];

		if (strcmp(target->exe, exe) == 0 && container_equal(&target->container, container))
			return target;
	}
	return NULL;
}

static bool has_title(const struct targets *targets, const char *title)
{
	for (size_t i = 0; i < targets->n; i++)
		if (strcmp(targets->list[i]->title, title) == 0)
			return true;
	return false;
}

/*
 * Return the title "EXE [ID]" with the first SHORT_ID_BYTES of CONTAINER's id or, if another target
 * has this title, with the whole id. The caller frees the title.
 */
static char *make_title(const struct targets *targets, const char *exe,
			const struct container *container)
{
	const char *id = *container->id ? container->id : container->pod;
	char *title;

	if (!container_is_known(container))
		return strdup(exe);
	if (asprintf(&title, "%s [%.*s]", exe, SHORT_ID_BYTES, id) < 0)
		return NULL;
	if (!has_title(targets, title))
		return title;
	free(title);
	return asprintf(&title, "%s [%s]", exe, id) < 0 ? NULL : title;
}

int targets_get(struct targets *targets, const char *exe, const struct container *container,
		struct target **out)
{
	struct target **new;
	char *title;
	int err;

	*out = targets_find(targets, exe, container);
	if (*out)
		return 0;
	title = make_title(targets, exe, container);
	new = title ? array_add(targets->list, targets->n) : NULL;
	err = new ? target_new(targets->ctx, exe, title, container, out)
		  : ctx_no_memory(targets->ctx);
	if (!err)
		*new = *out;
	else if (new)
		targets->n--;
	free(title);
	return err;
}

void targets_remove(struct targets *targets, size_t number)
{
	target_free(targets->list[number]);
	memmove(targets->list + number, targets->list + number + 1,
		(--targets->n - number) * sizeof(void *));
}
