// SPDX-License-Identifier: MIT
/*
 * Reads the pairs and calls that have begun and not ended. The maps pair_open, key_open and
 * frame_open say which have not; slow_open has what was kept of their starts. Hits may change the
 * maps meanwhile, so what was kept counts only if it has the time of the start in the other map.
 */
#include <bpf/bpf.h>
#include <errno.h>
#include <linux/bpf.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "kernel/maps.h"
#include "measure/args/value.h"
#include "measure/engine/engine_bpf.h"
#include "measure_slower.h"

enum {
	READ_TRIES = 4,
	NEW_ENTRIES = 1024, /* room for entries that are made while a map is read */
};

/* A map while it is read. */
struct open_map {
	void *keys, *values;
	size_t n;
};

void engine_opens_free(struct engine_opens *opens)
{
	for (size_t i = 0; i < opens->n; i++)
		free(opens->list[i].record);
	free(opens->list);
	*opens = (struct engine_opens){ 0 };
}

static int read_open_map(struct engine *engine, int fd, size_t key_bytes, size_t value_bytes,
			 struct open_map *map)
{
	struct bpf_map_info info = { 0 };
	__u32 bytes = sizeof(info);
	int err = bpf_map_get_info_by_fd(fd, &info, &bytes);

	if (err)
		return ctx_error(engine->ctx, err, "measuring: reading the open pairs: %s",
				 strerror(-err));
	return map_read_all(engine->ctx, fd, key_bytes, value_bytes,
			    (size_t)info.max_entries + NEW_ENTRIES, &map->keys, &map->values,
			    &map->n);
}

static void free_open_map(struct open_map *map)
{
	free(map->keys);
	free(map->values);
}

/*
 * Return true if START, a copy of an entry, is whole: it is not being written, belongs to OPEN, and
 * SECOND, a later copy, is the same.
 */
static bool is_whole_start(const struct slow_start *start, const struct slow_start *second,
			   const struct engine_open *open)
{
	return !start->is_locked && start->ns == open->ns &&
	       memcmp(start, second, sizeof(*start)) == 0 &&
	       value_record_is_sound(&start->hit, sizeof(start->hit));
}

/* Set OPEN->record to what was kept of the start. Without it, OPEN->record is NULL. */
static int read_start(struct engine *engine, struct engine_open *open)
{
	const struct slow_key key = { .owner = open->owner,
				      .pair = open->pair | (open->is_call ? SLOW_CALL : 0),
				      .value = open->value };
	struct slow_start *start = calloc(2, sizeof(*start));
	bool is_whole = false;

	if (!start)
		return ctx_no_memory(engine->ctx);
	for (int i = 0; !is_whole && i < READ_TRIES; i++) {
		if (bpf_map_lookup_elem(engine->object.slow_open, &key, &start[0]) ||
		    bpf_map_lookup_elem(engine->object.slow_open, &key, &start[1]))
			break;
		is_whole = is_whole_start(&start[0], &start[1], open);
	}
	if (!is_whole) {
		free(start);
		return 0;
	}
	/* Shrinking cannot fail in a way that matters: the old block stays valid. */
	open->record = reallocarray(start, 1, sizeof(*start)) ?: start;
	return 0;
}

static int add_engine_open(struct engine *engine, struct engine_opens *opens,
			   const struct engine_open *open)
{
	struct engine_open *slot;
	int err;

	if (open->ns == MEASURE_MARKER || open->pair >= engine->n_pairs)
		return 0;
	slot = array_add(opens->list, opens->n);
	if (!slot)
		return ctx_no_memory(engine->ctx);
	*slot = *open;
	err = read_start(engine, slot);
	if (!slot->record) {
		opens->n--;
		opens->n_unkept += !err;
	}
	return err;
}

/* ---- by thread ------------------------------------------------------------------------------ */

/* Read KEY's entry into OPEN until two copies are the same. Return false if it was removed. */
static bool read_ring(const struct engine *engine, const struct measure_open_key *key,
		      struct measure_open *open)
{
	struct measure_open second = { 0 };

	for (int i = 0; i < READ_TRIES; i++) {
		if (bpf_map_lookup_elem(engine->object.pair_open, key, open) ||
		    bpf_map_lookup_elem(engine->object.pair_open, key, &second))
			return false;
		if (memcmp(open, &second, sizeof(second)) == 0)
			break;
	}
	return true;
}

static int add_ring(struct engine *engine, struct engine_opens *opens,
		    const struct measure_open_key *key, const struct measure_open *ring)
{
	int err = 0;

	for (__u32 age = 0; !err && age < ring->n && age < MEASURE_DEPTH; age++) {
		const __u32 place = (ring->next - 1 - age) & (MEASURE_DEPTH - 1);

		err = add_engine_open(engine, opens,
				      &(struct engine_open){ .pair = key->pair,
							     .owner = key->tid,
							     .value = place,
							     .ns = ring->ring[place].ns });
	}
	return err;
}

static int read_open_by_thread(struct engine *engine, struct engine_opens *opens)
{
	struct open_map map = { 0 };
	const struct measure_open_key *keys;
	struct measure_open *rings;
	int err = read_open_map(engine, engine->object.pair_open, sizeof(*keys), sizeof(*rings),
				&map);

	keys = map.keys;
	rings = map.values;
	for (size_t i = 0; !err && i < map.n; i++)
		if (rings[i].n && read_ring(engine, &keys[i], &rings[i]))
			err = add_ring(engine, opens, &keys[i], &rings[i]);
	free_open_map(&map);
	return err;
}

/* ---- by key --------------------------------------------------------------------------------- */

static int read_open_by_key(struct engine *engine, struct engine_opens *opens)
{
	struct open_map map = { 0 };
	const struct measure_start_key *keys;
	const __u64 *times;
	int err =
		read_open_map(engine, engine->object.key_open, sizeof(*keys), sizeof(*times), &map);

	keys = map.keys;
	times = map.values;
	for (size_t i = 0; !err && i < map.n; i++)
		err = add_engine_open(engine, opens,
				      &(struct engine_open){ .pair = keys[i].pair,
							     .owner = keys[i].tgid,
							     .value = keys[i].value,
							     .ns = times[i] });
	free_open_map(&map);
	return err;
}

/* ---- calls ---------------------------------------------------------------------------------- */

/* Return true if the call of KEY is timed when it ends. */
static bool is_timed(const struct engine *engine, const struct measure_frame_key *key)
{
	const struct measure_frame_key confirmed = { .owner = key->owner,
						     .pair = key->pair,
						     .frame = CONFIRMED_FRAME };
	__u64 ns;

	if (key->frame == CONFIRMED_FRAME || key->pair >= engine->n_pairs)
		return false;
	return !engine->if_confirmed[key->pair] ||
	       bpf_map_lookup_elem(engine->object.frame_open, &confirmed, &ns) == 0;
}

static int read_open_calls(struct engine *engine, struct engine_opens *opens)
{
	struct open_map map = { 0 };
	const struct measure_frame_key *keys;
	const __u64 *times;
	int err = read_open_map(engine, engine->object.frame_open, sizeof(*keys), sizeof(*times),
				&map);

	keys = map.keys;
	times = map.values;
	for (size_t i = 0; !err && i < map.n; i++)
		if (is_timed(engine, &keys[i]))
			err = add_engine_open(engine, opens,
					      &(struct engine_open){ .pair = keys[i].pair,
								     .is_call = true,
								     .owner = keys[i].owner,
								     .value = keys[i].frame,
								     .ns = times[i] });
	free_open_map(&map);
	return err;
}

int engine_bpf_read_open(struct engine *engine, struct engine_opens *opens)
{
	int err = 0;

	*opens = (struct engine_opens){ 0 };
	if (engine->object.slow_open < 0)
		return 0;
	if (engine->config.matching & MEASURE_SOME_BY_THREAD)
		err = read_open_by_thread(engine, opens);
	if (!err && engine->config.matching & MEASURE_SOME_BY_KEY)
		err = read_open_by_key(engine, opens);
	if (!err && engine->config.frames)
		err = read_open_calls(engine, opens);
	return err;
}
