/* SPDX-License-Identifier: MIT */
/*
 * Times the calls of functions, from the entry to an exit. An exit is matched with its entry by the
 * frame of the call.
 *
 * A frame is the stack pointer at the entry of the function. A site may be behind instructions that
 * move the stack pointer; `frame_depth` of the site is added to the stack pointer to undo this. In
 * one thread two calls of a function that are both active have different frames. So an exit finds
 * its own entry, also in a deep recursion, and after exceptions have skipped exits.
 *
 * OCaml 5 runs OCaml code on separate stacks. A stack moves when it grows, and effects switch
 * between stacks. So for a call on such a stack, the frame is the number of the stack and the
 * distance from the base of the stack. This frame belongs to the process instead of the thread,
 * since a fibre may continue in another thread. The runtime keeps the domain's state in r14 while
 * OCaml code runs (amd64.S), and the state has the current stack.
 *
 * A call that an exception ends has no exit, and its entry stays open. It becomes an orphan when
 * another call has the same frame, or when its owner ends: the thread, or with OCaml 5 the process.
 */
#ifndef MEASURE_FRAMES_BPF_H
#define MEASURE_FRAMES_BPF_H

#include "measure_pairs.bpf.h"

/*
 * Offsets of OCaml 5.1 to 5.3, in bytes: Caml_state->current_stack is member 5 of
 * runtime/caml/domain_state.tbl; the others are members of struct stack_info in
 * runtime/caml/fiber.h.
 */
enum { STATE_STACK = 40, STACK_HANDLER = 16, STACK_ID = 48 };

enum { LRU_HASH = 9 }; /* BPF_MAP_TYPE_LRU_HASH in linux/bpf.h */

/*
 * An exception can leave entries that no later call replaces: the entries of fibres that have
 * ended. So this map drops its least recently used entry when it is full, instead of refusing all
 * new entries. If the dropped entry belongs to an active call, the exit of that call is an orphan.
 */
struct {
	__uint(type, LRU_HASH);
	__type(key, struct measure_frame_key);
	__type(value, __u64);
	__uint(max_entries, 1);
} frame_open SEC(".maps");

/* The number of entries in frame_open, by the owner in measure_frame_key. */
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

/* Return the frame of the call that has hit SITE with the registers REGS. */
static __always_inline __u64 frame_of(const struct pt_regs *regs, const struct measure_site *site)
{
	const __u64 sp = regs->sp + (__u64)(__s64)site->frame_depth;
	__u64 stack;

	if (!(site->flags & MEASURE_OCAML_STACK))
		return sp;
	stack = read_word(regs->r14 + STATE_STACK);
	return read_word(stack + STACK_ID) << 32 | (__u32)(read_word(stack + STACK_HANDLER) - sp);
}

/*
 * An entry of frame_open with this frame in its key records that the active call of a pair is
 * confirmed. A thread has at most one confirmed call per pair. The value of the entry is
 * MEASURE_MARKER, so that it does not count as an open call.
 */
#define CONFIRMED_FRAME (~0ULL)

/*
 * Return the counter of open entries of OWNER, and create it if necessary. Return NULL if there is
 * no room.
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
 * Begin the call of KEY. If MATCHES is 0, store a marker instead of the time. Only one thread at a
 * time can be in the frame of KEY. A global function: see add_time().
 */
__noinline int enter_frame(struct measure_pair *stats, const struct measure_frame_key *key,
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
		*entered = matches ? bpf_ktime_get_ns() : MEASURE_MARKER;
		return 0;
	}
	n = open_frames_of(&key->owner);
	ns = matches ? bpf_ktime_get_ns() : MEASURE_MARKER;
	if (n && bpf_map_update_elem(&frame_open, key, &ns, 1 /* BPF_NOEXIST */) == 0) {
		__sync_fetch_and_add(n, 1);
		return 0;
	}
	/*
	 * There is no room for a marker. The exit will be an orphan, so the entry must be counted.
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
 * Remove the confirmation of the active call of the thread and the pair of KEY. Returns 1 if there
 * was one.
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

static __always_inline void play_frame(const struct measure_role *role, struct pt_regs *regs,
				       const struct measure_site *site,
				       const struct bpf_pidns_info *ids, __u64 now_ns, int matches,
				       const struct walk_scratch *stack)
{
	struct measure_frame_key key = {
		.owner = site->flags & MEASURE_OCAML_STACK ? ids->tgid : ids->pid,
		.pair = role->pair,
		.frame = frame_of(regs, site),
	};
	struct measure_pair *stats = bpf_map_lookup_elem(&pair_stats, &key.pair);

	int is_confirmed = 1;

	if (!stats)
		return;
	if (config.conditions && (role->flags & MEASURE_ROLE_CONFIRM)) {
		confirm(&key);
		return;
	}
	/* At an entry, this removes a confirmation that an earlier call has left. */
	if (config.conditions && (site->flags & MEASURE_IF_CONFIRMED))
		is_confirmed = take_confirmation(&key);
	if (role->flags & MEASURE_ROLE_STOP)
		time_stack(role->pair, stack,
			   leave_frame(stats, &key, now_ns, is_confirmed && matches));
	else
		enter_frame(stats, &key, matches);
}

/* The body of a loop: remove an open entry of the owner that ends. */
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
 * When a thread ends, count its open entries as orphans. The entries that belong to a process
 * (OCaml 5) end with the first thread of the process, whose id is the process id. Most threads have
 * no open entry when they end.
 */
static __always_inline void end_frames(__u32 *owner)
{
	__u32 *n = bpf_map_lookup_elem(&frame_users, owner);
	__u32 left;

	if (!n)
		return;
	left = *n;
	bpf_map_delete_elem(&frame_users, owner);
	if (left)
		bpf_for_each_map_elem(&frame_open, end_frame, owner, 0);
}

#endif
