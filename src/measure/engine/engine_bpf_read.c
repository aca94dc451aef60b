// SPDX-License-Identifier: MIT
/*
 * Reads the counts from the maps of the BPF programs. The map `hits` is mapped into our memory.
 * Other maps are read by system calls, large ones in batches. A per-CPU map returns a value for
 * each possible CPU, whether it is online or not; these values are added up.
 */
#include <bpf/bpf.h>
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include "base/array.h"
#include "measure/engine/engine_bpf.h"

/* Entries per system call. This limits the size of the buffers. */
enum { KEYS_A_BATCH = 1024 };

_Static_assert(sizeof(((struct engine_histogram *)0)->below_0) ==
		       sizeof(((struct measure_histogram *)0)->below_0),
	       "one histogram");
_Static_assert(sizeof(((struct engine_pair *)0)->buckets) ==
		       sizeof(((struct measure_pair *)0)->buckets),
	       "one histogram");

static int report_read_error(struct engine *engine, int err)
{
	return ctx_error(engine->ctx, err, "measuring: reading the maps: %s", strerror(-err));
}

int engine_bpf_map_hits(struct engine *engine)
{
	struct bpf_map_info info = { 0 };
	__u32 bytes = sizeof(info);
	int err = bpf_map_get_info_by_fd(engine->object.hits, &info, &bytes);
	void *hits;

	if (err)
		return report_read_error(engine, err);
	engine->hits_stride = info.max_entries / engine->n_cpus;
	engine->hits_bytes = info.max_entries * sizeof(*engine->hits);
	hits = mmap(NULL, engine->hits_bytes, PROT_READ | PROT_WRITE, MAP_SHARED,
		    engine->object.hits, 0);
	if (hits == MAP_FAILED)
		return report_read_error(engine, -errno);
	engine->hits = hits;
	return 0;
}

void engine_bpf_unmap_hits(struct engine *engine)
{
	if (engine->hits)
		munmap((void *)engine->hits, engine->hits_bytes);
	engine->hits = NULL;
}

static void read_hits(const struct engine *engine, uint64_t *hits)
{
	memset(hits, 0, engine->n_sites * sizeof(*hits));
	for (size_t cpu = 0; cpu < engine->n_cpus; cpu++)
		for (size_t i = 0; i < engine->n_sites; i++)
			hits[i] += engine->hits[cpu * engine->hits_stride + i];
}

void engine_bpf_take_hits(struct engine *engine, size_t first, size_t n, uint64_t *hits)
{
	memset(hits, 0, n * sizeof(*hits));
	for (size_t cpu = 0; cpu < engine->n_cpus; cpu++) {
		volatile __u64 *its = engine->hits + cpu * engine->hits_stride + first;

		for (size_t i = 0; i < n; i++) {
			hits[i] += its[i];
			its[i] = 0;
		}
	}
}

static void add_pair_part(struct engine_pair *sum, const struct measure_pair *part)
{
	uint64_t min_ns = ~part->min_ns_not;

	if (part->count && (!sum->count || min_ns < sum->min_ns))
		sum->min_ns = min_ns;
	if (part->max_ns > sum->max_ns)
		sum->max_ns = part->max_ns;
	sum->starts += part->starts;
	sum->count += part->count;
	sum->sum_ns += part->sum_ns;
	sum->orphan_starts += part->orphan_starts;
	sum->orphan_stops += part->orphan_stops;
	sum->map_full += part->map_full;
	sum->not_keyed += part->not_keyed;
	sum->mismatched += part->mismatched;
	for (size_t i = 0; i < MEASURE_BUCKETS; i++)
		sum->buckets[i] += part->buckets[i];
}

static int read_pairs(struct engine *engine, struct engine_pair *pairs)
{
	struct measure_pair *parts = calloc(engine->n_cpus, sizeof(*parts));
	int err = 0;

	if (!parts)
		return ctx_no_memory(engine->ctx);
	for (__u32 pair = 0; !err && pair < engine->n_pairs; pair++) {
		err = bpf_map_lookup_elem(engine->object.pair_stats, &pair, parts);
		memset(&pairs[pair], 0, sizeof(pairs[pair]));
		for (size_t cpu = 0; !err && cpu < engine->n_cpus; cpu++)
			add_pair_part(&pairs[pair], &parts[cpu]);
	}
	free(parts);
	return err ? report_read_error(engine, err) : 0;
}

/* Return the signed number of 128 bits that consists of HALVES, the lower half first. */
static __int128 signed_128(const __u64 halves[2])
{
	return (__int128)((unsigned __int128)halves[1] << 64 | halves[0]);
}

static void add_histogram(struct engine_histogram *sum, const struct measure_histogram *part)
{
	const int64_t min = (int64_t)measure_ordered(~part->min_not),
		      max = (int64_t)measure_ordered(part->max);

	if (part->count && (!sum->count || min < sum->min))
		sum->min = min;
	if (part->count && (!sum->count || max > sum->max))
		sum->max = max;
	sum->count += part->count;
	sum->not_number += part->not_number;
	sum->sum += signed_128(part->sum);
	for (size_t i = 0; i < MEASURE_BUCKETS; i++) {
		sum->buckets[i] += part->buckets[i];
		sum->below_0[i] += part->below_0[i];
	}
}

static int read_histograms(struct engine *engine, struct engine_histogram *histograms)
{
	struct measure_histogram *parts = calloc(engine->n_cpus, sizeof(*parts));
	int err = 0;

	if (!parts)
		return ctx_no_memory(engine->ctx);
	for (__u32 i = 0; !err && i < engine->n_histograms; i++) {
		err = bpf_map_lookup_elem(engine->object.histograms, &i, parts);
		memset(&histograms[i], 0, sizeof(histograms[i]));
		for (size_t cpu = 0; !err && cpu < engine->n_cpus; cpu++)
			add_histogram(&histograms[i], &parts[cpu]);
	}
	free(parts);
	return err ? report_read_error(engine, err) : 0;
}

static void add_floats(struct engine_floats *sum, const struct measure_floats *part)
{
	sum->count += part->count;
	sum->nan += part->nan;
	sum->inf += part->inf;
	sum->minus_inf += part->minus_inf;
	if (part->max > sum->max)
		sum->max = part->max;
	if (part->min_not > sum->min_not)
		sum->min_not = part->min_not;
	for (size_t i = 0; i < MEASURE_FLOAT_GROUPS; i++)
		sum->sums[i] += signed_128(part->sums[i]);
	for (size_t i = 0; i < MEASURE_FLOAT_BUCKETS; i++)
		sum->buckets[i] += part->buckets[i];
}

static int read_floats(struct engine *engine, struct engine_floats *floats)
{
	struct measure_floats *parts;
	int err = 0;

	memset(floats, 0, engine->n_histograms * sizeof(*floats));
	if (!*engine->object.has_floats)
		return 0;
	parts = calloc(engine->n_cpus, sizeof(*parts));
	if (!parts)
		return ctx_no_memory(engine->ctx);
	for (__u32 i = 0; !err && i < engine->n_histograms; i++) {
		err = bpf_map_lookup_elem(engine->object.float_histograms, &i, parts);
		for (size_t cpu = 0; !err && cpu < engine->n_cpus; cpu++)
			add_floats(&floats[i], &parts[cpu]);
	}
	free(parts);
	return err ? report_read_error(engine, err) : 0;
}

/* Make room for KEYS_A_BATCH more entries; the array grows by half. */
static int enlarge_reading(struct engine *engine, struct engine_reading *reading, size_t *room)
{
	struct engine_keyed *keyed;

	if (reading->n_keyed + KEYS_A_BATCH <= *room)
		return 0;
	*room = *room + *room / 2 + KEYS_A_BATCH;
	keyed = realloc(reading->keyed, *room * sizeof(*keyed));
	if (!keyed)
		return ctx_no_memory(engine->ctx);
	reading->keyed = keyed;
	return 0;
}

static void add_keyed(struct engine_reading *reading, const struct measure_key *key,
		      const struct measure_keyed *value)
{
	struct engine_keyed *keyed = &reading->keyed[reading->n_keyed++];

	*keyed = (struct engine_keyed){ .id = key->id,
					.tgid = value->tgid,
					.probe_index = key->probe_index,
					.hits = value->hits };
	memcpy(keyed->comm, value->comm, sizeof(keyed->comm));
	keyed->comm[sizeof(keyed->comm) - 1] = '\0';
}

/* Read all entries of `keyed`. No entry is deleted meanwhile, so the batches visit all of them. */
static int read_keyed(struct engine *engine, struct engine_reading *reading)
{
	struct measure_key *keys = calloc(KEYS_A_BATCH, sizeof(*keys));
	struct measure_keyed *values = calloc(KEYS_A_BATCH, sizeof(*values));
	__u32 cursor = 0, n;
	size_t room = 0;
	bool first = true;
	int err = keys && values ? 0 : ctx_no_memory(engine->ctx), end = 0;

	while (!err && !end) {
		n = KEYS_A_BATCH;
		end = bpf_map_lookup_batch(engine->object.keyed, first ? NULL : &cursor, &cursor,
					   keys, values, &n, NULL);
		first = false;
		if (end && end != -ENOENT)
			err = report_read_error(engine, end);
		if (!err)
			err = enlarge_reading(engine, reading, &room);
		for (__u32 i = 0; !err && i < n; i++)
			add_keyed(reading, &keys[i], &values[i]);
	}
	free(keys);
	free(values);
	return err;
}

/* Read all entries of domain_pairs. Programs may add entries meanwhile, but do not delete any. */
static int read_domain_pairs(struct engine *engine, struct engine_reading *reading)
{
	const int map = engine->object.domain_pairs;
	struct measure_domain_key key, *before = NULL;
	struct measure_pair *part = malloc(sizeof(*part));
	int err = part ? 0 : ctx_no_memory(engine->ctx);

	while (!err && bpf_map_get_next_key(map, before, &key) == 0) {
		struct engine_domain_pair *new;

		before = &key;
		err = bpf_map_lookup_elem(map, &key, part);
		if (err) {
			err = report_read_error(engine, err);
			break;
		}
		new = array_add(reading->domain_pairs, reading->n_domain_pairs);
		if (!new) {
			err = ctx_no_memory(engine->ctx);
			break;
		}
		*new = (struct engine_domain_pair){ .pair = key.pair, .domain = key.domain };
		add_pair_part(&new->times, part);
	}
	free(part);
	return err;
}

static int read_losses(struct engine *engine, struct measure_losses *sum)
{
	struct measure_losses *parts = calloc(engine->n_cpus, sizeof(*parts));
	__u32 zero = 0;
	int err;

	if (!parts)
		return ctx_no_memory(engine->ctx);
	err = bpf_map_lookup_elem(engine->object.losses, &zero, parts);
	*sum = (struct measure_losses){ 0 };
	for (size_t cpu = 0; !err && cpu < engine->n_cpus; cpu++) {
		sum->passed_over += parts[cpu].passed_over;
		sum->rows_full += parts[cpu].rows_full;
		sum->children_full += parts[cpu].children_full;
		sum->filtered += parts[cpu].filtered;
		sum->prints_dropped += parts[cpu].prints_dropped;
		sum->prints_limited += parts[cpu].prints_limited;
		sum->slow += parts[cpu].slow;
		sum->slow_limited += parts[cpu].slow_limited;
		sum->slow_dropped += parts[cpu].slow_dropped;
		sum->slow_unkept += parts[cpu].slow_unkept;
		sum->filter_mismatches += parts[cpu].filter_mismatches;
		if (parts[cpu].last_mismatch)
			sum->last_mismatch = parts[cpu].last_mismatch;
	}
	free(parts);
	return err ? report_read_error(engine, err) : 0;
}

/* Return true if the process ids that the BPF programs use are those in our /proc. */
static bool knows_ids(const struct engine *engine)
{
	struct stat st;

	return !engine->config.pidns_ino ||
	       (stat("/proc/self/ns/pid", &st) == 0 && st.st_ino == engine->config.pidns_ino);
}

/* Read the hits of each process. Delete the entries of processes that have ended, to make room. */
static int read_processes(struct engine *engine, struct engine_reading *reading)
{
	const int map = engine->object.process_hits;
	__u32 key, ended, *before = NULL;
	struct engine_process *new;
	bool has_ended = false;
	int err = 0;

	while (!err && bpf_map_get_next_key(map, before, &key) == 0) {
		__u64 hits = 0;

		before = &key;
		if (has_ended)
			bpf_map_delete_elem(map, &ended);
		has_ended = kill((pid_t)key, 0) != 0 && errno == ESRCH;
		ended = key;
		if (bpf_map_lookup_elem(map, &key, &hits) != 0)
			continue;
		new = array_add(reading->processes, reading->n_processes);
		if (new)
			*new = (struct engine_process){ key, hits };
		else
			err = ctx_no_memory(engine->ctx);
	}
	if (has_ended)
		bpf_map_delete_elem(map, &ended);
	return err;
}

static int read_only_hits(struct engine *engine, struct engine_reading *reading)
{
	int err;

	read_hits(engine, reading->hits);
	err = read_losses(engine, &reading->losses);
	if (!err)
		err = engine_bpf_read_walk_ns(engine, &reading->walk_ns);
	if (!err && engine->config.counts_processes && knows_ids(engine))
		err = read_processes(engine, reading);
	return err;
}

int engine_bpf_read(struct engine *engine, struct engine_reading *reading)
{
	int err = 0;

	if (reading->only_hits)
		return read_only_hits(engine, reading);

	read_hits(engine, reading->hits);
	reading->keyed = NULL;
	reading->n_keyed = 0;
	reading->domain_pairs = NULL;
	reading->n_domain_pairs = 0;
	reading->groups = NULL;
	reading->group_times = NULL;
	reading->n_groups = 0;
	if (engine->n_pairs)
		err = read_pairs(engine, reading->pairs);
	if (!err && engine->n_histograms)
		err = read_histograms(engine, reading->histograms);
	if (!err && engine->n_histograms && reading->floats)
		err = read_floats(engine, reading->floats);
	if (!err && engine->config.keyed_by != MEASURE_UNKEYED)
		err = read_keyed(engine, reading);
	if (!err && engine->config.domain_id && engine->object.domain_pairs >= 0)
		err = read_domain_pairs(engine, reading);
	if (!err && engine->by.is_on)
		err = engine_bpf_read_groups(engine, reading);
	if (!err)
		err = read_losses(engine, &reading->losses);
	if (!err)
		err = engine_bpf_read_walk_ns(engine, &reading->walk_ns);
	if (err) {
		free(reading->keyed);
		free(reading->domain_pairs);
		free(reading->groups);
		free(reading->group_times);
		reading->groups = NULL;
		reading->group_times = NULL;
		reading->keyed = NULL;
		reading->domain_pairs = NULL;
	}
	return err;
}

int engine_bpf_forget(struct engine *engine, engine_ended_fn has_ended, void *data,
		      struct engine_keyed **dropped, size_t *n)
{
	struct engine_reading reading = { 0 };
	int err;

	*dropped = NULL;
	*n = 0;
	if (engine->config.keyed_by == MEASURE_UNKEYED || !knows_ids(engine))
		return 0;
	err = read_keyed(engine, &reading);
	for (size_t i = 0; !err && i < reading.n_keyed; i++) {
		struct engine_keyed *row = &reading.keyed[i];
		const struct measure_key key = { .id = row->id, .probe_index = row->probe_index };
		struct measure_keyed value;

		if (!has_ended(data, row->id, row->tgid))
			continue;
		/*
		 * The thread or process has ended, but it may have hit the site after the entry was
		 * read.
		 */
		err = bpf_map_lookup_and_delete_elem(engine->object.keyed, &key, &value);
		if (err) {
			err = report_read_error(engine, err);
			break;
		}
		row->hits = value.hits;
		reading.keyed[(*n)++] = *row;
	}
	*dropped = reading.keyed;
	return err;
}
