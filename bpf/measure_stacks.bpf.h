/* SPDX-License-Identifier: MIT */
/*
 * The stacks of hits, in object measure_stacks. The other objects have no code for them.
 *
 * For a hit that is counted, timed or printed, the program walks the stack once. Hits and times are
 * counted under the hash of the stack, which is also the key under which the stack is stored. The
 * record of a printed hit contains the frames themselves, so that they are not lost if the store is
 * full.
 */
#ifndef MEASURE_STACKS_BPF_H
#define MEASURE_STACKS_BPF_H

#include "measure_core.bpf.h"

struct walk_scratch; /* contains the stack of a hit; see walk.h */

#ifdef MEASURE_STACKS
#include "measure_stacks.h"
#include "stacks.bpf.h"

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__type(key, struct measure_stack_key);
	__type(value, struct measure_stack_count);
	__uint(max_entries, MEASURE_MAX_STACK_COUNTS);
} stack_counts SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__type(key, __u32);
	__type(value, struct measure_walk_costs);
	__uint(max_entries, 1);
} walk_costs SEC(".maps");

static __always_inline struct measure_walk_costs *our_walk_costs(void)
{
	__u32 zero = 0;

	return bpf_map_lookup_elem(&walk_costs, &zero);
}

/*
 * Walk the stack of a hit into S, and store it if IS_KEPT. If the stack cannot be stored, set
 * s->stack.hash to MEASURE_STACK_LOST. A global function: see add_time().
 */
__noinline int walk_stack_of_hit(struct walk_scratch *s, __u32 tgid, __u32 is_kept, __u32 is_return)
{
	struct measure_walk_costs *costs = our_walk_costs();
	const __u64 begin_ns = bpf_ktime_get_ns();
	struct stack_losses *lost;
	__u32 zero = 0;

	lost = bpf_map_lookup_elem(&stack_losses, &zero);
	if (!s || !lost || !costs)
		return 0;
	walk_user(s, tgid, config.stack_depth, is_return);
	if (s->stack.end < WALK_ENDS)
		add_atomically(&lost->ended[s->stack.end], 1);
	if (is_kept && keep_stack(&s->stack, lost))
		s->stack.hash = MEASURE_STACK_LOST;
	add_atomically(&costs->walks, 1);
	add_atomically(&costs->ns, bpf_ktime_get_ns() - begin_ns);
	return 0;
}

/*
 * Walk the stack of a hit. Return the slot of working memory that contains the stack, or NULL if no
 * slot is free. The caller frees the slot with release_stack().
 */
static __always_inline struct walk_scratch *walk_hit(const struct bpf_pidns_info *ids,
						     __u32 is_kept, __u32 is_return)
{
	struct walk_scratch *s = walk_take();
	struct stack_losses *lost;
	__u32 zero = 0;

	if (s) {
		walk_stack_of_hit(s, ids->tgid, is_kept, is_return);
		return s;
	}
	lost = bpf_map_lookup_elem(&stack_losses, &zero);
	if (lost)
		add_atomically(&lost->ended[WALK_BUSY], 1);
	return s;
}

/* Like walk_hit(), for a hit that is counted or may end a pair. Return NULL for other hits. */
static __always_inline struct walk_scratch *take_hit_stack(const struct measure_site *site,
							   const struct bpf_pidns_info *ids)
{
	return site->flags & (MEASURE_KEYED | MEASURE_STOPS)
		       ? walk_hit(ids, 1, site->flags & MEASURE_RETURN)
		       : (void *)0;
}

static __always_inline void release_stack(struct walk_scratch *s)
{
	if (s)
		walk_release(s);
}

/*
 * A call of a function of FUNCTION_BYTES bytes begins, BEFORE bytes behind the start of the
 * function. Walk the stack by means of S until a function of the same code is found. Returns 1 if
 * no such function is found, so that the call is outermost. A global function: see add_time().
 */
__noinline int walk_to_outermost(struct walk_scratch *s, __u32 tgid, __u32 function_bytes,
				 __u32 before)
{
	struct measure_walk_costs *costs = our_walk_costs();
	const __u64 begin_ns = bpf_ktime_get_ns();
	int is_outermost;

	if (!s || !costs)
		return 0;
	s->function_bytes = function_bytes;
	s->function_before = before;
	walk_user(s, tgid, WALK_MAX_DEPTH, 0);
	is_outermost = !s->is_nested && s->stack.end == WALK_COMPLETE;
	if (!s->is_nested && !is_outermost)
		add_atomically(&costs->unknown_calls, 1);
	add_atomically(&costs->walks, 1);
	add_atomically(&costs->ns, bpf_ktime_get_ns() - begin_ns);
	return is_outermost;
}

/* Return 1 if the call that begins at SITE is outermost. */
static __always_inline int is_outermost_call(const struct measure_site *site,
					     const struct bpf_pidns_info *ids)
{
	struct walk_scratch *s = walk_take();
	struct measure_walk_costs *costs;
	int is_outermost;

	if (!s) {
		costs = our_walk_costs();
		if (costs)
			add_atomically(&costs->unknown_calls, 1);
		return 0;
	}
	is_outermost = walk_to_outermost(s, ids->tgid, site->function_bytes, site->function_before);
	walk_release(s);
	return is_outermost;
}

/*
 * Return 1 if only outermost calls count, and the call that begins at SITE is not outermost. Such
 * calls count as filtered.
 */
static __always_inline int is_inner_call(const struct measure_site *site,
					 const struct bpf_pidns_info *ids)
{
	struct measure_losses *lost;

	if (!config.outermost || !site->function_bytes || is_outermost_call(site, ids))
		return 0;
	lost = our_losses();
	if (lost)
		add_atomically(&lost->filtered, 1);
	return 1;
}

static __always_inline struct measure_stack_count *
count_of_stack(const struct measure_stack_key *key)
{
	struct measure_stack_count *count = bpf_map_lookup_elem(&stack_counts, key), none = {};
	struct measure_walk_costs *costs;

	if (count)
		return count;
	bpf_map_update_elem(&stack_counts, key, &none, 1 /* BPF_NOEXIST */);
	count = bpf_map_lookup_elem(&stack_counts, key);
	costs = count ? (void *)0 : our_walk_costs();
	if (costs)
		add_atomically(&costs->counts_full, 1);
	return count;
}

/* Count a hit with stack S. */
static __always_inline void count_stack(const struct measure_site *site,
					const struct walk_scratch *s)
{
	const struct measure_stack_key key = { .stack = s ? s->stack.hash : MEASURE_STACK_LOST,
					       .what = site->probe_index };
	struct measure_stack_count *count;

	if (!(site->flags & MEASURE_KEYED))
		return;
	count = count_of_stack(&key);
	if (count)
		add_atomically(&count->n, 1);
}

/*
 * A hit with stack S may have ended a pair with the number PAIR. If so, add the duration of the
 * pair to the durations for S. ENDED is the duration plus 1, or 0 if no pair ended.
 */
static __always_inline void time_stack(__u32 pair, const struct walk_scratch *s, __u64 ended)
{
	const struct measure_stack_key key = { .stack = s ? s->stack.hash : MEASURE_STACK_LOST,
					       .what = MEASURE_STACK_PAIR | pair };
	struct measure_stack_count *count = ended ? count_of_stack(&key) : (void *)0;

	if (!count)
		return;
	add_atomically(&count->n, 1);
	add_atomically(&count->sum_ns, ended - 1);
	raise_highest(&count->max_ns, ended - 1);
}
#else
static __always_inline struct walk_scratch *take_hit_stack(const struct measure_site *site,
							   const struct bpf_pidns_info *ids)
{
	(void)site;
	(void)ids;
	return (void *)0;
}

static __always_inline void release_stack(struct walk_scratch *s)
{
	(void)s;
}

static __always_inline int is_inner_call(const struct measure_site *site,
					 const struct bpf_pidns_info *ids)
{
	(void)site;
	(void)ids;
	return 0;
}

static __always_inline void count_stack(const struct measure_site *site,
					const struct walk_scratch *s)
{
	(void)site;
	(void)s;
}

static __always_inline void time_stack(__u32 pair, const struct walk_scratch *s, __u64 ended)
{
	(void)pair;
	(void)s;
	(void)ended;
}
#endif

#endif
