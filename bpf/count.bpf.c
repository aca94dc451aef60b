// SPDX-License-Identifier: MIT
/*
 * Count the runs of probe sites. One program serves every site of every file: the cookie that a
 * site was attached with is its number, and its number is its place in `hits`.
 *
 * A uprobe program cannot move to another CPU but it can be preempted, and the task that runs then
 * may hit the same site: without the atomic add one of the two hits would be lost. The slots are
 * per CPU all the same, so that CPUs do not fight for a cache line.
 *
 * No hit is ever dropped here. uprobe_multi programs have no recursion limit (other than kprobes
 * and tracepoints), and the lookup fails for no site: `hits` is made with one slot for each.
 */
#include "vmlinux.h"
#include <bpf/bpf_helpers.h>
#include "count.h"

char LICENSE[] SEC("license") = "Dual MIT/GPL";

const volatile struct count_config config;

/*
 * Nonzero while hits count. The kernel attaches and detaches the sites one after another, in tens
 * of milliseconds when there are many or the process is busy; through this gate all of them start
 * and end at the same moment, so that counts of different probes can be compared.
 */
volatile __u32 gate_open;

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__type(key, __u32);
	__type(value, __u64);
	__uint(max_entries, 1); /* replaced by the number of sites */
} hits SEC(".maps");

static __always_inline int is_wanted_process(void)
{
	struct bpf_pidns_info ids;

	if (!config.tgid)
		return 1;
	/* Fails for a process of another pid namespace, even of one below. */
	if (bpf_get_ns_current_pid_tgid(config.pidns_dev, config.pidns_ino, &ids, sizeof(ids)))
		return 0;
	return ids.tgid == config.tgid;
}

SEC("uprobe.multi")
int count_hit(struct pt_regs *regs)
{
	__u32 site = bpf_get_attach_cookie(regs);
	__u64 *slot;

	if (!gate_open || !is_wanted_process())
		return 0;
	slot = bpf_map_lookup_elem(&hits, &site);
	if (slot)
		__sync_fetch_and_add(slot, 1);
	return 0;
}
