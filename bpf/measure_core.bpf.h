/* SPDX-License-Identifier: MIT */
/*
 * What all objects made of measure.bpf.c have: the maps, whose hit one is, hits by thread and by
 * process, pairs by thread.
 */
#ifndef MEASURE_CORE_BPF_H
#define MEASURE_CORE_BPF_H

#include "vmlinux.h"
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>
#include "measure.h"

enum {
	MINMAX_TRIES = 8,
	MMAPABLE = 1 << 10, /* BPF_F_MMAPABLE in linux/bpf.h */
};

const volatile struct measure_config config;

/*
 * The kernel attaches and detaches the sites one after another, in tens of milliseconds when there
 * are many or the process is busy; through this gate all of them start and end at the same moment,
 * so that counts of different probes can be compared. It must be the first variable.
 */
volatile struct measure_gate gate;

/*
 * Sizes of 1 are replaced when it is known what is asked for.
 *
 * The hits are per CPU by their place and not by the map's type, so that they can be read where
 * they are: the kernel takes 200 ns to copy an entry of a per-CPU map, 20 ms for 100 000 sites.
 */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, MMAPABLE);
	__type(key, __u32);
	__type(value, __u64);
	__uint(max_entries, 1);
} hits SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__type(key, __u32);
	__type(value, struct measure_site);
	__uint(max_entries, 1);
} site_table SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__type(key, __u32);
	__type(value, struct measure_role);
	__uint(max_entries, 1);
} roles SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__type(key, __u32);
	__type(value, struct measure_pair);
	__uint(max_entries, 1);
} pair_stats SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__type(key, struct measure_open_key);
	__type(value, struct measure_open);
	__uint(max_entries, 1);
} pair_open SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__type(key, struct measure_start_key);
	__type(value, __u64);
	__uint(max_entries, 1);
} key_open SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__type(key, struct measure_key);
	__type(value, struct measure_keyed);
	__uint(max_entries, 1);
} keyed SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__type(key, __u32);
	__type(value, __u32);
	__uint(max_entries, 1);
} tgids SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__type(key, __u32);
	__type(value, struct measure_losses);
	__uint(max_entries, 1);
} losses SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, MMAPABLE);
	__type(key, __u32);
	__type(value, __u64);
	__uint(max_entries, 1);
} marks SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, MMAPABLE);
	__type(key, __u32);
	__type(value, __u64);
	__uint(max_entries, 1);
} serials SEC(".maps");

static __always_inline void add(__u64 *sum, __u64 n)
{
	__sync_fetch_and_add(sum, n);
}

/* Given up only if as many tasks as there are tries come in between. */
static __always_inline void raise_to(__u64 *highest, __u64 value)
{
	for (int i = 0; i < MINMAX_TRIES; i++) {
		__u64 seen = *(volatile __u64 *)highest;

		if (value <= seen || __sync_val_compare_and_swap(highest, seen, value) == seen)
			return;
	}
}

static __always_inline void count_hit(__u32 site)
{
	__u32 place = bpf_get_smp_processor_id() * config.hits_stride + site;
	__u64 *slot = bpf_map_lookup_elem(&hits, &place);

	if (slot)
		add(slot, 1);
}

static __always_inline struct measure_losses *our_losses(void)
{
	__u32 zero = 0;

	return bpf_map_lookup_elem(&losses, &zero);
}

/* ---- which of two links counts a hit -------------------------------------------------------- */

/*
 * The gate is not simply open: see struct measure_gate. SERIAL is that of the site's link so far.
 */
static __noinline int counts_in_handover(__u64 cookie, __u32 open, __u64 serial)
{
	const __u32 site = (__u32)cookie, tid = (__u32)bpf_get_current_pid_tgid();
	const __u64 bit = 1ULL << (tid % MEASURE_MARKS_A_WORD);
	__u32 place = tid / MEASURE_MARKS_A_WORD;
	__u64 *word;

	if (open == MEASURE_CLOSED)
		return 0;
	if (site < gate.first || site >= gate.end)
		return cookie >> 32 == serial;
	word = bpf_map_lookup_elem(&marks, &place);
	if (!word)
		return 1;
	if (cookie >> 32 == open) {
		__sync_fetch_and_or(word, bit);
		if (gate.open != open)
			__sync_fetch_and_and(word, ~bit);
		return 1;
	}
	if (cookie >> 32 != serial)
		return 0;
	return (__sync_fetch_and_and(word, ~bit) & bit) == 0;
}

/* ---- whose hit ------------------------------------------------------------------------------ */

/* False for a process of another pid namespace than the one asked for, even of one below. */
static __always_inline int current_ids(struct bpf_pidns_info *ids)
{
	__u64 both;

	if (config.pidns_ino)
		return bpf_get_ns_current_pid_tgid(config.pidns_dev, config.pidns_ino, ids,
						   sizeof(*ids)) == 0;
	both = bpf_get_current_pid_tgid();
	ids->tgid = both >> 32;
	ids->pid = (__u32)both;
	return 1;
}

#ifdef MEASURE_FULL
static __always_inline int runs_our_exe(void)
{
	struct task_struct *task = (void *)bpf_get_current_task();
	struct inode *inode = BPF_CORE_READ(task, mm, exe_file, f_inode);

	return BPF_CORE_READ(inode, i_ino) == config.exe_ino &&
	       BPF_CORE_READ(inode, i_sb, s_dev) == config.exe_dev;
}
#endif

static __always_inline int is_wanted(const struct bpf_pidns_info *ids,
				     const struct measure_site *site)
{
	if (config.only_tgids)
		return bpf_map_lookup_elem(&tgids, &ids->tgid) != (void *)0;
#ifdef MEASURE_FULL
	if (config.exe_ino && site && (site->flags & MEASURE_CHECK_EXE))
		return runs_our_exe();
#else
	(void)site;
#endif
	return 1;
}

/* ---- hits by thread or process -------------------------------------------------------------- */

static __always_inline void count_keyed(const struct measure_site *site,
					const struct bpf_pidns_info *ids)
{
	struct measure_key key = {
		.id = config.split == MEASURE_BY_THREAD ? ids->pid : ids->tgid,
		.column = site->column,
	};
	struct measure_keyed *slot = bpf_map_lookup_elem(&keyed, &key);

	if (!slot) {
		struct measure_keyed fresh = { .tgid = ids->tgid };
		struct measure_losses *lost;

		bpf_get_current_comm(fresh.comm, sizeof(fresh.comm));
		/* It fails as well when another task has just made it. */
		bpf_map_update_elem(&keyed, &key, &fresh, 1 /* BPF_NOEXIST */);
		slot = bpf_map_lookup_elem(&keyed, &key);
		if (!slot) {
			lost = our_losses();
			if (lost)
				add(&lost->keyed_full, 1);
			return;
		}
	}
	add(&slot->hits, 1);
}

/* ---- pairs ---------------------------------------------------------------------------------- */

/* A global function: it is verified once, and not on every path to it (300 ms of every start). */
__noinline int add_time(struct measure_pair *stats, __u64 ns)
{
	__u32 bucket = measure_bucket_of(ns);

	if (!stats)
		return 0;
	add(&stats->count, 1);
	add(&stats->sum_ns, ns);
	raise_to(&stats->max_ns, ns);
	raise_to(&stats->min_ns_not, ~ns);
	if (bucket < MEASURE_BUCKETS)
		add(&stats->buckets[bucket], 1);
	return 0;
}

/* Does NS stand for a start that the filter rejected? */
static __always_inline int is_marker(__u64 ns)
{
#ifdef MEASURE_FULL
	return config.filters && ns == MEASURE_MARKER;
#else
	(void)ns;
	return 0;
#endif
}

static __always_inline struct measure_open *open_starts(const struct measure_open_key *key)
{
	struct measure_open *open = bpf_map_lookup_elem(&pair_open, key);

	if (!open) {
		struct measure_open none = {};

		bpf_map_update_elem(&pair_open, key, &none, 1 /* BPF_NOEXIST */);
		open = bpf_map_lookup_elem(&pair_open, key);
	}
	return open;
}

/* The newest start of a thread is the one that its next stop ends. */
static __always_inline void start_by_thread(struct measure_pair *stats,
					    const struct measure_open_key *key, int matches)
{
	struct measure_open *open = open_starts(key);
	__u64 depth;

	/* Without a marker the stop will be an orphan: somebody has to account for it. */
	if (matches || !open)
		add(&stats->starts, 1);
	if (!open) {
		add(&stats->map_full, 1);
		return;
	}
	depth = open->depth;
	if (config.depth == 1) {
		if (depth && !is_marker(open->start_ns[0]))
			add(&stats->orphan_starts, 1);
		open->depth = 1;
		open->start_ns[0] = matches ? bpf_ktime_get_ns() : MEASURE_MARKER;
		return;
	}
	open->depth = depth + 1;
	if (depth < config.depth && depth < MEASURE_DEPTH)
		open->start_ns[depth] = matches ? bpf_ktime_get_ns() : MEASURE_MARKER;
	else if (matches)
		add(&stats->overflows, 1);
}

static __always_inline void stop_by_thread(struct measure_pair *stats,
					   const struct measure_open_key *key, __u64 now_ns)
{
	struct measure_open *open = bpf_map_lookup_elem(&pair_open, key);
	__u64 depth = open ? open->depth : 0;

	if (!depth) {
		add(&stats->orphan_stops, 1);
		return;
	}
	depth--;
	open->depth = depth;
	if (depth < config.depth && depth < MEASURE_DEPTH && !is_marker(open->start_ns[depth]))
		add_time(stats, now_ns - open->start_ns[depth]);
}

static __always_inline void play_role(const struct measure_role *role,
				      const struct bpf_pidns_info *ids, __u64 now_ns, int matches)
{
	struct measure_open_key key = { .tid = ids->pid, .pair = role->pair };
	struct measure_pair *stats = bpf_map_lookup_elem(&pair_stats, &key.pair);

	if (!stats)
		return;
	if (role->is_stop)
		stop_by_thread(stats, &key, now_ns);
	else
		start_by_thread(stats, &key, matches);
}

static __always_inline void play_roles(const struct measure_site *site,
				       const struct bpf_pidns_info *ids, __u64 now_ns, int matches)
{
	for (__u32 i = 0; i < MEASURE_MAX_ROLES && i < site->n_roles; i++) {
		__u32 number = site->first_role + i;
		struct measure_role *role = bpf_map_lookup_elem(&roles, &number);

		if (role)
			play_role(role, ids, now_ns, matches);
	}
}

#endif
