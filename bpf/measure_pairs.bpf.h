/* SPDX-License-Identifier: MIT */
/* Pairs that are matched by thread: see struct measure_open in measure.h. */
#ifndef MEASURE_PAIRS_BPF_H
#define MEASURE_PAIRS_BPF_H

#include "measure_stacks.bpf.h"
#ifdef MEASURE_FULL
#include "measure_domains.bpf.h"
#endif

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__type(key, struct measure_open_key);
	__type(value, struct measure_open);
	__uint(max_entries, 1);
} pair_open SEC(".maps");

/*
 * Add a pair that took NS to STATS. The function is global, because the verifier checks a global
 * function once, but a static function again on every path that calls it. This saves 300 ms each
 * time the programs are loaded.
 */
__noinline int add_time(struct measure_pair *stats, __u64 ns)
{
	__u32 bucket = measure_bucket_of(ns);

	if (!stats)
		return 0;
	add_atomically(&stats->count, 1);
	add_atomically(&stats->sum_ns, ns);
	raise_highest(&stats->max_ns, ns);
	raise_highest(&stats->min_ns_not, ~ns);
	if (bucket < MEASURE_BUCKETS)
		add_atomically(&stats->buckets[bucket], 1);
	return 0;
}

/*
 * Count a pair that took NS in STATS and, if calls are split by domain, in the statistics of the
 * domain.
 */
static __always_inline void count_pair(struct measure_pair *stats, __u32 pair, __u64 ns)
{
	add_time(stats, ns);
#ifdef MEASURE_FULL
	if (config.domain_id)
		add_time(pair_of_domain(pair), ns);
#else
	(void)pair;
#endif
}

/* Return 1 if NS marks a start that does not count: see enter_frame(). */
static __always_inline int marks_rejected_start(__u64 ns)
{
	return (config.filters || config.conditions || config.outermost) && ns == MEASURE_MARKER;
}

/* The initial value of an entry of pair_open. It is too large for the stack of a BPF program. */
static const struct measure_open nothing_open;

static __always_inline struct measure_open *open_starts(const struct measure_open_key *key)
{
	struct measure_open *open = bpf_map_lookup_elem(&pair_open, key);

	if (!open) {
		bpf_map_update_elem(&pair_open, key, &nothing_open, 1 /* BPF_NOEXIST */);
		open = bpf_map_lookup_elem(&pair_open, key);
	}
	return open;
}

/* Return the open start of age AGE. The age of a start is the number of newer starts. */
static __always_inline struct measure_start *start_of(struct measure_open *open, __u32 age)
{
	return &open->ring[(open->next - 1 - age) & (MEASURE_DEPTH - 1)];
}

/*
 * Return the number of rejected starts among the N newest starts. A global function: see
 * add_time().
 */
__noinline int count_markers(struct measure_open *open, __u32 n)
{
	int markers = 0;

	if (!open)
		return 0;
	for (__u32 age = 0; age < MEASURE_DEPTH && age < n; age++)
		markers += marks_rejected_start(start_of(open, age)->ns);
	return markers;
}

/*
 * Return the age of the newest start with stack pointer SP, or 0, the age of the newest start, if
 * no start has this stack pointer. A global function: see add_time().
 */
__noinline int find_frame(struct measure_open *open, __u64 sp)
{
	if (!open)
		return 0;
	for (__u32 age = 0; age < MEASURE_DEPTH && age < open->n; age++)
		if (start_of(open, age)->sp == sp)
			return (int)age;
	return 0;
}

/*
 * Return the index in the ring of the newest open start of KEY or, if HAS_ENDED is 1, of the start
 * that a stop has just ended. Return MEASURE_DEPTH if pair_open lacks KEY.
 */
static __always_inline __u32 open_place(const struct measure_open_key *key, __u32 has_ended)
{
	struct measure_open *open = bpf_map_lookup_elem(&pair_open, key);

	return open ? (open->next - 1 + has_ended) & (MEASURE_DEPTH - 1) : MEASURE_DEPTH;
}

/* Count the N newest starts as orphans. */
static __always_inline void orphan_newest(struct measure_pair *stats, struct measure_open *open,
					  __u32 n)
{
	add_atomically(&stats->orphan_starts, n - (__u32)count_markers(open, n));
	open->n -= n;
	open->next -= n;
}

static __always_inline void start_by_thread(struct measure_pair *stats,
					    const struct measure_open_key *key, __u64 sp,
					    int matches)
{
	struct measure_open *open = open_starts(key);
	struct measure_start *start;

	/*
	 * Even a rejected start counts if there is no room for its marker: without the marker, its
	 * stop will be counted as an orphan.
	 */
	if (matches || !open)
		add_atomically(&stats->starts, 1);
	if (!open) {
		add_atomically(&stats->map_full, 1);
		return;
	}
	if (open->n < config.depth)
		open->n++;
	else if (!marks_rejected_start(start_of(open, open->n - 1)->ns))
		add_atomically(&stats->orphan_starts, 1);
	open->next++;
	start = start_of(open, 0);
	start->sp = sp;
	start->ns = matches ? bpf_ktime_get_ns() : MEASURE_MARKER;
}

/*
 * End the open start that a stop with stack pointer SP belongs to: see struct measure_open. Returns
 * the duration of the pair plus 1, or 0 if no pair ended.
 */
static __always_inline __u64 stop_by_thread(struct measure_pair *stats,
					    const struct measure_open_key *key, __u64 sp,
					    __u64 now_ns)
{
	struct measure_open *open = bpf_map_lookup_elem(&pair_open, key);
	__u32 n_skipped;
	__u64 ns;

	if (!open || !open->n) {
		add_atomically(&stats->orphan_stops, 1);
		return 0;
	}
	if (open->n > 1 && start_of(open, 0)->sp != sp) {
		n_skipped = (__u32)find_frame(open, sp);
		if (n_skipped)
			orphan_newest(stats, open, n_skipped);
	}
	ns = start_of(open, 0)->ns;
	open->n--;
	open->next--;
	if (marks_rejected_start(ns))
		return 0;
	count_pair(stats, key->pair, now_ns - ns);
	return now_ns - ns + 1;
}

static __always_inline void play_role(const struct measure_role *role,
				      const struct bpf_pidns_info *ids, __u64 sp, __u64 now_ns,
				      int matches, const struct walk_scratch *stack)
{
	struct measure_open_key key = { .tid = ids->pid, .pair = role->pair };
	struct measure_pair *stats = bpf_map_lookup_elem(&pair_stats, &key.pair);

	if (!stats)
		return;
	if (role->flags & MEASURE_ROLE_STOP)
		time_stack(role->pair, stack, stop_by_thread(stats, &key, sp, now_ns));
	else
		start_by_thread(stats, &key, sp, matches);
}

#endif
