/* SPDX-License-Identifier: MIT */
/*
 * What all objects made from measure.bpf.c have in common: the maps, the decision whether a hit
 * counts, and the counts by thread and process.
 */
#ifndef MEASURE_CORE_BPF_H
#define MEASURE_CORE_BPF_H

#include "vmlinux.h"
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>
#include "access.bpf.h"
#include "measure.h"
#include "few_functions.bpf.h"
#include "pid_namespace.bpf.h"

enum {
	MINMAX_TRIES = 8,
	MMAPABLE = 1 << 10, /* BPF_F_MMAPABLE in linux/bpf.h */
};

const volatile struct measure_config config;

/*
 * The kernel attaches and detaches the sites one after another, which takes tens of milliseconds if
 * there are many sites or if the process is busy. With this gate, all sites start and stop counting
 * at one moment, so that the counts of different probes can be compared. `gate` must be the first
 * variable.
 */
volatile struct measure_gate gate;

/*
 * Where max_entries is 1 below, user space sets the real number before the load.
 *
 * `hits` is not a per-CPU map, but an array with slots for each CPU, so that user space can map it
 * into memory. Reading a per-CPU map would be slow: the kernel takes 200 ns to copy an entry, which
 * is 20 ms for 100 000 sites.
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
	__uint(type, BPF_MAP_TYPE_HASH);
	__type(key, __u32);
	__type(value, __u64);
	__uint(max_entries, 1);
} process_hits SEC(".maps");

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

static __always_inline void add_atomically(__u64 *sum, __u64 n)
{
	__sync_fetch_and_add(sum, n);
}

/*
 * Atomically set *HIGHEST to the maximum of *HIGHEST and VALUE. Give up if other tasks change
 * *HIGHEST during each of MINMAX_TRIES tries.
 */
static __always_inline void raise_highest(__u64 *highest, __u64 value)
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
		add_atomically(slot, 1);
}

static __always_inline struct measure_losses *our_losses(void)
{
	__u32 zero = 0;

	return bpf_map_lookup_elem(&losses, &zero);
}

/* ---- which of two links counts a hit -------------------------------------------------------- */

/*
 * Decide whether a hit counts (1) or not (0) while the gate is closed or during a handover: see
 * struct measure_gate. SERIAL is the serial of the link that now measures the site.
 */
static __within_stacks int counts_in_handover(__u64 cookie, __u32 open, __u64 serial)
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

/* ---- the process of a hit ------------------------------------------------------------------- */

static __always_inline int current_ids(struct bpf_pidns_info *ids)
{
	return ids_in_namespace(config.pidns_dev, config.pidns_ino, ids);
}

#ifdef MEASURE_FULL
static __always_inline int runs_our_exe(void)
{
	return current_executes(config.exe_dev, config.exe_ino);
}
#endif

static __always_inline int is_wanted_process(const struct bpf_pidns_info *ids,
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

/* ---- conditions of sites -------------------------------------------------------------------- */

/* Return 1 if a hit of SITE with the registers REGS satisfies the condition of SITE. */
static __always_inline int condition_holds(const struct pt_regs *regs,
					   const struct measure_site *site)
{
	if (!config.conditions)
		return 1;
	switch (site->condition) {
	case MEASURE_ARGUMENT_1:
		return (__u32)regs->di != site->unless;
	case MEASURE_ARGUMENT_1 + 1:
		return (__u32)regs->si != site->unless;
	case MEASURE_ARGUMENT_1 + 2:
		return (__u32)regs->dx != site->unless;
	case MEASURE_ARGUMENT_1 + 3:
		return (__u32)regs->cx != site->unless;
	case MEASURE_ARGUMENT_1 + 4:
		return (__u32)regs->r8 != site->unless;
	case MEASURE_ARGUMENT_6:
		return (__u32)regs->r9 != site->unless;
	case MEASURE_IF_TRUE:
		return (__u32)regs->ax != 0;
	default:
		return 1;
	}
}

/* ---- hits by thread or process -------------------------------------------------------------- */

/*
 * Set COMM to the name of the current thread or, if the hits are split by process, of the main
 * thread.
 */
static __always_inline void set_keyed_name(char comm[16])
{
	const struct task_struct *task = (void *)bpf_get_current_task();
	const struct task_struct *main_thread;

	if (config.keyed_by == MEASURE_BY_TID) {
		bpf_get_current_comm(comm, 16);
		return;
	}
	main_thread = BPF_CORE_READ(task, group_leader);
	bpf_core_read_str(comm, 16, &main_thread->comm);
}

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

		set_keyed_name(fresh.comm);
		/*
		 * The update fails if the map is full, or if another task has just made the entry.
		 */
		bpf_map_update_elem(&keyed, &key, &fresh, 1 /* BPF_NOEXIST */);
		slot = bpf_map_lookup_elem(&keyed, &key);
		if (!slot) {
			lost = our_losses();
			if (lost)
				add_atomically(&lost->rows_full, 1);
			return;
		}
	} else if (config.keyed_by == MEASURE_BY_TID) {
		/* The thread may have got another name since its first hit. */
		set_keyed_name(slot->comm);
	}
	add_atomically(&slot->hits, 1);
}

/*
 * Count a hit of the process. For the budget, user space compares the cost of the hits of a process
 * with the CPU time of the process.
 */
static __always_inline void count_process(const struct bpf_pidns_info *ids)
{
	const __u64 none = 0;
	__u64 *slot = bpf_map_lookup_elem(&process_hits, &ids->tgid);

	if (!slot) {
		bpf_map_update_elem(&process_hits, &ids->tgid, &none, 1 /* BPF_NOEXIST */);
		slot = bpf_map_lookup_elem(&process_hits, &ids->tgid);
	}
	if (slot)
		add_atomically(slot, 1);
}

#endif
