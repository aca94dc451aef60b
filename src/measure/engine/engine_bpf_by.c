// SPDX-License-Identifier: MIT
/*
 * Reads the groups of hits and the groups of times from the maps that bpf/measure_by.h describes. A
 * group is created before anything is counted in it, and is never removed. So the list of groups
 * can be read first, and the times of these groups afterwards.
 */
#include <bpf/bpf.h>
#include <stdlib.h>
#include "measure/engine/engine_bpf.h"
#include "kernel/maps.h"

static struct engine_group *append_group(struct engine_reading *reading,
					 const struct measure_by *value)
{
	struct engine_group *group = &reading->groups[reading->n_groups++];

	*group = (struct engine_group){ .value = *value };
	return group;
}

/*
 * Add a group of times for VALUE from entry INDEX of by_times. VALUE is NULL for the group of all
 * values for which there was no room; INDEX is then the number of the pair.
 */
static int add_times(struct engine *engine, struct engine_reading *reading,
		     const struct measure_by *value, __u32 index, size_t *n_times)
{
	const struct measure_by others = { .what = index };
	struct measure_by_times *times = &reading->group_times[*n_times];
	struct engine_group *group;
	int err = bpf_map_lookup_elem(engine->object.by_times, &index, times);

	if (err)
		return bpf_support_explain(engine->ctx, err, "reading the groups");
	if (!times->count)
		return 0;
	(*n_times)++;
	group = append_group(reading, value ? value : &others);
	group->is_others = !value;
	group->times = times;
	group->hits = times->count;
	return 0;
}

static int read_times(struct engine *engine, struct engine_reading *reading,
		      const struct measure_by *values, const __u32 *indices, size_t n)
{
	size_t n_times = 0;
	int err = 0;

	for (size_t i = 0; !err && i < n; i++)
		err = add_times(engine, reading, &values[i], indices[i], &n_times);
	for (__u32 i = 0; !err && i < engine->n_pairs; i++)
		err = add_times(engine, reading, NULL, i, &n_times);
	return err;
}

/* The contents of a map, as read by read_map(). */
struct entries {
	void *keys, *values;
	size_t n;
};

static int read_map(struct engine *engine, int map, size_t key_bytes, size_t value_bytes,
		    size_t room, struct entries *entries)
{
	return map_read_all(engine->ctx, map, key_bytes, value_bytes, room ? room : 1,
			    &entries->keys, &entries->values, &entries->n);
}

static void free_entries(struct entries *entries)
{
	free(entries->keys);
	free(entries->values);
}

static void append_hit_groups(struct engine_reading *reading, const struct entries *groups,
			      const struct entries *others)
{
	const struct measure_by *values = groups->keys;
	const __u64 *hits = groups->values, *other_hits = others->values;

	/* Skip a group that was just created and has no hits yet. */
	for (size_t i = 0; i < groups->n; i++)
		if (hits[i])
			append_group(reading, &values[i])->hits = hits[i];
	for (__u32 probe = 0; probe < others->n; probe++) {
		const struct measure_by value = { .what = probe };
		struct engine_group *group;

		if (!other_hits[probe])
			continue;
		group = append_group(reading, &value);
		group->is_others = true;
		group->hits = other_hits[probe];
	}
}

int engine_bpf_read_groups(struct engine *engine, struct engine_reading *reading)
{
	const struct bpf_object *object = &engine->object;
	struct entries probes = { 0 }, others = { 0 }, pairs = { 0 };
	size_t n_times;
	int err = read_map(engine, object->by_hits, sizeof(struct measure_by), sizeof(__u64),
			   engine->by.max_hits, &probes);

	if (!err)
		err = read_map(engine, object->by_others, sizeof(__u32), sizeof(__u64),
			       engine->max_sites, &others);
	if (!err && engine->n_pairs)
		err = read_map(engine, object->by_pairs, sizeof(struct measure_by), sizeof(__u32),
			       engine->by.max_times, &pairs);
	n_times = pairs.n + engine->n_pairs;
	reading->groups = calloc(probes.n + others.n + n_times + 1, sizeof(*reading->groups));
	reading->group_times = calloc(n_times + 1, sizeof(*reading->group_times));
	if (!err && (!reading->groups || !reading->group_times))
		err = ctx_no_memory(engine->ctx);
	if (!err) {
		append_hit_groups(reading, &probes, &others);
		err = read_times(engine, reading, pairs.keys, pairs.values, pairs.n);
	}
	free_entries(&probes);
	free_entries(&others);
	free_entries(&pairs);
	return err;
}
