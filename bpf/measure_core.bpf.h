/* SPDX-License-Identifier: MIT */
/*
 * The code that all objects made from measure.bpf.c share: the maps, the selection of hits, hits by
 * thread and process, and pairs by thread.
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
 * The kernel attaches and detaches the sites one after another, which takes tens of milliseconds if
 * there are many or if the process is busy. With this gate all sites start and stop at one moment,
 * so that the counts of different probes can be compared. It must be the first variable.
 */
volatile struct measure_gate gate;

/*
 * Sizes of 1 are replaced before the load.
 *
 * The hits have a place for each CPU, but not by the type of the map, so that they can be mapped:
 * the kernel takes 200 ns to copy an entry of a per-CPU map, which is 20 ms for 100 000 sites.
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

/* Gives up only if other tasks interfere in each of the tries. */
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
 * Whether a hit counts during a handover: see struct measure_gate. SERIAL is that of the current
 * link of the site.
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

/* Returns false for a process of another pid namespace than the configured one, even below it. */
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
		.id = config.keyed_by == MEASURE_BY_TID ? ids->pid : ids->tgid,
		.probe_index = site->probe_index,
	};
	struct measure_keyed *slot = bpf_map_lookup_elem(&keyed, &key);

	if (!slot) {
		struct measure_keyed fresh = { .tgid = ids->tgid };
		struct measure_losses *lost;

		bpf_get_current_comm(fresh.comm, sizeof(fresh.comm));
		/* This also fails if another task has just made the entry. */
		bpf_map_update_elem(&keyed, &key, &fresh, 1 /* BPF_NOEXIST */);
		slot = bpf_map_lookup_elem(&keyed, &key);
		if (!slot) {
			lost = our_losses();
			if (lost)
				add(&lost->rows_full, 1);
			return;
		}
	}
	add(&slot->hits, 1);
}

/* ---- pairs ---------------------------------------------------------------------------------- */

/* A global function is verified once, not on every path that calls it (saves 300 ms per start). */
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

/* True if NS marks a start that the filter rejected. */
static __always_inline int is_marker(__u64 ns)
{
#ifdef MEASURE_FULL
	return config.filters && ns == MEASURE_MARKER;
#else
	(void)ns;
	return 0;
#endif
}

/* The initial value for a thread. It is too large for the stack of a BPF program. */
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

/* The open start after which AGE other ones were made; 0: the newest. */
static __always_inline struct measure_start *start_of(struct measure_open *open, __u32 age)
{
	return &open->ring[(open->next - 1 - age) & (MEASURE_DEPTH - 1)];
}

/* The number of rejected starts among the N newest. Global, like the next one: see add_time(). */
__noinline int count_markers(struct measure_open *open, __u32 n)
{
	int markers = 0;

	if (!open)
		return 0;
	for (__u32 age = 0; age < MEASURE_DEPTH && age < n; age++)
		markers += is_marker(start_of(open, age)->ns);
	return markers;
}

/* The age of the newest start with stack pointer SP; 0 if no start has this stack pointer. */
__noinline int find_frame(struct measure_open *open, __u64 sp)
{
	if (!open)
		return 0;
	for (__u32 age = 0; age < MEASURE_DEPTH && age < open->n; age++)
		if (start_of(open, age)->sp == sp)
			return (int)age;
	return 0;
}

/* Count the N newest starts as orphans. */
static __always_inline void orphan_newest(struct measure_pair *stats, struct measure_open *open,
					  __u32 n)
{
	add(&stats->orphan_starts, n - (__u32)count_markers(open, n));
	open->n -= n;
	open->next -= n;
}

static __always_inline void start_by_thread(struct measure_pair *stats,
					    const struct measure_open_key *key, __u64 sp,
					    int matches)
{
	struct measure_open *open = open_starts(key);
	struct measure_start *start;

	/* Without a marker, the stop becomes an orphan, and the start must be counted. */
	if (matches || !open)
		add(&stats->starts, 1);
	if (!open) {
		add(&stats->map_full, 1);
		return;
	}
	if (open->n < config.depth)
		open->n++;
	else if (!is_marker(start_of(open, open->n - 1)->ns))
		add(&stats->orphan_starts, 1);
	open->next++;
	start = start_of(open, 0);
	start->sp = sp;
	start->ns = matches ? bpf_ktime_get_ns() : MEASURE_MARKER;
}

/* See struct measure_open. */
static __always_inline void stop_by_thread(struct measure_pair *stats,
					   const struct measure_open_key *key, __u64 sp,
					   __u64 now_ns)
{
	struct measure_open *open = bpf_map_lookup_elem(&pair_open, key);
	__u32 n_skipped;
	__u64 ns;

	if (!open || !open->n) {
		add(&stats->orphan_stops, 1);
		return;
	}
	if (open->n > 1 && start_of(open, 0)->sp != sp) {
		n_skipped = (__u32)find_frame(open, sp);
		if (n_skipped)
			orphan_newest(stats, open, n_skipped);
	}
	ns = start_of(open, 0)->ns;
	open->n--;
	open->next--;
	if (!is_marker(ns))
		add_time(stats, now_ns - ns);
}

static __always_inline void play_role(const struct measure_role *role,
				      const struct bpf_pidns_info *ids, __u64 sp, __u64 now_ns,
				      int matches)
{
	struct measure_open_key key = { .tid = ids->pid, .pair = role->pair };
	struct measure_pair *stats = bpf_map_lookup_elem(&pair_stats, &key.pair);

	if (!stats)
		return;
	if (role->is_stop)
		stop_by_thread(stats, &key, sp, now_ns);
	else
		start_by_thread(stats, &key, sp, matches);
}

static __always_inline void play_roles(const struct measure_site *site,
				       const struct bpf_pidns_info *ids, __u64 sp, __u64 now_ns,
				       int matches)
{
	for (__u32 i = 0; i < MEASURE_MAX_ROLES && i < site->n_roles; i++) {
		__u32 number = site->first_role + i;
		struct measure_role *role = bpf_map_lookup_elem(&roles, &number);

		if (role)
			play_role(role, ids, sp, now_ns, matches);
	}
}

#endif
