/* SPDX-License-Identifier: MIT */
/*
 * Times the calls of functions, from the entry to an exit. An exit is matched with its entry by the
 * frame of the call.
 *
 * A frame is the stack pointer at the entry of the function. At a site behind instructions that
 * have moved the stack pointer, the site's frame_depth is added to undo this. Two active calls of a
 * function in one thread always have different frames. So an exit finds its own entry, also in a
 * deep recursion, and after exceptions have skipped other exits.
 *
 * OCaml 5 runs OCaml code on separate stacks. A stack moves when it grows, and effects switch
 * between stacks. So for a call on such a stack, the frame is made from the number of the stack and
 * the distance of the stack pointer from the stack's base. The owner of this frame is the process
 * instead of the thread, since a fibre may continue in another thread. To find the current stack:
 * while OCaml code runs, r14 points to the domain's state (amd64.S), which has a pointer to the
 * current stack.
 *
 * A call that an exception ends has no exit, so its entry stays open. The entry becomes an orphan
 * when another call has the same frame, or when its owner (the thread, or for a stack of OCaml 5
 * the process) ends.
 */
#ifndef MEASURE_FRAMES_BPF_H
#define MEASURE_FRAMES_BPF_H

#include "measure_pairs.bpf.h"

enum { LRU_HASH = 9 }; /* BPF_MAP_TYPE_LRU_HASH in linux/bpf.h */

/*
 * If an exception ends a call in a fibre that then ends, too, the open entry stays in the map,
 * since no later call has this frame. To make room, this map drops its least recently used entry
 * when it is full. If the dropped entry belongs to an active call, the exit of that call is an
 * orphan.
 */
struct {
	__uint(type, LRU_HASH);
	__type(key, struct measure_frame_key);
	__type(value, __u64);
	__uint(max_entries, 1);
} frame_open SEC(".maps");

/* How many entries of frame_open each owner (measure_frame_key.owner) has. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__type(key, __u32);
	__type(value, __u32);
	__uint(max_entries, 1);
} frame_users SEC(".maps");

static __always_inline __u64 read_word(__u64 at)
{
	__u64 word = 0;

	bpf_probe_read_user(&word, sizeof(word), (const void *)at);
	return word;
}

/* Return rsp at the entry of the function of SITE or, if SITE is a probe, at SITE. */
static __always_inline __u64 sp_of(const struct pt_regs *regs, const struct measure_site *site)
{
	return regs->sp + (__u64)(__s64)site->frame_depth;
}

/* Return the frame of the call that has hit SITE with the registers REGS. */
static __always_inline __u64 frame_of(const struct pt_regs *regs, const struct measure_site *site)
{
	const __u64 sp = sp_of(regs, site);
	__u64 stack;

	if (!(site->flags & MEASURE_OCAML_STACK))
		return sp;
	stack = read_word(regs->r14 + STATE_STACK);
	return read_word(stack + STACK_ID) << 32 | (__u32)(read_word(stack + STACK_HANDLER) - sp);
}

/*
 * Return the counter of OWNER in frame_users, and create it if necessary. Return NULL if
 * frame_users is full.
 */
static __always_inline __u32 *open_frames_of(const __u32 *owner)
{
	__u32 *n = bpf_map_lookup_elem(&frame_users, owner), none = 0;

	if (!n) {
		bpf_map_update_elem(&frame_users, owner, &none, 1 /* BPF_NOEXIST */);
		n = bpf_map_lookup_elem(&frame_users, owner);
	}
	return n;
}

/*
 * Begin the call of KEY. If MATCHES is 0, the filter or a condition rejects the call, or the call
 * is not outermost: store a marker instead of the time. Returns the time that was stored; 0: the
 * call is not timed. Atomicity is not needed, since only one thread at a time can be in a frame. A
 * global function: see add_time().
 */
__noinline __u64 enter_frame(struct measure_pair *stats, const struct measure_frame_key *key,
			     int matches)
{
	__u64 *entered, ns;
	__u32 *n;

	if (!stats || !key)
		return 0;
	if (matches)
		add_atomically(&stats->starts, 1);
	entered = bpf_map_lookup_elem(&frame_open, key);
	if (entered) {
		if (!marks_rejected_start(*entered))
			add_atomically(&stats->orphan_starts, 1);
		ns = matches ? bpf_ktime_get_ns() : MEASURE_MARKER;
		*entered = ns;
		return ns;
	}
	n = open_frames_of(&key->owner);
	ns = matches ? bpf_ktime_get_ns() : MEASURE_MARKER;
	if (n && bpf_map_update_elem(&frame_open, key, &ns, 1 /* BPF_NOEXIST */) == 0) {
		__sync_fetch_and_add(n, 1);
		return ns;
	}
	/*
	 * Even a rejected call counts as a start if there is no room for its marker: without the
	 * marker, its exit will be counted as an orphan.
	 */
	if (!matches)
		add_atomically(&stats->starts, 1);
	add_atomically(&stats->map_full, 1);
	return 0;
}

/*
 * End the call of KEY. If WAS_CALL is 0, forget the call without timing it. Returns the duration of
 * the call plus 1; 0: no timed call ended.
 */
__noinline __u64 leave_frame(struct measure_pair *stats, const struct measure_frame_key *key,
			     __u64 now_ns, int was_call)
{
	__u64 *entered, ns;
	__u32 *n;

	if (!stats || !key)
		return 0;
	entered = bpf_map_lookup_elem(&frame_open, key);
	if (!entered) {
		add_atomically(&stats->orphan_stops, 1);
		return 0;
	}
	ns = *entered;
	bpf_map_delete_elem(&frame_open, key);
	n = bpf_map_lookup_elem(&frame_users, &key->owner);
	if (n)
		__sync_fetch_and_add(n, -1);
	if (marks_rejected_start(ns))
		return 0;
	if (!was_call) {
		add_atomically(&stats->starts, -1ULL);
		return 0;
	}
	count_pair(stats, key->pair, now_ns - ns);
	return now_ns - ns + 1;
}

/*
 * Remove the confirmation for the owner and the pair of KEY. Returns 1 if there was a confirmation,
 * else 0.
 */
__noinline int take_confirmation(const struct measure_frame_key *key)
{
	struct measure_frame_key confirmed = { .frame = CONFIRMED_FRAME };
	__u32 *n;

	if (!key)
		return 0;
	confirmed.owner = key->owner;
	confirmed.pair = key->pair;
	if (bpf_map_delete_elem(&frame_open, &confirmed))
		return 0;
	n = bpf_map_lookup_elem(&frame_users, &confirmed.owner);
	if (n)
		__sync_fetch_and_add(n, -1);
	return 1;
}

static __always_inline void confirm(const struct measure_frame_key *key)
{
	struct measure_frame_key confirmed = { .owner = key->owner,
					       .pair = key->pair,
					       .frame = CONFIRMED_FRAME };
	__u32 *n = open_frames_of(&confirmed.owner);
	__u64 marker = MEASURE_MARKER;

	if (n && bpf_map_update_elem(&frame_open, &confirmed, &marker, 1 /* BPF_NOEXIST */) == 0)
		__sync_fetch_and_add(n, 1);
}

/* Set KEY to the call of the pair of ROLE that has hit SITE with the registers REGS. */
static __always_inline void set_frame_key(struct measure_frame_key *key,
					  const struct measure_role *role, struct pt_regs *regs,
					  const struct measure_site *site,
					  const struct bpf_pidns_info *ids)
{
	key->owner = site->flags & MEASURE_OCAML_STACK ? ids->tgid : ids->pid;
	key->pair = role->pair;
	key->frame = frame_of(regs, site);
}

/*
 * If ROLE confirms the call of KEY, do so and return 1: the hit of SITE does nothing else.
 * Otherwise return 0, and set *IS_CONFIRMED to 0 if the call needs a confirmation and had none: at
 * the exit of a call, the call then has no time. At the entry, this removes a confirmation that an
 * earlier call has left.
 */
static __always_inline int play_confirmation(const struct measure_role *role,
					     const struct measure_site *site,
					     const struct measure_frame_key *key, int *is_confirmed)
{
	*is_confirmed = 1;
	if (!config.conditions)
		return 0;
	if (role->flags & MEASURE_ROLE_CONFIRM) {
		confirm(key);
		return 1;
	}
	if (site->flags & MEASURE_IF_CONFIRMED)
		*is_confirmed = take_confirmation(key);
	return 0;
}

static __always_inline void play_frame(const struct measure_role *role, struct pt_regs *regs,
				       const struct measure_site *site,
				       const struct bpf_pidns_info *ids, __u64 now_ns, int matches,
				       const struct walk_scratch *stack)
{
	struct measure_frame_key key = {};
	struct measure_pair *stats;
	int is_confirmed;

	set_frame_key(&key, role, regs, site, ids);
	stats = bpf_map_lookup_elem(&pair_stats, &key.pair);
	if (!stats || play_confirmation(role, site, &key, &is_confirmed))
		return;
	if (role->flags & MEASURE_ROLE_STOP)
		time_stack(role->pair, stack,
			   leave_frame(stats, &key, now_ns, is_confirmed && matches));
	else
		enter_frame(stats, &key, matches);
}

/*
 * The body of a loop over frame_open: remove the entry at KEY if it belongs to *OWNER, which ends.
 */
static long end_frame(void *map, const struct measure_frame_key *key, const __u64 *value,
		      const __u32 *owner)
{
	struct measure_pair *stats;
	__u32 pair = key->pair;
	__u64 ns = *value;

	if (key->owner != *owner || bpf_map_delete_elem(map, key))
		return 0;
	stats = bpf_map_lookup_elem(&pair_stats, &pair);
	if (stats && gate.open && !marks_rejected_start(ns))
		add_atomically(&stats->orphan_starts, 1);
	return 0;
}

/*
 * When a thread ends, count its open entries as orphans, and remove them. The entries that a
 * process owns (OCaml 5) are removed when its main thread ends, since the id of this thread is the
 * process id. frame_users avoids the loop for most threads, which have no open entry when they end.
 * Returns 0 for these threads, else 1.
 */
static __always_inline int end_frames(__u32 *owner)
{
	__u32 *n = bpf_map_lookup_elem(&frame_users, owner);
	__u32 left;

	if (!n)
		return 0;
	left = *n;
	bpf_map_delete_elem(&frame_users, owner);
	if (!left)
		return 0;
	bpf_for_each_map_elem(&frame_open, end_frame, owner, 0);
	return 1;
}

#endif
