// SPDX-License-Identifier: MIT
/*
 * Samples: converts what an engine has read into rows with names, and subtracts samples from each
 * other. A sample does not change when the meter continues to count. Its rows point to names in the
 * meter and to memory of the sample.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/search.h"
#include "measure/arg_histograms.h"
#include "measure/by_value.h"
#include "measure/domain_pairs.h"
#include "measure/losses.h"
#include "measure/meter.h"
#include "measure/spending.h"

struct sample_row {
	struct ocp_hits hits;
	char comm[16];
	uint64_t key; /* identifies the row in all samples of a meter */
};

struct ocp_sample {
	struct ocp_meter *meter;
	int64_t time_ns;
	struct hit_sums sums;
	struct ocp_losses losses;
	struct ocp_probe_hits *probes;
	size_t n_probes;
	struct sample_row *rows;
	size_t n_rows;
	struct ocp_pair *pairs;
	uint64_t (*buckets)[OCP_BUCKETS]; /* by pair: the histogram of its times */
	size_t n_pairs;
	struct arg_histograms histograms;
	struct domain_pairs domains;
	struct value_groups groups;
};

void ocp_sample_free(struct ocp_sample *sample)
{
	if (!sample)
		return;
	losses_free(&sample->losses);
	free(sample->probes);
	free(sample->rows);
	free(sample->pairs);
	free(sample->buckets);
	arg_histograms_free(&sample->histograms);
	domain_pairs_free(&sample->domains);
	value_groups_free(&sample->groups);
	free(sample);
}

/* ---- rows ----------------------------------------------------------------------------------- */

static int make_probes(struct ocp_sample *sample, const uint64_t *site_hits)
{
	const struct site_table *table = &sample->meter->table;
	size_t *place = calloc(table->n_probes + 1, sizeof(*place));

	sample->probes = calloc(table->n_probes + 1, sizeof(*sample->probes));
	if (!place || !sample->probes) {
		free(place);
		return ctx_no_memory(sample->meter->ctx);
	}
	for (size_t i = 0; i < table->n_probes; i++) {
		const uint32_t number = table->by_name[i];
		const struct measured_probe *probe = &table->probes[number];

		place[number] = i;
		sample->probes[i] = (struct ocp_probe_hits){ .probe = probe->name,
							     .hits = probe->past_hits,
							     .is_counted = probe->is_counted,
							     .is_in_pair = probe->n_roles != 0,
							     .n_uses = probe->n_uses,
							     .n_uses_without_site =
								     probe->n_uses_without_site };
	}
	sample->n_probes = table->n_probes;
	for (size_t i = 0; i < table->n_sites; i++) {
		const struct measured_site *site = &table->sites[i];
		struct ocp_probe_hits *probe;

		if (site->file == NO_FILE)
			continue;
		probe = &sample->probes[place[site->probe_index]];
		probe->hits += site->counts ? site_hits[i] : 0;
		sample->sums.all += site_hits[i];
		sample->sums.stepped += site->is_stepped ? site_hits[i] : 0;
		sample->sums.paired += table->probes[site->probe_index].n_roles ? site_hits[i] : 0;
		probe->n_sites += site->site != NULL;
	}
	for (size_t i = 0; i < sample->n_probes; i++)
		sample->sums.all += table->probes[i].past_hits;
	free(place);
	return 0;
}

static int make_probe_rows(struct ocp_sample *sample)
{
	const struct site_table *table = &sample->meter->table;

	sample->rows = calloc(sample->n_probes + 1, sizeof(*sample->rows));
	if (!sample->rows)
		return ctx_no_memory(sample->meter->ctx);
	for (size_t i = 0; i < sample->n_probes; i++) {
		const struct ocp_probe_hits *probe = &sample->probes[i];

		if (probe->is_counted)
			sample->rows[sample->n_rows++] = (struct sample_row){
				.hits = { .probe = probe->probe, .hits = probe->hits },
				.key = table->by_name[i],
			};
	}
	return 0;
}

static int compare_sample_rows(const void *a, const void *b)
{
	const struct sample_row *x = a, *y = b;
	int order = strcmp(x->hits.probe, y->hits.probe);

	if (order)
		return order;
	if (x->hits.pid != y->hits.pid)
		return COMPARE(x->hits.pid, y->hits.pid);
	return COMPARE(x->key, y->key);
}

static int make_site_rows(struct ocp_sample *sample, const uint64_t *site_hits)
{
	const struct site_table *table = &sample->meter->table;

	sample->rows = calloc(table->n_sites + 1, sizeof(*sample->rows));
	if (!sample->rows)
		return ctx_no_memory(sample->meter->ctx);
	for (size_t i = 0; i < table->n_sites; i++) {
		const struct measured_site *site = &table->sites[i];
		const struct measured_probe *probe = &table->probes[site->probe_index];

		if (site->file == NO_FILE || !probe->is_counted || !site->counts)
			continue;
		sample->rows[sample->n_rows++] = (struct sample_row){
			.hits = { .probe = probe->name,
				  .hits = site_hits[i],
				  .image = table->files[site->file].name,
				  .va = site->va,
				  .symbol = site->symbol,
				  .symbol_off = site->symbol_off,
				  .source = site->source,
				  .line = site->line,
				  .column = site->source_column },
			.key = i,
		};
	}
	qsort(sample->rows, sample->n_rows, sizeof(*sample->rows), compare_sample_rows);
	return 0;
}

static int make_keyed_rows(struct ocp_sample *sample, const struct engine_reading *reading)
{
	const struct ocp_meter *meter = sample->meter;

	sample->rows = calloc(reading->n_keyed + meter->n_forgotten + 1, sizeof(*sample->rows));
	if (!sample->rows)
		return ctx_no_memory(meter->ctx);
	for (size_t i = 0; i < meter->n_forgotten; i++)
		if (meter->forgotten[i])
			sample->rows[sample->n_rows++] = (struct sample_row){
				.hits = { .probe = meter->table.probes[i].name,
					  .hits = meter->forgotten[i] },
				.key = i,
			};
	for (size_t i = 0; i < reading->n_keyed; i++) {
		const struct engine_keyed *keyed = &reading->keyed[i];
		struct sample_row *row = &sample->rows[sample->n_rows++];

		/* For a pinned meter, the map may contain numbers that are not in the table. */
		if (keyed->probe_index >= meter->table.n_probes)
			return ctx_error(meter->ctx, -EBADMSG,
					 "measuring: hits of a probe that is not measured");
		*row = (struct sample_row){
			.hits = { .probe = meter->table.probes[keyed->probe_index].name,
				  .hits = keyed->hits,
				  .pid = (pid_t)keyed->tgid },
			.key = (uint64_t)keyed->id << 32 | keyed->probe_index,
		};
		if (meter->split == OCP_BY_THREAD)
			row->hits.tid = (pid_t)keyed->id;
		memcpy(row->comm, keyed->comm, sizeof(row->comm));
	}
	qsort(sample->rows, sample->n_rows, sizeof(*sample->rows), compare_sample_rows);
	for (size_t i = 0; i < sample->n_rows; i++)
		sample->rows[i].hits.comm = sample->rows[i].comm;
	return 0;
}

static int make_rows(struct ocp_sample *sample, const struct engine_reading *reading)
{
	if (sample->meter->split == OCP_BY_PROBE)
		return make_probe_rows(sample);
	if (sample->meter->split == OCP_BY_SITE)
		return make_site_rows(sample, reading->hits);
	return make_keyed_rows(sample, reading);
}

/* ---- pairs ---------------------------------------------------------------------------------- */

static int allocate_pairs(struct ocp_sample *sample, size_t n)
{
	sample->pairs = calloc(n + 1, sizeof(*sample->pairs));
	sample->buckets = calloc(n + 1, sizeof(*sample->buckets));
	if (!sample->pairs || !sample->buckets)
		return ctx_no_memory(sample->meter->ctx);
	sample->n_pairs = n;
	return 0;
}

static int make_pairs(struct ocp_sample *sample, const struct engine_pair *pairs)
{
	const struct ocp_meter *meter = sample->meter;
	int err = allocate_pairs(sample, meter->n_pairs);

	for (size_t i = 0; !err && i < meter->n_pairs; i++) {
		const struct engine_pair *pair = &pairs[i];
		const uint64_t ended =
			pair->count + pair->orphan_starts + pair->map_full + pair->not_keyed;

		memcpy(sample->buckets[i], pair->buckets, sizeof(sample->buckets[i]));
		sample->pairs[i] = (struct ocp_pair){
			.start = meter->pairs[i].start,
			.stop = meter->pairs[i].is_calls ? "" : meter->pairs[i].stop,
			.count = pair->count,
			.sum_ns = pair->sum_ns,
			.min_ns = pair->min_ns,
			.max_ns = pair->max_ns,
			.starts = pair->starts,
			.orphan_starts = pair->orphan_starts,
			.orphan_stops = pair->orphan_stops,
			.map_full = pair->map_full,
			.not_keyed = pair->not_keyed,
			/*
			 * While the meter is attached, the counters are not all read at the same
			 * moment.
			 */
			.open = pair->starts > ended ? pair->starts - ended : 0,
			.buckets = sample->buckets[i],
			.by_key = meter->pairs[i].key_arg >= 0,
			.mismatched = pair->mismatched,
		};
	}
	return err;
}

/* ---- reading -------------------------------------------------------------------------------- */

static int64_t elapsed_ns(const struct ocp_meter *meter)
{
	if (meter->end_ns || !meter->start_ns)
		return meter->end_ns - meter->start_ns;
	return clock_ns(CLOCK_MONOTONIC) - meter->start_ns;
}

static int read_engine(struct ocp_meter *meter, struct engine_reading *reading)
{
	*reading = (struct engine_reading){
		.hits = calloc(meter->table.n_sites + 1, sizeof(*reading->hits)),
		.pairs = calloc(meter->n_pairs + 1, sizeof(*reading->pairs)),
		.histograms = calloc(meter->spec.n_histograms + 1, sizeof(*reading->histograms)),
		.floats = calloc(meter->spec.n_histograms + 1, sizeof(*reading->floats)),
	};
	if (!reading->hits || !reading->pairs || !reading->histograms || !reading->floats)
		return ctx_no_memory(meter->ctx);
	return meter->ops->read(meter->engine, reading);
}

int ocp_meter_read(struct ocp_meter *meter, struct ocp_sample **out)
{
	struct ocp_sample *sample = calloc(1, sizeof(*sample));
	struct engine_reading reading = { 0 };
	int err;

	*out = NULL;
	if (!sample)
		return ctx_no_memory(meter->ctx);
	if (!meter->engine) {
		free(sample);
		return ctx_error(meter->ctx, -EINVAL, "measuring: not opened yet");
	}
	sample->meter = meter;
	sample->time_ns = elapsed_ns(meter);
	err = read_engine(meter, &reading);
	sample->sums.walk_ns = reading.walk_ns;
	if (!err)
		err = make_probes(sample, reading.hits);
	if (!err)
		err = make_rows(sample, &reading);
	if (!err)
		err = make_pairs(sample, reading.pairs);
	if (!err)
		err = arg_histograms_make(meter, &reading, &sample->histograms);
	if (!err)
		err = domain_pairs_make(meter, &reading, &sample->domains);
	if (!err)
		err = value_groups_make(meter, &reading, &sample->groups);
	if (!err)
		err = losses_make(&meter->table, &meter->arg_requests, &reading.losses,
				  &sample->losses);
	sample->sums.unlisted = sample->losses.passed_over + sample->losses.filtered;
	free(reading.hits);
	free(reading.pairs);
	free(reading.histograms);
	free(reading.floats);
	free(reading.keyed);
	free(reading.domain_pairs);
	free(reading.groups);
	free(reading.group_times);
	if (err) {
		ocp_sample_free(sample);
		return err;
	}
	*out = sample;
	return 0;
}

/* ---- differences ---------------------------------------------------------------------------- */

static int compare_keys(const void *a, const void *b)
{
	const struct sample_row *x = a, *y = b;

	return COMPARE(x->key, y->key);
}

/*
 * The rows of an earlier sample, to be found by key. Usually the rows of a later sample are in the
 * same order, so the next row is tried first.
 */
struct earlier_rows {
	const struct ocp_sample *sample;
	size_t next;
	struct sample_row *by_key;
	bool is_sorted;
};

static const struct sample_row *find_earlier(struct earlier_rows *earlier,
					     const struct sample_row *row)
{
	const size_t n = earlier->sample->n_rows;

	if (earlier->next < n && earlier->sample->rows[earlier->next].key == row->key)
		return &earlier->sample->rows[earlier->next++];
	if (!n)
		return NULL;
	if (!earlier->is_sorted) {
		memcpy(earlier->by_key, earlier->sample->rows, n * sizeof(*row));
		qsort(earlier->by_key, n, sizeof(*row), compare_keys);
		earlier->is_sorted = true;
	}
	return bsearch(row, earlier->by_key, n, sizeof(*row), compare_keys);
}

/*
 * Subtract the rows of EARLIER from the rows of OUT with the same key. If a row of OUT has fewer
 * hits than the row of EARLIER, it belongs to a new process or thread with the same id: subtract
 * nothing.
 *
 * GONE is NULL or all 0. If it is not NULL, set GONE[probe] to the hits of those rows of EARLIER
 * that were not subtracted. These rows were removed, and their hits were added to the probe's row
 * of ended processes: so subtract GONE from that row.
 */
static void subtract_each(struct ocp_sample *out, struct earlier_rows *earlier, uint64_t *gone)
{
	for (size_t i = 0; gone && i < earlier->sample->n_rows; i++)
		gone[(uint32_t)earlier->sample->rows[i].key] += earlier->sample->rows[i].hits.hits;
	for (size_t i = 0; i < out->n_rows; i++) {
		struct sample_row *row = &out->rows[i];
		const struct sample_row *old = find_earlier(earlier, row);

		if (!old || old->hits.hits > row->hits.hits)
			continue;
		row->hits.hits -= old->hits.hits;
		if (gone)
			gone[(uint32_t)row->key] -= old->hits.hits;
	}
	for (size_t i = 0; gone && i < out->n_rows; i++)
		if (out->rows[i].key >> 32 == 0)
			out->rows[i].hits.hits -= gone[out->rows[i].key];
}

static int subtract_rows(struct ocp_sample *out, const struct ocp_sample *later,
			 const struct ocp_sample *earlier)
{
	const enum ocp_split split = later->meter->split;
	const bool by_id = split == OCP_BY_THREAD || split == OCP_BY_PROCESS;
	struct earlier_rows rows = { .sample = earlier };
	uint64_t *gone = calloc(later->meter->table.n_probes + 1, sizeof(*gone));

	rows.by_key = malloc((earlier->n_rows + 1) * sizeof(*rows.by_key));
	out->rows = malloc((later->n_rows + 1) * sizeof(*out->rows));
	if (!rows.by_key || !gone || !out->rows) {
		free(rows.by_key);
		free(gone);
		return ctx_no_memory(later->meter->ctx);
	}
	memcpy(out->rows, later->rows, later->n_rows * sizeof(*out->rows));
	out->n_rows = later->n_rows;
	for (size_t i = 0; i < out->n_rows; i++)
		if (out->rows[i].hits.comm)
			out->rows[i].hits.comm = out->rows[i].comm;
	subtract_each(out, &rows, by_id ? gone : NULL);
	free(rows.by_key);
	free(gone);
	return 0;
}

/*
 * Set the probes of OUT to LATER minus EARLIER. Both samples are sorted by name. A probe that is
 * only in LATER keeps its hits.
 */
static int subtract_probes(struct ocp_sample *out, const struct ocp_sample *later,
			   const struct ocp_sample *earlier)
{
	size_t old = 0;

	out->probes = calloc(later->n_probes + 1, sizeof(*out->probes));
	if (!out->probes)
		return ctx_no_memory(later->meter->ctx);
	for (; out->n_probes < later->n_probes; out->n_probes++) {
		struct ocp_probe_hits *probe = &out->probes[out->n_probes];

		*probe = later->probes[out->n_probes];
		while (old < earlier->n_probes &&
		       strcmp(earlier->probes[old].probe, probe->probe) < 0)
			old++;
		if (old < earlier->n_probes &&
		    strcmp(earlier->probes[old].probe, probe->probe) == 0)
			probe->hits -= earlier->probes[old].hits;
	}
	return 0;
}

static int subtract_pairs(struct ocp_sample *out, const struct ocp_sample *later,
			  const struct ocp_sample *earlier)
{
	int err = allocate_pairs(out, later->n_pairs);

	for (size_t i = 0; !err && i < later->n_pairs; i++) {
		const struct ocp_pair *old = &earlier->pairs[i];
		struct ocp_pair *pair = &out->pairs[i];

		*pair = later->pairs[i];
		pair->count -= old->count;
		pair->sum_ns -= old->sum_ns;
		pair->starts -= old->starts;
		pair->orphan_starts -= old->orphan_starts;
		pair->orphan_stops -= old->orphan_stops;
		pair->map_full -= old->map_full;
		pair->not_keyed -= old->not_keyed;
		pair->mismatched -= old->mismatched;
		for (size_t j = 0; j < OCP_BUCKETS; j++)
			out->buckets[i][j] = later->buckets[i][j] - earlier->buckets[i][j];
		pair->buckets = out->buckets[i];
		pair_find_extremes(pair);
	}
	return err;
}

int ocp_sample_difference(const struct ocp_sample *later, const struct ocp_sample *earlier,
			  struct ocp_sample **out)
{
	struct ocp_sample *sample = calloc(1, sizeof(*sample));
	int err;

	*out = NULL;
	if (!sample)
		return ctx_no_memory(later->meter->ctx);
	sample->meter = later->meter;
	sample->time_ns = later->time_ns - earlier->time_ns;
	sample->sums.all = later->sums.all - earlier->sums.all;
	/*
	 * The sums may shrink: if a site was removed in between, its hits are missing in the later
	 * sums.
	 */
	if (later->sums.stepped > earlier->sums.stepped)
		sample->sums.stepped = later->sums.stepped - earlier->sums.stepped;
	if (later->sums.paired > earlier->sums.paired)
		sample->sums.paired = later->sums.paired - earlier->sums.paired;
	sample->sums.walk_ns = later->sums.walk_ns - earlier->sums.walk_ns;
	err = losses_subtract(later->meter->ctx, &later->losses, &earlier->losses, &sample->losses);
	sample->sums.unlisted = sample->losses.passed_over + sample->losses.filtered;
	if (!err)
		err = subtract_probes(sample, later, earlier);
	if (!err)
		err = subtract_rows(sample, later, earlier);
	if (!err)
		err = subtract_pairs(sample, later, earlier);
	if (!err)
		err = arg_histograms_subtract(later->meter->ctx, &later->histograms,
					      &earlier->histograms, &sample->histograms);
	if (!err)
		err = domain_pairs_subtract(later->meter->ctx, &later->domains, &earlier->domains,
					    &sample->domains);
	if (!err)
		err = value_groups_subtract(later->meter->ctx, &later->groups, &earlier->groups,
					    &sample->groups);
	if (err) {
		ocp_sample_free(sample);
		return err;
	}
	*out = sample;
	return 0;
}

/* ---- questions ------------------------------------------------------------------------------ */

int64_t ocp_sample_time_ns(const struct ocp_sample *sample)
{
	return sample->time_ns;
}

uint64_t ocp_sample_stepped_hits(const struct ocp_sample *sample)
{
	return hit_sums_stepped(&sample->sums);
}

double ocp_sample_cost_per_hit_ns(const struct ocp_sample *sample, const struct ocp_costs *costs)
{
	return hit_sums_cost_ns(&sample->sums, costs);
}

uint64_t ocp_sample_all_hits(const struct ocp_sample *sample)
{
	return sample->sums.all + sample->sums.unlisted;
}

const struct ocp_losses *ocp_sample_losses(const struct ocp_sample *sample)
{
	return &sample->losses;
}

size_t ocp_sample_probe_count(const struct ocp_sample *sample)
{
	return sample->n_probes;
}

const struct ocp_probe_hits *ocp_sample_probe(const struct ocp_sample *sample, size_t i)
{
	return &sample->probes[i];
}

size_t ocp_sample_hits_count(const struct ocp_sample *sample)
{
	return sample->n_rows;
}

const struct ocp_hits *ocp_sample_hits(const struct ocp_sample *sample, size_t i)
{
	return &sample->rows[i].hits;
}

size_t ocp_sample_pair_count(const struct ocp_sample *sample)
{
	return sample->n_pairs;
}

const struct ocp_pair *ocp_sample_pair(const struct ocp_sample *sample, size_t i)
{
	return &sample->pairs[i];
}

size_t ocp_sample_histogram_count(const struct ocp_sample *sample)
{
	return sample->histograms.n;
}

const struct ocp_histogram *ocp_sample_histogram(const struct ocp_sample *sample, size_t i)
{
	return &sample->histograms.list[i];
}

const struct value_groups *sample_value_groups(const struct ocp_sample *sample)
{
	return &sample->groups;
}

const struct domain_pairs *sample_domain_pairs(const struct ocp_sample *sample)
{
	return &sample->domains;
}
