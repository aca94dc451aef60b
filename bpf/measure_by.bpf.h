/* SPDX-License-Identifier: MIT */
/*
 * Groups hits and times by the value of an argument. Only object measure_by has this code;
 * measure_by.h describes its maps.
 *
 * Every hit and every duration of a pair is counted in the group of its value, or, if there was no
 * room for another group, in an entry for all values without a group. A pair belongs to the group
 * of the value that the argument has at the start. The start stores the index of the group in
 * by_open, at the place that the start has in the ring of open starts; if the pair is matched by
 * key, in by_key_open, under the key of the start. The stop reads the index from there.
 *
 * A thread takes an index before it enters the group in by_pairs. If two threads meet a new value
 * at the same moment, both take an index. One of the two indices is then never used, so there is
 * room for one group less.
 */
#ifndef MEASURE_BY_BPF_H
#define MEASURE_BY_BPF_H

#include "filter.bpf.h"
#include "measure_by.h"
#include "measure_compared.bpf.h"
#include "measure_roles.bpf.h"

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__type(key, struct measure_by);
	__type(value, __u64);
	__uint(max_entries, 1);
} by_hits SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__type(key, __u32);
	__type(value, __u64);
	__uint(max_entries, 1);
} by_others SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__type(key, struct measure_by);
	__type(value, __u32);
	__uint(max_entries, 1);
} by_pairs SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__type(key, __u32);
	__type(value, struct measure_by_times);
	__uint(max_entries, 1);
} by_times SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__type(key, struct measure_open_key);
	__type(value, struct measure_by_open);
	__uint(max_entries, 1);
} by_open SEC(".maps");

/* How many indices of by_times were taken, not counting the first config.n_pairs. */
volatile __u64 by_times_used;

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__type(key, struct measure_start_key);
	__type(value, __u32);
	__uint(max_entries, 1);
} by_key_open SEC(".maps");

/*
 * The groups of active calls. A call that an exception ends leaves its entry, which is reused or
 * dropped like the entry in frame_open. If the entry of an active call is dropped, the time of the
 * call belongs to no group.
 */
struct {
	__uint(type, LRU_HASH);
	__type(key, struct measure_frame_key);
	__type(value, __u32);
	__uint(max_entries, 1);
} by_frame_open SEC(".maps");

/*
 * The initial value of an entry of by_open. As a local variable it would take a large part of the
 * stack of a BPF program.
 */
static const struct measure_by_open by_nothing_open;

static __always_inline __u64 by_float(__u64 bits)
{
	if (filter_is_nan(bits))
		return FILTER_INFINITY_BITS | 1;
	return bits << 1 ? bits : 0;
}

/* Read the argument SPEC into BY. The caller has set BY->what, and all other members to 0. */
static __noinline int by_read(struct pt_regs *regs, const struct arg_spec *spec,
			      struct measure_by *by)
{
	struct filter_found found = {};
	int type = filter_find(regs, spec, &found);
	__u64 n = found.length;

	if (type == FILTER_TYPE_STRING) {
		if (n > sizeof(by->text))
			n = sizeof(by->text);
		args_keep(n);
		if (n > sizeof(by->text) || args_copy(by->text, n, found.value))
			type = FILTER_TYPE_UNREADABLE;
		else
			by->number = found.length;
	}
	if (type == FILTER_TYPE_INT)
		by->number = found.value;
	if (type == FILTER_TYPE_FLOAT)
		by->number = by_float(found.value);
	by->type = (__u32)type;
	return 0;
}

static __always_inline const struct arg_spec *by_spec(const struct site_args *args)
{
	return &args->args[config.by_arg & (ARGS_ALL - 1)];
}

/*
 * Count a hit in the group of the argument's value. A global function for the reason given at
 * add_time().
 */
__noinline int by_count(bpf_user_pt_regs_t *regs, const struct site_args *args, __u32 probe_index)
{
	struct measure_by by = { .what = probe_index };
	struct measure_losses *lost = our_losses();
	__u64 *hits, none = 0;

	if (!args)
		return 0;
	by_read(regs, by_spec(args), &by);
	hits = bpf_map_lookup_elem(&by_hits, &by);
	if (!hits) {
		/*
		 * The update fails if the map is full, or if another task has just made the entry.
		 */
		bpf_map_update_elem(&by_hits, &by, &none, 1 /* BPF_NOEXIST */);
		hits = bpf_map_lookup_elem(&by_hits, &by);
	}
	if (!hits)
		hits = bpf_map_lookup_elem(&by_others, &probe_index);
	if (hits)
		add_atomically(hits, 1);
	else if (lost)
		add_atomically(&lost->rows_full, 1);
	return 0;
}

/*
 * Return the index in by_times for the value that the argument has at a start of PAIR. If there is
 * no room for another group, return PAIR, which is the index of the entry for all values without a
 * group.
 */
__noinline __u32 by_group(bpf_user_pt_regs_t *regs, const struct site_args *args, __u32 pair)
{
	struct measure_by by = { .what = pair };
	__u32 *index, fresh;
	__u64 used;

	if (!args)
		return pair;
	by_read(regs, by_spec(args), &by);
	index = bpf_map_lookup_elem(&by_pairs, &by);
	if (index)
		return *index;
	if (by_times_used >= config.by_max_times)
		return pair;
	used = __sync_fetch_and_add(&by_times_used, 1);
	if (used >= config.by_max_times)
		return pair;
	fresh = config.n_pairs + (__u32)used;
	bpf_map_update_elem(&by_pairs, &by, &fresh, 1 /* BPF_NOEXIST */);
	index = bpf_map_lookup_elem(&by_pairs, &by);
	return index ? *index : pair;
}

/*
 * Store GROUP for the newest start of KEY, if pair_open has KEY. by_open has room for as many keys
 * as pair_open.
 */
__noinline int by_start(const struct measure_open_key *key, __u32 group)
{
	struct measure_by_open *open;
	__u32 place;

	if (!key)
		return 0;
	place = open_place(key, 0);
	if (place >= MEASURE_DEPTH)
		return 0;
	open = bpf_map_lookup_elem(&by_open, key);
	if (!open) {
		bpf_map_update_elem(&by_open, key, &by_nothing_open, 1 /* BPF_NOEXIST */);
		open = bpf_map_lookup_elem(&by_open, key);
	}
	if (open)
		open->groups[place & (MEASURE_DEPTH - 1)] = group;
	return 0;
}

/* Add the duration NS of a pair to GROUP. */
__noinline int by_add_time(__u32 group, __u64 ns)
{
	const __u32 bucket = measure_bucket_of(ns);
	struct measure_by_times *times = bpf_map_lookup_elem(&by_times, &group);

	if (!times)
		return 0;
	add_atomically(&times->count, 1);
	add_atomically(&times->sum_ns, ns);
	raise_highest(&times->max_ns, ns);
	raise_highest(&times->min_ns_not, ~ns);
	if (bucket < MEASURE_BUCKETS)
		add_atomically(&times->buckets[bucket], 1);
	return 0;
}

/* Add NS, the duration of a pair of KEY that has just ended, to the group of the pair's start. */
__noinline int by_stop(const struct measure_open_key *key, __u64 ns)
{
	struct measure_by_open *open;
	__u32 place, group;

	if (!key)
		return 0;
	place = open_place(key, 1);
	open = bpf_map_lookup_elem(&by_open, key);
	group = key->pair;
	args_keep(place);
	if (open && place < MEASURE_DEPTH)
		group = open->groups[place];
	return by_add_time(group, ns);
}

/* ---- by key --------------------------------------------------------------------------------- */

/*
 * Begin a pair that is matched by key. Store GROUP before the start is stored, so that the stop
 * finds the group. If the start is not stored, remove the group again.
 */
static __always_inline void by_key_start(struct measure_pair *stats,
					 const struct measure_start_key *key, __u32 group,
					 int matches)
{
	if (matches)
		bpf_map_update_elem(&by_key_open, key, &group, 0 /* BPF_ANY */);
	if (!start_by_key(stats, key, matches) && matches)
		bpf_map_delete_elem(&by_key_open, key);
}

static __always_inline void by_key_stop(struct measure_pair *stats,
					const struct measure_start_key *key, __u64 now_ns)
{
	__u32 *found = bpf_map_lookup_elem(&by_key_open, key), group = found ? *found : key->pair;
	const __u64 ended = stop_by_key(stats, key, now_ns);

	bpf_map_delete_elem(&by_key_open, key);
	if (ended)
		by_add_time(group, ended - 1);
}

/*
 * The body of a loop over by_key_open: remove the entry at KEY if it belongs to the process *ENDED.
 */
static long by_end_start(void *map, const struct measure_start_key *key, const __u32 *group,
			 const __u32 *ended)
{
	(void)group;
	if (key->tgid == *ended)
		bpf_map_delete_elem(map, key);
	return 0;
}

static __always_inline void by_end_process(const __u32 *tgid)
{
	bpf_for_each_map_elem(&by_key_open, by_end_start, (void *)tgid, 0);
}

/* ---- calls of functions --------------------------------------------------------------------- */

/* Like play_frame(), but group the durations of the calls by the value of the argument. */
static __always_inline void by_play_frame(const struct measure_role *role, struct pt_regs *regs,
					  const struct site_args *args,
					  const struct measure_site *site,
					  const struct bpf_pidns_info *ids, __u64 now_ns,
					  int matches)
{
	struct measure_frame_key key = {};
	struct measure_pair *stats;
	__u32 group, *found;
	int is_confirmed;
	__u64 ended;

	set_frame_key(&key, role, regs, site, ids);
	stats = bpf_map_lookup_elem(&pair_stats, &key.pair);
	if (!stats || play_confirmation(role, site, &key, &is_confirmed))
		return;
	group = key.pair;
	if (role->flags & MEASURE_ROLE_STOP) {
		found = bpf_map_lookup_elem(&by_frame_open, &key);
		if (found)
			group = *found;
		ended = leave_frame(stats, &key, now_ns, is_confirmed && matches);
		bpf_map_delete_elem(&by_frame_open, &key);
		if (ended)
			by_add_time(group, ended - 1);
		return;
	}
	if (matches) {
		group = by_group((void *)regs, args, key.pair);
		bpf_map_update_elem(&by_frame_open, &key, &group, 0 /* BPF_ANY */);
	}
	enter_frame(stats, &key, matches);
}

/* The body of a loop over by_frame_open: remove the entry at KEY if it is a call of *OWNER. */
static long by_end_call(void *map, const struct measure_frame_key *key, const __u32 *group,
			const __u32 *owner)
{
	(void)group;
	if (key->owner == *owner)
		bpf_map_delete_elem(map, key);
	return 0;
}

/* Remove the groups of the calls of *OWNER, which ends: see end_frames(). */
static __always_inline void by_end_frames(const __u32 *owner)
{
	bpf_for_each_map_elem(&by_frame_open, by_end_call, (void *)owner, 0);
}

/* ---- what a site does ----------------------------------------------------------------------- */

static __always_inline void by_play_thread(const struct measure_role *role,
					   struct measure_pair *stats, struct pt_regs *regs,
					   const struct site_args *args,
					   const struct measure_site *site,
					   const struct bpf_pidns_info *ids,
					   const struct role_key *read, __u64 now_ns, int matches)
{
	struct measure_open_key key = { .tid = ids->pid, .pair = role->pair };
	__u32 group;
	__u64 ended;

	if (role->flags & MEASURE_ROLE_STOP) {
		ended = stop_by_thread(stats, &key, sp_of(regs, site), now_ns);
		if (ended)
			by_stop(&key, ended - 1);
		if (ended)
			compared_stop(role, &key, read);
		return;
	}
	/*
	 * Read the value before the pair starts, so that the pair's time does not include the
	 * reading.
	 */
	group = matches ? by_group((void *)regs, args, key.pair) : key.pair;
	start_by_thread(stats, &key, sp_of(regs, site), matches);
	by_start(&key, group);
	compared_start(role, &key, read);
}

static __always_inline void by_play_key(const struct measure_role *role, struct measure_pair *stats,
					struct pt_regs *regs, const struct site_args *args,
					const struct measure_start_key *key, __u64 now_ns,
					int matches)
{
	if (role->flags & MEASURE_ROLE_STOP)
		by_key_stop(stats, key, now_ns);
	else
		by_key_start(stats, key,
			     matches ? by_group((void *)regs, args, key->pair) : key->pair,
			     matches);
}

/* Like play_roles(), but group the durations by the value of the argument. */
static __always_inline void play_roles_by_value(struct pt_regs *regs, const struct site_args *args,
						const struct measure_site *site,
						const struct bpf_pidns_info *ids, __u64 now_ns,
						int matches)
{
	struct role_key read = { .arg = MEASURE_NO_ARG };

	for (__u32 i = 0; i < MEASURE_MAX_ROLES && i < site->n_roles; i++) {
		__u32 number = site->first_role + i;
		struct measure_role *role = bpf_map_lookup_elem(&roles, &number);
		struct measure_start_key key = { .tgid = ids->tgid };
		struct measure_pair *stats;

		if (!role)
			continue;
		if (config.frames && (role->flags & MEASURE_ROLE_FRAME)) {
			by_play_frame(role, regs, args, site, ids, now_ns, matches);
			continue;
		}
		key.pair = role->pair;
		stats = bpf_map_lookup_elem(&pair_stats, &key.pair);
		if (!stats)
			continue;
		read_role_key(role, regs, args, &read);
		key.value = read.value;
		if (!role_is_keyed(role))
			by_play_thread(role, stats, regs, args, site, ids, &read, now_ns, matches);
		else if (read.is_known)
			by_play_key(role, stats, regs, args, &key, now_ns, matches);
		else
			miss_key(role, stats, matches);
	}
}

/* Remove the entries of by_open of the current thread, which ends. */
static __always_inline void by_end(const struct bpf_pidns_info *ids)
{
	for (__u32 pair = 0; pair < MEASURE_MAX_PAIRS && pair < config.n_pairs; pair++) {
		struct measure_open_key key = { .tid = ids->pid, .pair = pair };

		bpf_map_delete_elem(&by_open, &key);
	}
}

#endif
