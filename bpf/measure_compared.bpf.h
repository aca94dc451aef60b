/* SPDX-License-Identifier: MIT */
/*
 * Reads the argument of a pair: the key by which the pair is matched (measure_keys.bpf.h), or, if
 * the pair is matched by thread, the value that is compared. Why compare? Lwt, Async and Eio run
 * many requests in one thread, so a stop may belong to another request than the start that it ends.
 * If the arguments of start and stop differ, this has happened.
 *
 * A start stores its argument in `compared`, at the place that the start has in the ring of open
 * starts. If `compared` has no room for a thread, the pairs of this thread are not compared.
 */
#ifndef MEASURE_COMPARED_BPF_H
#define MEASURE_COMPARED_BPF_H

#include "filter.bpf.h"
#include "measure_pairs.bpf.h"
#include "site_args.bpf.h"

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__type(key, struct measure_open_key);
	__type(value, struct measure_compared);
	__uint(max_entries, 1);
} compared SEC(".maps");

/* The initial value of an entry of `compared`. */
static const struct measure_compared nothing_compared;

/* Argument `arg` of the current hit, converted to a key. */
struct role_key {
	__u64 value;
	__u32 is_known; /* 0: the argument cannot be a key */
	__u32 arg;	/* MEASURE_NO_ARG: no argument was read yet */
};

static __always_inline int role_is_keyed(const struct measure_role *role)
{
	/*
	 * If all pairs are matched by thread, or all by key, `matching` lets the verifier remove
	 * the code for the other kind.
	 */
	if (!(config.matching & MEASURE_SOME_BY_KEY))
		return 0;
	if (!(config.matching & MEASURE_SOME_BY_THREAD))
		return 1;
	return (role->flags & MEASURE_ROLE_KEYED) != 0;
}

/* Read argument key->arg into KEY. A global function: see add_time(). */
__noinline int read_key(bpf_user_pt_regs_t *regs, const struct site_args *args,
			struct role_key *key)
{
	if (!args || !key)
		return 0;
	key->value = 0;
	key->is_known = (__u32)arg_key((struct pt_regs *)regs,
				       &args->args[key->arg & (ARGS_ALL - 1)], &key->value);
	return 0;
}

/*
 * Read the argument of ROLE into KEY, unless an earlier role has already read this argument into
 * KEY.
 */
static __always_inline void read_role_key(const struct measure_role *role, struct pt_regs *regs,
					  const struct site_args *args, struct role_key *key)
{
	if (!(config.matching & (MEASURE_SOME_BY_KEY | MEASURE_SOME_COMPARED)) ||
	    !(role->flags & (MEASURE_ROLE_KEYED | MEASURE_ROLE_COMPARED)) ||
	    key->arg == role->key_arg)
		return;
	key->arg = role->key_arg;
	read_key((bpf_user_pt_regs_t *)regs, args, key);
}

/* Count a hit whose argument cannot be a key, for the pair of ROLE, which is matched by key. */
static __always_inline void miss_key(const struct measure_role *role, struct measure_pair *stats,
				     int matches)
{
	if (role->flags & MEASURE_ROLE_STOP) {
		add_atomically(&stats->orphan_stops, 1);
	} else if (matches) {
		add_atomically(&stats->starts, 1);
		add_atomically(&stats->not_keyed, 1);
	}
}

/* Return the key READ as a value to compare, which is 0 only if the key is unknown. */
static __always_inline __u64 compared_value(const struct role_key *read)
{
	return !read->is_known ? 0 : read->value ? read->value : 1;
}

static __always_inline void compared_keep(const struct measure_open_key *key, __u64 value)
{
	struct measure_compared *entry;
	__u32 place;

	place = open_place(key, 0);
	if (place >= MEASURE_DEPTH)
		return;
	entry = bpf_map_lookup_elem(&compared, key);
	if (!entry) {
		bpf_map_update_elem(&compared, key, &nothing_compared, 1 /* BPF_NOEXIST */);
		entry = bpf_map_lookup_elem(&compared, key);
	}
	if (entry)
		entry->values[place & (MEASURE_DEPTH - 1)] = value;
}

static __always_inline void compared_check(const struct measure_open_key *key, __u64 value)
{
	struct measure_compared *entry;
	struct measure_pair *stats;
	__u32 place, pair;
	__u64 its;

	pair = key->pair;
	place = open_place(key, 1);
	entry = bpf_map_lookup_elem(&compared, key);
	stats = bpf_map_lookup_elem(&pair_stats, &pair);
	if (!entry || !stats || place >= MEASURE_DEPTH)
		return;
	its = entry->values[place & (MEASURE_DEPTH - 1)];
	if (its && value && its != value)
		add_atomically(&stats->mismatched, 1);
}

/* Store READ, the argument of the newest start of KEY, which has just begun. */
static __always_inline void compared_start(const struct measure_role *role,
					   const struct measure_open_key *key,
					   const struct role_key *read)
{
	if ((config.matching & MEASURE_SOME_COMPARED) && (role->flags & MEASURE_ROLE_COMPARED))
		compared_keep(key, compared_value(read));
}

/*
 * Compare READ, the argument of a stop of KEY, with the argument of the start that the stop has
 * just ended.
 */
static __always_inline void compared_stop(const struct measure_role *role,
					  const struct measure_open_key *key,
					  const struct role_key *read)
{
	if ((config.matching & MEASURE_SOME_COMPARED) && (role->flags & MEASURE_ROLE_COMPARED))
		compared_check(key, compared_value(read));
}

/* Remove the arguments of the open starts of KEY, whose thread ends. */
static __always_inline void compared_end(const struct measure_open_key *key)
{
	if (config.matching & MEASURE_SOME_COMPARED)
		bpf_map_delete_elem(&compared, key);
}

#endif
