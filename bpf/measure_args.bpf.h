/* SPDX-License-Identifier: MIT */
/*
 * The part of measure.bpf.c that reads arguments: filters, histograms, printed hits, and pairs that
 * are matched by an argument instead of by thread.
 *
 * Keys. An entry of key_open is one open start. The program that deletes the entry counts it: a
 * stop counts a pair; a later start with the same key and the end of the process count an orphan
 * start. So the counters are exact even if several threads use a key at the same moment. In this
 * case it is undefined which start a stop belongs to, and only the time may be that of another
 * start.
 *
 * Printing. The time of a record is taken after its room is reserved: a record for which the reader
 * sees no reservation is newer than the moment of reading. The reader polls; it is not woken up.
 */
#ifndef MEASURE_ARGS_BPF_H
#define MEASURE_ARGS_BPF_H

#include "filter.bpf.h"
#include "measure_floats.bpf.h"
#include "measure_roles.bpf.h"
#include "site_args.bpf.h"
#ifdef MEASURE_BY
#include "measure_by.bpf.h"
#endif

enum {
	KEY_TRIES = 4,
	WINDOW_TRIES = 8,
	NS_A_SECOND = 1000000000,
	ERROR_EXISTS = -17,
	NO_WAKEUP = 1, /* BPF_RB_NO_WAKEUP */
};

const volatile struct filter filter;

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__type(key, __u32);
	__type(value, struct measure_histogram);
	__uint(max_entries, 1);
} histograms SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__type(key, __u32);
	__type(value, __u32);
	__uint(max_entries, 1);
} key_users SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 4096);
} prints SEC(".maps");

/* The current second in 32 bits, and the number of records printed in it in 32 bits. */
volatile __u64 print_window;

/* ---- limit ------------------------------------------------------------------------------------ */

/* True if another record may be made in the second of NS. Some are refused if many compete. */
static __always_inline int is_within_limit(__u64 ns)
{
	const __u64 second = ns / NS_A_SECOND & 0xffffffff;

	for (int i = 0; i < WINDOW_TRIES; i++) {
		__u64 seen = print_window;

		if (seen >> 32 >= second)
			return (__sync_fetch_and_add(&print_window, 1) & 0xffffffff) <
			       config.print_limit;
		if (__sync_val_compare_and_swap(&print_window, seen, second << 32 | 1) == seen)
			return 1;
	}
	return 0;
}

/* ---- pairs by argument ---------------------------------------------------------------------- */

/*
 * Record that the process may have open starts, to find them when it ends. 0 if there is no room.
 */
static __always_inline int is_key_user(const __u32 *tgid)
{
	__u32 one = 1;

	if (bpf_map_lookup_elem(&key_users, tgid))
		return 1;
	return bpf_map_update_elem(&key_users, tgid, &one, 0 /* BPF_ANY */) == 0;
}

/*
 * Remove the open start of KEY, and set *NS to its time or MEASURE_MARKER. Returns 0 if KEY has no
 * open start, else 1.
 */
static __always_inline int take_start(const struct measure_start_key *key, __u64 *ns)
{
	__u64 *slot = bpf_map_lookup_elem(&key_open, key);

	if (!slot)
		return 0;
	*ns = *(volatile __u64 *)slot;
	return bpf_map_delete_elem(&key_open, key) == 0;
}

/*
 * A start replaces an open start with the same key. Returns its time; 0: it is not open, or it was
 * rejected.
 */
static __always_inline __u64 start_by_key(struct measure_pair *stats,
					  const struct measure_start_key *key, int matches)
{
	long err = is_key_user(&key->tgid) ? ERROR_EXISTS : 0;
	__u64 ns = 0, old_ns = 0;

	if (!err) {
		add(&stats->starts, 1);
		add(&stats->map_full, 1);
		return 0;
	}
	if (matches)
		add(&stats->starts, 1);
	for (int i = 0; err == ERROR_EXISTS && i < KEY_TRIES; i++) {
		if (take_start(key, &old_ns) && !is_marker(old_ns))
			add(&stats->orphan_starts, 1);
		ns = matches ? bpf_ktime_get_ns() : MEASURE_MARKER;
		err = bpf_map_update_elem(&key_open, key, &ns, 1 /* BPF_NOEXIST */);
	}
	if (!err)
		return ns;
	/* Other threads keep starting with this key: their starts have replaced this one. */
	if (err == ERROR_EXISTS) {
		if (matches)
			add(&stats->orphan_starts, 1);
		return 0;
	}
	if (!matches)
		add(&stats->starts, 1);
	add(&stats->map_full, 1);
	return 0;
}

/* Returns the time plus 1; 0: no pair ended. */
static __always_inline __u64 stop_by_key(struct measure_pair *stats,
					 const struct measure_start_key *key, __u64 now_ns)
{
	__u64 ns = 0;

	if (!take_start(key, &ns)) {
		add(&stats->orphan_stops, 1);
		return 0;
	}
	if (is_marker(ns))
		return 0;
	ns = now_ns > ns ? now_ns - ns : 0;
	add_time(stats, ns);
	return ns + 1;
}

#ifdef MEASURE_SLOWER
#include "measure_slower.bpf.h"
#endif

static __always_inline void play_role_by_key(const struct measure_role *role,
					     struct measure_start_key *key, int has_key,
					     __u64 now_ns, int matches,
					     const struct walk_scratch *stack)
{
	const int is_stop = (role->flags & MEASURE_ROLE_STOP) != 0;
	struct measure_pair *stats;

	key->pair = role->pair;
	stats = bpf_map_lookup_elem(&pair_stats, &key->pair);
	if (!stats)
		return;
	if (has_key && is_stop) {
		time_stack(role->pair, stack, stop_by_key(stats, key, now_ns));
	} else if (has_key) {
		start_by_key(stats, key, matches);
	} else if (is_stop) {
		add(&stats->orphan_stops, 1);
	} else if (matches) {
		add(&stats->starts, 1);
		add(&stats->not_keyed, 1);
	}
}

#ifdef MEASURE_SLOWER
/* The same for all pairs, by thread or key, in object measure_slower. No calls of functions. */
static __always_inline void play_roles_slower(struct pt_regs *regs, __u32 number,
					      const struct site_args *args,
					      const struct measure_site *site,
					      const struct bpf_pidns_info *ids, __u64 now_ns,
					      int matches)
{
	const int by_key = config.key_arg != MEASURE_NO_ARG;
	struct measure_start_key key = { .tgid = ids->tgid };
	int has_key = 0;

	if (by_key && site->n_roles)
		has_key = arg_key(regs, &args->args[config.key_arg & (ARGS_ALL - 1)], &key.value);
	for (__u32 i = 0; i < MEASURE_MAX_ROLES && i < site->n_roles; i++) {
		__u32 place = site->first_role + i;
		struct measure_role *role = bpf_map_lookup_elem(&roles, &place);
		struct measure_pair *stats;

		if (!role)
			continue;
		if (!by_key) {
			play_role_slower(role, regs, number, args, ids, now_ns, matches);
			continue;
		}
		key.pair = role->pair;
		stats = bpf_map_lookup_elem(&pair_stats, &key.pair);
		if (stats && has_key)
			play_key_slower(role, stats, &key, regs, number, args, ids, now_ns,
					matches);
		else
			play_role_by_key(role, &key, 0, now_ns, matches, (void *)0);
	}
}
#else
static __always_inline void play_roles_by_key(struct pt_regs *regs, const struct site_args *args,
					      const struct measure_site *site,
					      const struct bpf_pidns_info *ids, __u64 now_ns,
					      int matches, const struct walk_scratch *stack)
{
	struct measure_start_key key = { .tgid = ids->tgid };
	int has_key;

	if (!site->n_roles)
		return;
	has_key = arg_key(regs, &args->args[config.key_arg & (ARGS_ALL - 1)], &key.value);
	for (__u32 i = 0; i < MEASURE_MAX_ROLES && i < site->n_roles; i++) {
		__u32 number = site->first_role + i;
		struct measure_role *role = bpf_map_lookup_elem(&roles, &number);

		if (!role)
			continue;
		if (config.frames && (role->flags & MEASURE_ROLE_FRAME))
			play_frame(role, regs, site, ids, now_ns, matches, stack);
		else
			play_role_by_key(role, &key, has_key, now_ns, matches, stack);
	}
}
#endif

/* The body of a loop: remove an open start of the process that has ended. */
static long end_start(void *map, const struct measure_start_key *key, const __u64 *value,
		      const __u32 *ended)
{
	struct measure_pair *stats;
	__u32 pair = key->pair;
	__u64 ns = *value;

	if (key->tgid != *ended || bpf_map_delete_elem(map, key))
		return 0;
	stats = bpf_map_lookup_elem(&pair_stats, &pair);
	if (stats && gate.open && !is_marker(ns))
		add(&stats->orphan_starts, 1);
	return 0;
}

/* A process ends: remove its starts, which would fill the map. */
static __always_inline void end_keys(__u32 *tgid)
{
	if (bpf_map_delete_elem(&key_users, tgid) != 0)
		return;
	bpf_for_each_map_elem(&key_open, end_start, tgid, 0);
#ifdef MEASURE_SLOWER
	slow_end_process(tgid);
#endif
}

/* ---- histograms ----------------------------------------------------------------------------- */

static __always_inline void add_number(struct measure_histogram *histogram, __s64 number)
{
	__u64 low = (__u64)number, size = number < 0 ? -low : low;
	__u32 bucket = measure_bucket_of(size);

	add(&histogram->count, 1);
	add_to_sum(histogram->sum, number);
	raise_to(&histogram->max, measure_ordered(low));
	raise_to(&histogram->min_not, ~measure_ordered(low));
	if (bucket >= MEASURE_BUCKETS)
		return;
	add(number < 0 ? &histogram->below_0[bucket] : &histogram->buckets[bucket], 1);
}

static __always_inline void add_to_histogram(struct pt_regs *regs, const struct site_args *args,
					     const struct measure_site *site)
{
	__u32 place = site->histogram;
	struct measure_histogram *histogram = bpf_map_lookup_elem(&histograms, &place);
	__s64 number;
	int type;

	if (!histogram)
		return;
	type = arg_number(regs, &args->args[config.hist_arg & (ARGS_ALL - 1)], &number);
	if (type == FILTER_TYPE_INT)
		add_number(histogram, number);
	else if (type == FILTER_TYPE_FLOAT)
		add_float(place, (__u64)number);
	else
		add(&histogram->not_number, 1);
}

/* ---- printing ------------------------------------------------------------------------------- */

#ifdef MEASURE_STACKS
static __always_inline void print_stack(struct measure_stack_record *record,
					const struct walk_scratch *s)
{
	const __u32 depth = config.stack_depth;
	__u32 n = s ? s->stack.n : 0;

	record->end = s ? s->stack.end : WALK_BUSY;
	if (n > depth)
		n = depth;
	record->n = n;
	if (s)
		bpf_probe_read_kernel(record->frames, n * sizeof(*record->frames), s->stack.frames);
}

/* S is the stack of the hit, if it is known already. */
static __always_inline struct hit_record *reserve_record(const struct bpf_pidns_info *ids,
							 const struct walk_scratch *s)
{
	struct measure_stack_record *record =
		bpf_ringbuf_reserve(&prints, measure_stack_record_bytes(config.stack_depth), 0);
	struct walk_scratch *own;

	if (!record)
		return (void *)0;
	if (s) {
		print_stack(record, s);
		return &record->hit;
	}
	own = walk_hit(ids, 0, 0);
	print_stack(record, own);
	release_stack(own);
	return &record->hit;
}
#else
static __always_inline struct hit_record *reserve_record(const struct bpf_pidns_info *ids,
							 const struct walk_scratch *s)
{
	(void)ids;
	(void)s;
	return bpf_ringbuf_reserve(&prints, sizeof(struct hit_record), 0);
}
#endif

static __always_inline void print_hit(struct pt_regs *regs, __u32 number,
				      const struct site_args *args,
				      const struct bpf_pidns_info *ids,
				      const struct walk_scratch *stack)
{
	struct measure_losses *lost = our_losses();
	struct hit_record *record;

	if (!lost)
		return;
	if (config.print_limit && !is_within_limit(bpf_ktime_get_ns())) {
		add(&lost->prints_limited, 1);
		return;
	}
	record = reserve_record(ids, stack);
	if (!record) {
		add(&lost->prints_dropped, 1);
		return;
	}
	/* The time must be taken after the reservation: see engine_bpf_print.c. */
	record->ts_ns = bpf_ktime_get_ns();
	record->pid = ids->tgid;
	record->tid = ids->pid;
	record->site = number;
	record_values(regs, args, record);
	bpf_ringbuf_submit(record, NO_WAKEUP);
}

/* Hides from the compiler that the filter is all zeros before the load. */
static __always_inline const struct filter *the_filter(void)
{
	const struct filter *hidden = (const struct filter *)&filter;

	args_keep(hidden);
	return hidden;
}

/* ---- the hit -------------------------------------------------------------------------------- */

static __always_inline void count_match(__u32 number, int matches)
{
	struct measure_losses *lost;

	if (matches) {
		count_hit(number);
		return;
	}
	lost = our_losses();
	if (lost)
		add(&lost->filtered, 1);
}

static __always_inline void count_mismatch(const struct measure_site *site, __u32 mismatch)
{
	struct measure_losses *lost = our_losses();

	if (!lost)
		return;
	add(&lost->filter_mismatches, 1);
	lost->last_mismatch = measure_mismatch(site->probe_index, mismatch);
}

/* The verdict of the filter is in the lowest bit, and the mismatch in the bits above. */
enum { VERDICT_MATCHES = 1, VERDICT_MISMATCH_SHIFT = 1 };

/*
 * A global function, so that code that branches on the verdict does not make the verifier follow
 * every path through the filter again.
 */
__noinline __u64 judge(bpf_user_pt_regs_t *regs, const struct site_args *args)
{
	__u32 mismatch = 0;
	__u64 matches;

	if (!args)
		return 0;
	matches = (__u64)filter_matches(regs, args, the_filter(), &mismatch);
	return (__u64)mismatch << VERDICT_MISMATCH_SHIFT | (matches & VERDICT_MATCHES);
}

static __always_inline int hit_with_args(struct pt_regs *regs, __u32 number,
					 const struct measure_site *site,
					 const struct bpf_pidns_info *ids, __u64 now_ns)
{
	__u32 place = site->args;
	struct site_args *args = bpf_map_lookup_elem(&site_args, &place);
	struct walk_scratch *stack;
	__u32 mismatch = 0;
	int matches = 1;

	if (!args)
		return 0;
	if (config.filters && (site->flags & MEASURE_FILTERED)) {
		const __u64 verdict = judge(regs, args);

		matches = verdict & VERDICT_MATCHES;
		mismatch = (__u32)(verdict >> VERDICT_MISMATCH_SHIFT);
	}
	count_match(number, matches);
	if (mismatch)
		count_mismatch(site, mismatch);
	if (config.keyed_by != MEASURE_UNKEYED && matches && (site->flags & MEASURE_KEYED))
		count_keyed(site, ids);
#ifdef MEASURE_BY
	if (matches && (site->flags & MEASURE_GROUPED))
		by_count((void *)regs, args, site->probe_index);
	if (config.n_pairs)
		play_roles_by_value(regs, args, site, ids, now_ns, matches);
#endif
	stack = matches ? take_stack(site, ids) : (void *)0;
	if (matches)
		count_stack(site, stack);
#if defined(MEASURE_SLOWER)
	play_roles_slower(regs, number, args, site, ids, now_ns, matches);
#elif !defined(MEASURE_BY)
	if (config.n_pairs && config.key_arg == MEASURE_NO_ARG)
		play_roles(regs, site, ids, now_ns, matches, stack);
	else if (config.n_pairs)
		play_roles_by_key(regs, args, site, ids, now_ns, matches, stack);
#endif
	if (config.hist_arg != MEASURE_NO_ARG && matches && (site->flags & MEASURE_HISTOGRAM))
		add_to_histogram(regs, args, site);
	if (config.prints && matches && (site->flags & MEASURE_PRINTED))
		print_hit(regs, number, args, ids, stack);
	release_stack(stack);
	return 0;
}

#endif
