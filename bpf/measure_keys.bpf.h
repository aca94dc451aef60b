/* SPDX-License-Identifier: MIT */
/*
 * Pairs that are matched by an argument, the key, instead of by thread.
 *
 * An entry of key_open is one open start. Whoever deletes the entry counts the start: a stop counts
 * a pair; a later start with the same key, or the end of the process, counts an orphan start. Only
 * one thread can delete an entry, so the counters are exact even if several threads use a key at
 * the same moment. But it is then undefined which start a stop ends, so the measured time may be
 * wrong.
 */
#ifndef MEASURE_KEYS_BPF_H
#define MEASURE_KEYS_BPF_H

#include "measure_pairs.bpf.h"

enum {
	KEY_TRIES = 4,
	ERROR_EXISTS = -17,
};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__type(key, __u32);
	__type(value, __u32);
	__uint(max_entries, 1);
} key_users SEC(".maps");

/*
 * Record in key_users that process *TGID may have open starts, so that end_keys() looks for them.
 * Returns 1, or 0 if key_users is full.
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
 * Begin a pair. The new start replaces an open start with the same key. Returns the time of the new
 * start, or 0 if the filter rejected the start or it could not be stored.
 */
static __always_inline __u64 start_by_key(struct measure_pair *stats,
					  const struct measure_start_key *key, int matches)
{
	long err = is_key_user(&key->tgid) ? ERROR_EXISTS : 0;
	__u64 ns = 0, old_ns = 0;

	if (!err) {
		add_atomically(&stats->starts, 1);
		add_atomically(&stats->map_full, 1);
		return 0;
	}
	if (matches)
		add_atomically(&stats->starts, 1);
	for (int i = 0; err == ERROR_EXISTS && i < KEY_TRIES; i++) {
		if (take_start(key, &old_ns) && !marks_rejected_start(old_ns))
			add_atomically(&stats->orphan_starts, 1);
		ns = matches ? bpf_ktime_get_ns() : MEASURE_MARKER;
		err = bpf_map_update_elem(&key_open, key, &ns, 1 /* BPF_NOEXIST */);
	}
	if (!err)
		return ns;
	/*
	 * In each try, another thread stored a start with this key: count our start as replaced by
	 * it.
	 */
	if (err == ERROR_EXISTS) {
		if (matches)
			add_atomically(&stats->orphan_starts, 1);
		return 0;
	}
	if (!matches)
		add_atomically(&stats->starts, 1);
	add_atomically(&stats->map_full, 1);
	return 0;
}

/* End the pair of KEY. Returns the duration of the pair plus 1, or 0 if no pair ended. */
static __always_inline __u64 stop_by_key(struct measure_pair *stats,
					 const struct measure_start_key *key, __u64 now_ns)
{
	__u64 ns = 0;

	if (!take_start(key, &ns)) {
		add_atomically(&stats->orphan_stops, 1);
		return 0;
	}
	if (marks_rejected_start(ns))
		return 0;
	ns = now_ns > ns ? now_ns - ns : 0;
	add_time(stats, ns);
	return ns + 1;
}

#endif
