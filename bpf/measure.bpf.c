// SPDX-License-Identifier: MIT
/*
 * Measures the hits of probe sites. One program serves every site of every file. The cookie of a
 * site contains its number, which is its index in `hits` and `site_table`.
 *
 * Exactness. A uprobe program cannot move to another CPU, but it can be preempted by a task that
 * hits the same site, so shared data is written with atomic operations. In addition, there are
 * slots per CPU, so that CPUs do not compete for a cache line. Data of one thread (its open starts)
 * needs neither atomic operations nor slots per CPU. Unlike kprobes and tracepoints, uprobe_multi
 * programs have no recursion limit: no hit is dropped. Data that does not fit into a map is counted
 * as lost.
 *
 * Speed. The trap is 95 % of the cost of a hit. The rest is kept small: when the program is loaded,
 * the verifier removes the code of all features that `config` does not enable. The maps to which
 * hits add entries are allocated in advance.
 *
 * This file is compiled to several objects:
 *
 *	measure_multi   for uprobe_multi links
 *	measure_full    the same, with code that reads arguments (measure_args.bpf.h) and kernel
 *	                types (CO-RE: to check the executable and the user of a process, and to find
 *	                its children); it must be sleepable to read arguments
 *	measure_stacks  the same as measure_full, with code that walks the stacks of hits
 *	measure_slower  the same as measure_full, with code that records slow pairs
 *	measure_by      the same as measure_full, with code that groups hits and times by the value
 *	                of an argument
 *	measure_perf    for perf events, where the kernel has no uprobe_multi
 */
#include "measure_core.bpf.h"
#include "measure_roles.bpf.h"
#ifdef MEASURE_FULL
#include "measure_access.bpf.h"
#include "measure_args.bpf.h"
#endif

#if defined(MEASURE_PERF)
#define UPROBE_SECTION "uprobe"
#elif defined(MEASURE_FULL)
#define UPROBE_SECTION "uprobe.multi.s"
#else
#define UPROBE_SECTION "uprobe.multi"
#endif

char LICENSE[] SEC("license") = "Dual MIT/GPL";

/* ---- the programs --------------------------------------------------------------------------- */

static __always_inline int reads_args(void)
{
#ifdef MEASURE_FULL
	return config.args != 0;
#else
	return 0;
#endif
}

static __always_inline int walks_stacks(void)
{
#ifdef MEASURE_STACKS
	return 1;
#else
	return 0;
#endif
}

static __always_inline void pass_over(void)
{
	struct measure_losses *lost = our_losses();

	if (lost)
		add_atomically(&lost->passed_over, 1);
}

SEC(UPROBE_SECTION)
int hit(struct pt_regs *regs)
{
	const __u64 cookie = bpf_get_attach_cookie(regs);
	const __u32 open = gate.open;
	__u32 number = (__u32)cookie;
	struct bpf_pidns_info ids = {};
	struct measure_site *site = (void *)0;
	struct walk_scratch *stack = (void *)0;
	const __u64 *serial = bpf_map_lookup_elem(&serials, &number);
	__u64 now_ns = 0;

	if (!serial)
		return 0;
	if (open == MEASURE_OPEN ? cookie >> 32 != *serial
				 : !counts_in_handover(cookie, open, *serial))
		return 0;
	if (config.n_pairs || config.keyed_by != MEASURE_UNKEYED || config.exe_ino ||
	    config.conditions || reads_args() || walks_stacks()) {
		site = bpf_map_lookup_elem(&site_table, &number);
		if (!site)
			return 0;
	}
#ifdef MEASURE_FULL
	/*
	 * Ignore the hit completely. If it were counted in losses.passed_over, the user would learn
	 * how many hits there are in other users' processes.
	 */
	if (config.checks_access && !may_inspect_current())
		return 0;
#endif
	/*
	 * A stop reads the time first, and a start reads it last. Reading the time takes 60 ns, so
	 * only a stop reads it at this point.
	 */
	if (config.n_pairs && site && (site->flags & MEASURE_STOPS))
		now_ns = bpf_ktime_get_ns();
	if (config.n_pairs || config.keyed_by != MEASURE_UNKEYED || config.only_tgids ||
	    config.counts_processes || reads_args() || walks_stacks()) {
		if (!current_ids(&ids)) {
			pass_over();
			return 0;
		}
	}
	if (!is_wanted_process(&ids, site)) {
		pass_over();
		return 0;
	}
	if (config.counts_processes)
		count_process(&ids);
#ifdef MEASURE_FULL
	if (reads_args() && site)
		return hit_with_args(regs, number, site, &ids, now_ns);
#endif
	if (site && (!condition_holds(regs, site) || is_inner_call(site, &ids))) {
		if (config.n_pairs)
			play_roles(regs, site, &ids, now_ns, 0, stack);
		return 0;
	}
	count_hit(number);
	if (config.keyed_by != MEASURE_UNKEYED && site && (site->flags & MEASURE_KEYED))
		count_keyed(site, &ids);
	if (site && !config.outermost) {
		stack = take_hit_stack(site, &ids);
		count_stack(site, stack);
	}
	if (config.n_pairs && site)
		play_roles(regs, site, &ids, now_ns, 1, stack);
	release_stack(stack);
	return 0;
}

/* ---- threads and processes that come and go ------------------------------------------------- */

/*
 * When a thread ends, count its open starts as orphans and remove them. Otherwise these starts
 * would become open starts of the next thread with the same id.
 */
static __always_inline void end_pairs(const struct bpf_pidns_info *ids)
{
	for (__u32 pair = 0; pair < MEASURE_MAX_PAIRS && pair < config.n_pairs; pair++) {
		struct measure_open_key key = { .tid = ids->pid, .pair = pair };
		struct measure_open *open = bpf_map_lookup_elem(&pair_open, &key);
		/* Use key.pair: the verifier cannot track a counter in memory ("infinite loop"). */
		struct measure_pair *stats = bpf_map_lookup_elem(&pair_stats, &key.pair);

		if (!open || !stats)
			continue;
		if (gate.open)
			orphan_newest(stats, open, open->n);
		bpf_map_delete_elem(&pair_open, &key);
#ifdef MEASURE_FULL
		compared_end(&key);
#endif
#ifdef MEASURE_SLOWER
		slow_end_thread(&key);
#endif
	}
}

#ifdef MEASURE_FULL
/*
 * Return 1 if the current thread, which ends, is the last thread of its process. The kernel has
 * already subtracted this thread from signal->live.
 */
static __always_inline int is_last_thread(void)
{
	struct task_struct *task = (void *)bpf_get_current_task();

	return !BPF_CORE_READ(task, signal, live.counter);
}
#endif

#ifdef MEASURE_STACKS
/* Forget the mappings of the current process, because it ends or executes another program. */
static __always_inline void forget_current(struct bpf_pidns_info *ids)
{
	bpf_map_delete_elem(&walk_processes, &ids->tgid);
}

SEC("raw_tracepoint/sched_process_exec")
int process_exec(void *unused)
{
	struct bpf_pidns_info ids = {};

	(void)unused;
	if (current_ids(&ids))
		forget_current(&ids);
	return 0;
}
#endif

SEC("raw_tracepoint/sched_process_exit")
int thread_exit(void *unused)
{
	struct bpf_pidns_info ids = {};

	(void)unused;
	if (!current_ids(&ids))
		return 0;
	if (config.matching & MEASURE_SOME_BY_THREAD)
		end_pairs(&ids);
	if (config.frames && end_frames(&ids.pid)) {
#ifdef MEASURE_SLOWER
		slow_end_frames(&ids.pid);
#endif
#ifdef MEASURE_BY
		by_end_frames(&ids.pid);
#endif
	}
#ifdef MEASURE_BY
	by_end(&ids);
#endif
#ifdef MEASURE_STACKS
	if (is_last_thread())
		forget_current(&ids);
#endif
#ifdef MEASURE_FULL
	if (config.only_tgids || config.matching & MEASURE_SOME_BY_KEY) {
		if (!is_last_thread())
			return 0;
		/* The kernel may reuse the process id from now on. */
		if (config.only_tgids)
			bpf_map_delete_elem(&tgids, &ids.tgid);
		if (config.matching & MEASURE_SOME_BY_KEY)
			end_keys(&ids.tgid);
	}
#endif
	return 0;
}

#ifdef MEASURE_FULL
/*
 * Return the process id of CHILD in the pid namespace of current_ids(), or 0 if CHILD is in another
 * pid namespace.
 */
static __always_inline __u32 tgid_of_child(struct task_struct *child)
{
	struct pid *pid;
	struct upid *own;

	if (!config.pidns_ino)
		return BPF_CORE_READ(child, tgid);
	pid = BPF_CORE_READ(child, thread_pid);
	own = &pid->numbers[0];
	own = (void *)own + BPF_CORE_READ(pid, level) * bpf_core_type_size(struct upid);
	if (BPF_CORE_READ(own, ns, ns.inum) != config.pidns_ino)
		return 0;
	return BPF_CORE_READ(own, nr);
}

/* At a fork: if the parent is in `tgids`, add the child to `tgids` before the child runs. */
SEC("raw_tracepoint/sched_process_fork")
int process_fork(struct bpf_raw_tracepoint_args *args)
{
	struct task_struct *child = (void *)args->args[1];
	struct bpf_pidns_info ids = {};
	__u32 tgid, one = 1;

	if (!current_ids(&ids) || !bpf_map_lookup_elem(&tgids, &ids.tgid))
		return 0;
	if (BPF_CORE_READ(child, pid) != BPF_CORE_READ(child, tgid))
		return 0;
	tgid = tgid_of_child(child);
	if (!tgid)
		return 0;
	if (bpf_map_update_elem(&tgids, &tgid, &one, 0 /* BPF_ANY */)) {
		struct measure_losses *lost = our_losses();

		if (lost)
			add_atomically(&lost->children_full, 1);
	}
	return 0;
}
#endif
