/* SPDX-License-Identifier: MIT */
/*
 * Slow pairs: pairs that took config.slower_ns or longer are recorded with the arguments of start
 * and stop.
 *
 * Whether a pair is slow is known only at its stop. So each start keeps its arguments in an entry
 * of slow_open until the stop. A start fills in its entry before it reads the time, so that this
 * work does not count as time of the pair, and stores the time in the entry last. A stop uses an
 * entry only if the time in the entry is the time of the start that the stop ends.
 *
 * If a pair is matched by thread, there is one entry for each place in the thread's ring of open
 * starts; the entry is reused by later starts at this place, and removed when the thread ends. If a
 * pair is matched by key, the stop removes the entry. So does the exit of a call of a function; the
 * entry of a call that an exception ends is reused by the next call with the same frame, or removed
 * with the open call (end_frames()).
 *
 * Several threads may use a key at the same moment, so a thread locks an entry to read or write it.
 * A thread that does not get the lock at once continues without the arguments. A removed entry
 * stays locked. Between the lookup and the locking of an entry, the entry may be removed and its
 * memory reused for another entry; so after locking, the thread compares the key.
 */
#ifndef MEASURE_SLOWER_BPF_H
#define MEASURE_SLOWER_BPF_H

#include "measure_compared.bpf.h"
#include "measure_keys.bpf.h"
#include "measure_records.bpf.h"
#include "measure_roles.bpf.h"
#include "measure_slower.h"
#include "site_args.bpf.h"

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__type(key, struct slow_key);
	__type(value, struct slow_start);
	__uint(max_entries, 1);
} slow_open SEC(".maps");

/* The initial value of an entry of slow_open. */
static const struct slow_start no_slow_start;

static __always_inline int slow_is_free(const struct slow_start *start)
{
	return !start->key.owner;
}

static __always_inline int slow_is_of(const struct slow_start *start, const struct slow_key *key)
{
	return start->key.owner == key->owner && start->key.pair == key->pair &&
	       start->key.value == key->value;
}

static __always_inline void slow_unlock(struct slow_start *start)
{
	__sync_val_compare_and_swap(&start->is_locked, 1, 0);
}

/* Lock the entry of KEY. Returns NULL if KEY has no entry, or if another thread has locked it. */
static __always_inline struct slow_start *slow_lock(const struct slow_key *key)
{
	struct slow_start *start = bpf_map_lookup_elem(&slow_open, key);

	if (!start || __sync_val_compare_and_swap(&start->is_locked, 0, 1) != 0)
		return (void *)0;
	if (slow_is_free(start) || slow_is_of(start, key))
		return start;
	slow_unlock(start);
	return (void *)0;
}

/* Fill HIT with the arguments ARGS of the current hit. A global function: see add_time(). */
__noinline int slow_record_hit(bpf_user_pt_regs_t *regs, const struct site_args *args,
			       struct hit_record *hit)
{
	if (!args || !hit)
		return 0;
	return record_values((struct pt_regs *)regs, args, hit);
}

/*
 * Store the arguments of a start in the entry of KEY in slow_open. Call this before reading the
 * time of the start, so that the pair's time does not include this work. Returns the entry, which
 * stays locked until slow_began(), or NULL if the entry could not be made or locked.
 */
static __always_inline struct slow_start *slow_begin(struct pt_regs *regs, __u32 number,
						     const struct site_args *args,
						     const struct bpf_pidns_info *ids,
						     const struct slow_key *key)
{
	struct slow_start *start;

	if (!bpf_map_lookup_elem(&slow_open, key))
		bpf_map_update_elem(&slow_open, key, &no_slow_start, 1 /* BPF_NOEXIST */);
	start = slow_lock(key);
	if (!start)
		return start;
	*(volatile __u64 *)&start->ns = 0;
	start->key = *key;
	start->hit.pid = ids->tgid;
	start->hit.tid = ids->pid;
	start->hit.site = number;
	bpf_get_current_comm(start->hit.comm, sizeof(start->hit.comm));
	slow_record_hit((bpf_user_pt_regs_t *)regs, args, &start->hit);
	return start;
}

/*
 * Store NS, the time of the start, in the entry START and unlock the entry. NS is 0 if the start
 * could not be stored. START may be NULL.
 */
static __always_inline void slow_began(struct slow_start *start, __u64 ns)
{
	if (!start)
		return;
	*(volatile __u64 *)&start->ns = ns;
	slow_unlock(start);
}

/*
 * Copy N words. Copy word by word: for a copy of this size the compiler would otherwise call
 * memcpy(), which BPF lacks.
 */
static __always_inline void copy_words(__u64 *to, const __u64 *from, __u32 n)
{
	for (__u32 i = 0; i < n; i++) {
		__u64 word = from[i];

		args_keep(word);
		to[i] = word;
	}
}

/* Copy the hit of FROM to TO->start. */
__noinline int slow_copy_start(struct slow_record *to, const struct slow_start *from)
{
	if (!to || !from)
		return 0;
	copy_words((__u64 *)&to->start, (const __u64 *)&from->hit, sizeof(to->start) / 8);
	to->start.ts_ns = from->ns;
	return 0;
}

/* Copy the hit of FROM, which has at most SLOW_SHORT_NODES nodes and no text, to TO. */
__noinline int slow_copy_short(struct slow_short *to, const struct slow_start *from)
{
	if (!to || !from)
		return 0;
	copy_words(to->start, (const __u64 *)&from->hit, HIT_HEAD_WORDS);
	copy_words((__u64 *)to->nodes, (const __u64 *)from->hit.nodes, sizeof(to->nodes) / 8);
	((struct hit_record *)to->start)->ts_ns = from->ns;
	return 0;
}

/*
 * Fill in who made the stop, and when. The time must be taken after the reservation: see
 * engine_bpf_read.c.
 */
static __always_inline void slow_record_stop(struct hit_record *stop, __u32 number,
					     const struct bpf_pidns_info *ids)
{
	stop->ts_ns = bpf_ktime_get_ns();
	stop->pid = ids->tgid;
	stop->tid = ids->pid;
	stop->site = number;
	bpf_get_current_comm(stop->comm, sizeof(stop->comm));
}

/* See slow_print(). Returns 0 if there is no room for the record. */
static __always_inline int slow_print_whole(struct pt_regs *regs, __u32 number,
					    const struct site_args *args,
					    const struct bpf_pidns_info *ids, __u32 pair, __u64 ns,
					    const struct slow_start *start)
{
	struct slow_record *record = bpf_ringbuf_reserve(&prints, sizeof(*record), 0);

	if (!record)
		return 0;
	slow_record_stop(&record->stop, number, ids);
	slow_record_hit((bpf_user_pt_regs_t *)regs, args, &record->stop);
	record->stop.kind = RECORD_SLOW;
	record->ns = ns;
	record->pair = pair;
	record->has_start = start != (void *)0;
	if (start)
		slow_copy_start(record, start);
	bpf_ringbuf_submit(record, NO_WAKEUP);
	return 1;
}

/* As slow_print_whole(), for a pair that fits in a struct slow_short. */
static __always_inline int slow_print_short(__u32 number, const struct site_args *args,
					    const struct bpf_pidns_info *ids, __u32 pair, __u64 ns,
					    const struct slow_start *start)
{
	struct slow_short *record = bpf_ringbuf_reserve(&prints, sizeof(*record), 0);
	struct hit_record *stop;

	if (!record)
		return 0;
	stop = (struct hit_record *)record->stop;
	slow_record_stop(stop, number, ids);
	stop->n_args = 0;
	stop->n_nodes = 0;
	stop->n_text = 0;
	stop->n_left_out = (__u16)args->n_left_out;
	stop->kind = RECORD_SLOW_SHORT;
	record->ns = ns;
	record->pair = pair;
	record->has_start = start != (void *)0;
	if (start)
		slow_copy_short(record, start);
	bpf_ringbuf_submit(record, NO_WAKEUP);
	return 1;
}

/*
 * Record a slow pair that took NS nanoseconds. START is the entry of the pair's start, or NULL if
 * the arguments of the start were not kept.
 */
static __always_inline void slow_print(struct pt_regs *regs, __u32 number,
				       const struct site_args *args,
				       const struct bpf_pidns_info *ids, __u32 pair, __u64 ns,
				       const struct slow_start *start)
{
	const int is_short =
		!args->n &&
		(!start || (start->hit.n_nodes <= SLOW_SHORT_NODES && !start->hit.n_text));
	struct measure_losses *lost = our_losses();

	if (!lost)
		return;
	add_atomically(&lost->slow, 1);
	if (config.print_limit && !is_within_limit(bpf_ktime_get_ns()))
		add_atomically(&lost->slow_limited, 1);
	else if (!(is_short ? slow_print_short(number, args, ids, pair, ns, start)
			    : slow_print_whole(regs, number, args, ids, pair, ns, start)))
		add_atomically(&lost->slow_dropped, 1);
	else if (!start)
		add_atomically(&lost->slow_unkept, 1);
}

/*
 * Finish a pair that began at START_NS and took NS nanoseconds: record it if it was slow. If
 * REMOVES is not 0, remove the entry of the pair's start.
 */
static __always_inline void slow_end(struct pt_regs *regs, __u32 number,
				     const struct site_args *args, const struct bpf_pidns_info *ids,
				     const struct slow_key *key, __u64 start_ns, __u64 ns,
				     int removes)
{
	struct slow_start *start = slow_lock(key);
	const int is_its = start && start->ns == start_ns;

	if (ns >= config.slower_ns)
		slow_print(regs, number, args, ids, key->pair & ~SLOW_CALL, ns,
			   is_its ? start : (void *)0);
	if (!start)
		return;
	if (is_its && removes)
		bpf_map_delete_elem(&slow_open, key);
	else
		slow_unlock(start);
}

/* ---- by thread ------------------------------------------------------------------------------ */

/* Return the index in OPEN->ring of the next start. OPEN is NULL before the first start. */
static __always_inline __u64 slow_place(const struct measure_open *open)
{
	return open ? open->next & (MEASURE_DEPTH - 1) : 0;
}

static __always_inline void play_role_slower(const struct measure_role *role, struct pt_regs *regs,
					     __u32 number, const struct site_args *args,
					     const struct measure_site *site,
					     const struct bpf_pidns_info *ids,
					     const struct role_key *read, __u64 now_ns, int matches)
{
	struct measure_open_key key = { .tid = ids->pid, .pair = role->pair };
	struct slow_key slow = { .owner = ids->pid, .pair = role->pair };
	struct measure_pair *stats = bpf_map_lookup_elem(&pair_stats, &key.pair);
	struct slow_start *start = (void *)0;
	struct measure_open *open;
	__u64 ended;

	if (!stats)
		return;
	if (role->flags & MEASURE_ROLE_STOP) {
		ended = stop_by_thread(stats, &key, sp_of(regs, site), now_ns);
		if (!ended)
			return;
		/* stop_by_thread() has set `next` to the place of the start that ended. */
		slow.value = slow_place(bpf_map_lookup_elem(&pair_open, &key));
		slow_end(regs, number, args, ids, &slow, now_ns - (ended - 1), ended - 1, 0);
		compared_stop(role, &key, read);
		return;
	}
	slow.value = slow_place(bpf_map_lookup_elem(&pair_open, &key));
	if (matches)
		start = slow_begin(regs, number, args, ids, &slow);
	start_by_thread(stats, &key, sp_of(regs, site), matches);
	compared_start(role, &key, read);
	open = bpf_map_lookup_elem(&pair_open, &key);
	slow_began(start, open ? start_of(open, 0)->ns : 0);
}

static long slow_remove_place(__u32 place, void *context)
{
	struct slow_key key = *(struct slow_key *)context;

	key.value = place;
	bpf_map_delete_elem(&slow_open, &key);
	return 0;
}

/*
 * Remove the entries of slow_open for the thread and the pair of KEY. Call this when the thread
 * ends.
 */
static __always_inline void slow_end_thread(const struct measure_open_key *key)
{
	struct slow_key slow = { .owner = key->tid, .pair = key->pair };

	bpf_loop(MEASURE_DEPTH, slow_remove_place, &slow, 0);
}

/* ---- by key --------------------------------------------------------------------------------- */

static __always_inline void
play_key_slower(const struct measure_role *role, struct measure_pair *stats,
		const struct measure_start_key *key, struct pt_regs *regs, __u32 number,
		const struct site_args *args, const struct bpf_pidns_info *ids, __u64 now_ns,
		int matches)
{
	const struct slow_key slow = { .owner = key->tgid, .pair = key->pair, .value = key->value };
	struct slow_start *start = (void *)0;
	__u64 ended;

	if (role->flags & MEASURE_ROLE_STOP) {
		ended = stop_by_key(stats, key, now_ns);
		if (ended)
			slow_end(regs, number, args, ids, &slow, now_ns - (ended - 1), ended - 1,
				 1);
		return;
	}
	if (matches)
		start = slow_begin(regs, number, args, ids, &slow);
	slow_began(start, start_by_key(stats, key, matches));
}

/*
 * The body of a loop over slow_open: remove the entry at KEY if it belongs to the process *ENDED.
 */
static long slow_end_start(void *map, const struct slow_key *key, const void *start,
			   const __u32 *ended)
{
	(void)start;
	if (key->owner == *ended)
		bpf_map_delete_elem(map, key);
	return 0;
}

static __always_inline void slow_end_process(const __u32 *tgid)
{
	bpf_for_each_map_elem(&slow_open, slow_end_start, (void *)tgid, 0);
}

/* ---- calls of functions --------------------------------------------------------------------- */

/* Describe in CALL the call that has hit SITE with the registers REGS. */
static __always_inline void set_slow_call(struct slow_call *call, const struct pt_regs *regs,
					  const struct measure_site *site)
{
	call->at = sp_of(regs, site);
	call->return_address = read_word(call->at);
	call->stack = call->state = call->parent = 0;
	if (!(site->flags & MEASURE_OCAML_STACK))
		return;
	call->state = regs->r14;
	call->stack = read_word(regs->r14 + STATE_STACK);
	call->parent = read_word(read_word(call->stack + STACK_HANDLER) + HANDLER_PARENT);
}

/* Like play_frame(), but keep the arguments of the call, and record the call if it was slow. */
static __always_inline void play_frame_slower(const struct measure_role *role, struct pt_regs *regs,
					      __u32 number, const struct site_args *args,
					      const struct measure_site *site,
					      const struct bpf_pidns_info *ids, __u64 now_ns,
					      int matches)
{
	struct measure_frame_key key = {};
	struct slow_start *start = (void *)0;
	struct slow_key slow = {};
	struct measure_pair *stats;
	int is_confirmed;
	__u64 ended;

	set_frame_key(&key, role, regs, site, ids);
	stats = bpf_map_lookup_elem(&pair_stats, &key.pair);
	if (!stats || play_confirmation(role, site, &key, &is_confirmed))
		return;
	slow.owner = key.owner;
	slow.pair = key.pair | SLOW_CALL;
	slow.value = key.frame;
	if (role->flags & MEASURE_ROLE_STOP) {
		ended = leave_frame(stats, &key, now_ns, is_confirmed && matches);
		if (ended)
			slow_end(regs, number, args, ids, &slow, now_ns - (ended - 1), ended - 1,
				 1);
		return;
	}
	if (matches)
		start = slow_begin(regs, number, args, ids, &slow);
	if (start)
		set_slow_call(&start->call, regs, site);
	slow_began(start, enter_frame(stats, &key, matches));
}

/* The body of a loop over slow_open: remove the entry at KEY if it is a call of *OWNER. */
static long slow_end_call(void *map, const struct slow_key *key, const void *start,
			  const __u32 *owner)
{
	(void)start;
	if (key->owner == *owner && (key->pair & SLOW_CALL))
		bpf_map_delete_elem(map, key);
	return 0;
}

/* Remove the entries of the calls of *OWNER, which ends: see end_frames(). */
static __always_inline void slow_end_frames(const __u32 *owner)
{
	bpf_for_each_map_elem(&slow_open, slow_end_call, (void *)owner, 0);
}

#endif
