/* SPDX-License-Identifier: MIT */
/*
 * The part of measure.bpf.c that reads arguments: filters, histograms, printed hits, and pairs that
 * are matched by an argument instead of by thread.
 */
#ifndef MEASURE_ARGS_BPF_H
#define MEASURE_ARGS_BPF_H

#include "filter.bpf.h"
#include "measure_compared.bpf.h"
#include "measure_floats.bpf.h"
#include "measure_keys.bpf.h"
#include "measure_records.bpf.h"
#include "measure_roles.bpf.h"
#include "site_args.bpf.h"
#ifdef MEASURE_BY
#include "measure_by.bpf.h"
#endif
#ifdef MEASURE_SLOWER
#include "measure_slower.bpf.h"
#endif

const volatile struct filter filter;

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__type(key, __u32);
	__type(value, struct measure_histogram);
	__uint(max_entries, 1);
} histograms SEC(".maps");

/* ---- pairs by argument ---------------------------------------------------------------------- */

#ifdef MEASURE_SLOWER
struct slower_roles {
	struct pt_regs *regs;
	const struct site_args *args;
	const struct measure_site *site;
	const struct bpf_pidns_info *ids;
	__u64 now_ns;
	__u32 number;
	int matches;
	struct measure_start_key key;
	struct role_key read;
};

/* The body of a loop: play role I of the site of R. */
static long play_next_role(__u32 i, struct slower_roles *r)
{
	__u32 place = r->site->first_role + i;
	struct measure_role *role = bpf_map_lookup_elem(&roles, &place);
	struct measure_pair *stats;

	if (!role)
		return 0;
	if (config.frames && (role->flags & MEASURE_ROLE_FRAME)) {
		play_frame_slower(role, r->regs, r->number, r->args, r->site, r->ids, r->now_ns,
				  r->matches);
		return 0;
	}
	read_role_key(role, r->regs, r->args, &r->read);
	if (!role_is_keyed(role)) {
		play_role_slower(role, r->regs, r->number, r->args, r->site, r->ids, &r->read,
				 r->now_ns, r->matches);
		return 0;
	}
	r->key.pair = role->pair;
	r->key.value = r->read.value;
	stats = bpf_map_lookup_elem(&pair_stats, &r->key.pair);
	if (stats && r->read.is_known)
		play_key_slower(role, stats, &r->key, r->regs, r->number, r->args, r->ids,
				r->now_ns, r->matches);
	else if (stats)
		miss_key(role, stats, r->matches);
	return 0;
}

/*
 * Like play_roles_with_args(), but for object measure_slower: also keep the arguments of starts and
 * record slow pairs. This is not a `for` loop, since the verifier would check each of its rounds.
 */
static __always_inline void play_roles_slower(struct pt_regs *regs, __u32 number,
					      const struct site_args *args,
					      const struct measure_site *site,
					      const struct bpf_pidns_info *ids, __u64 now_ns,
					      int matches)
{
	struct slower_roles r = {
		.regs = regs,
		.args = args,
		.site = site,
		.ids = ids,
		.now_ns = now_ns,
		.number = number,
		.matches = matches,
		.key = { .tgid = ids->tgid },
		.read = { .arg = MEASURE_NO_ARG },
	};
	const __u32 n = site->n_roles;

	bpf_loop(n < MEASURE_MAX_ROLES ? n : MEASURE_MAX_ROLES, play_next_role, &r, 0);
}
#elif !defined(MEASURE_BY)
static __always_inline void play_role_by_key(const struct measure_role *role,
					     struct measure_start_key *key,
					     const struct role_key *read, __u64 now_ns, int matches,
					     const struct walk_scratch *stack)
{
	struct measure_pair *stats;

	key->pair = role->pair;
	key->value = read->value;
	stats = bpf_map_lookup_elem(&pair_stats, &key->pair);
	if (!stats)
		return;
	if (!read->is_known)
		miss_key(role, stats, matches);
	else if (role->flags & MEASURE_ROLE_STOP)
		time_stack(role->pair, stack, stop_by_key(stats, key, now_ns));
	else
		start_by_key(stats, key, matches);
}

/*
 * Begin or end the pair of ROLE, which is matched by thread. Also compare the arguments, if ROLE
 * has MEASURE_ROLE_COMPARED.
 */
static __always_inline void play_role_compared(const struct measure_role *role,
					       const struct bpf_pidns_info *ids,
					       const struct role_key *read, __u64 sp, __u64 now_ns,
					       int matches, const struct walk_scratch *stack)
{
	struct measure_open_key key = { .tid = ids->pid, .pair = role->pair };
	struct measure_pair *stats = bpf_map_lookup_elem(&pair_stats, &key.pair);
	__u64 ended;

	if (!stats)
		return;
	if (role->flags & MEASURE_ROLE_STOP) {
		ended = stop_by_thread(stats, &key, sp, now_ns);
		time_stack(role->pair, stack, ended);
		if (ended)
			compared_stop(role, &key, read);
		return;
	}
	start_by_thread(stats, &key, sp, matches);
	compared_start(role, &key, read);
}

/* Like play_roles(), but the pairs may also be matched by an argument, or compare an argument. */
static __always_inline void play_roles_with_args(struct pt_regs *regs, const struct site_args *args,
						 const struct measure_site *site,
						 const struct bpf_pidns_info *ids, __u64 now_ns,
						 int matches, const struct walk_scratch *stack)
{
	struct measure_start_key key = { .tgid = ids->tgid };
	struct role_key read = { .arg = MEASURE_NO_ARG };

	for (__u32 i = 0; i < MEASURE_MAX_ROLES && i < site->n_roles; i++) {
		__u32 number = site->first_role + i;
		struct measure_role *role = bpf_map_lookup_elem(&roles, &number);

		if (!role)
			continue;
		if (config.frames && (role->flags & MEASURE_ROLE_FRAME)) {
			play_frame(role, regs, site, ids, now_ns, matches, stack);
			continue;
		}
		read_role_key(role, regs, args, &read);
		if (role_is_keyed(role))
			play_role_by_key(role, &key, &read, now_ns, matches, stack);
		else if (config.matching & MEASURE_SOME_BY_THREAD)
			play_role_compared(role, ids, &read, sp_of(regs, site), now_ns, matches,
					   stack);
	}
}
#endif

/* The body of a loop over key_open: remove the start at KEY if it belongs to the process *ENDED. */
static long end_start(void *map, const struct measure_start_key *key, const __u64 *value,
		      const __u32 *ended)
{
	struct measure_pair *stats;
	__u32 pair = key->pair;
	__u64 ns = *value;

	if (key->tgid != *ended || bpf_map_delete_elem(map, key))
		return 0;
	stats = bpf_map_lookup_elem(&pair_stats, &pair);
	if (stats && gate.open && !marks_rejected_start(ns))
		add_atomically(&stats->orphan_starts, 1);
	return 0;
}

/*
 * Remove the open starts of process *TGID, which ends: otherwise such starts would fill key_open.
 */
static __always_inline void end_keys(__u32 *tgid)
{
	if (bpf_map_delete_elem(&key_users, tgid) != 0)
		return;
	bpf_for_each_map_elem(&key_open, end_start, tgid, 0);
#ifdef MEASURE_SLOWER
	slow_end_process(tgid);
#endif
#ifdef MEASURE_BY
	by_end_process(tgid);
#endif
}

/* ---- histograms ----------------------------------------------------------------------------- */

static __always_inline void count_number(struct measure_histogram *histogram, __s64 number)
{
	__u64 low = (__u64)number, size = number < 0 ? -low : low;
	__u32 bucket = measure_bucket_of(size);

	add_atomically(&histogram->count, 1);
	add_to_sum(histogram->sum, number);
	raise_highest(&histogram->max, measure_ordered(low));
	raise_highest(&histogram->min_not, ~measure_ordered(low));
	if (bucket >= MEASURE_BUCKETS)
		return;
	add_atomically(number < 0 ? &histogram->below_0[bucket] : &histogram->buckets[bucket], 1);
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
		count_number(histogram, number);
	else if (type == FILTER_TYPE_FLOAT)
		add_float(place, (__u64)number);
	else
		add_atomically(&histogram->not_number, 1);
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

/*
 * Reserve a record with the stack of the hit. S is the stack if it was walked already, else NULL.
 */
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
		add_atomically(&lost->prints_limited, 1);
		return;
	}
	record = reserve_record(ids, stack);
	if (!record) {
		add_atomically(&lost->prints_dropped, 1);
		return;
	}
	/* The time must be taken after the reservation: see engine_bpf_read.c. */
	record->ts_ns = bpf_ktime_get_ns();
	record->pid = ids->tgid;
	record->tid = ids->pid;
	record->site = number;
	bpf_get_current_comm(record->comm, sizeof(record->comm));
	record_values(regs, args, record);
	bpf_ringbuf_submit(record, NO_WAKEUP);
}

/*
 * Return the filter. For the compiler, `filter` is a constant that is all 0; user space sets its
 * value before the load. So hide from the compiler that the pointer is the address of `filter`.
 */
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
		add_atomically(&lost->filtered, 1);
}

static __always_inline void count_mismatch(const struct measure_site *site, __u32 mismatch)
{
	struct measure_losses *lost = our_losses();

	if (!lost)
		return;
	add_atomically(&lost->filter_mismatches, 1);
	lost->last_mismatch = measure_mismatch(site->probe_index, mismatch);
}

/*
 * The bits of judge()'s result: bit 0 is set if the filter matches; the higher bits are
 * filter_mismatch() of a comparison without an answer, or 0.
 */
enum { VERDICT_MATCHES = 1, VERDICT_MISMATCH_SHIFT = 1 };

/*
 * Evaluate the filter. This is a global function, because the verifier checks a global function
 * only once. If it were static, the verifier would follow the code that branches on the result
 * again for every path through the filter.
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
	stack = matches ? take_hit_stack(site, ids) : (void *)0;
	if (matches)
		count_stack(site, stack);
#if defined(MEASURE_SLOWER)
	play_roles_slower(regs, number, args, site, ids, now_ns, matches);
#elif !defined(MEASURE_BY)
	if (config.n_pairs && config.matching == MEASURE_SOME_BY_THREAD)
		play_roles(regs, site, ids, now_ns, matches, stack);
	else if (config.n_pairs)
		play_roles_with_args(regs, args, site, ids, now_ns, matches, stack);
#endif
	if (config.hist_arg != MEASURE_NO_ARG && matches && (site->flags & MEASURE_HISTOGRAM))
		add_to_histogram(regs, args, site);
	if (config.prints && matches && (site->flags & MEASURE_PRINTED))
		print_hit(regs, number, args, ids, stack);
	release_stack(stack);
	return 0;
}

#endif
