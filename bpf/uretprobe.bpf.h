/* SPDX-License-Identifier: MIT */
/*
 * Finds return addresses that return probes, of this tool or of others, have replaced. While a call
 * with a return probe is active, the return address on the stack leads to the kernel's trampoline.
 * The kernel keeps the real return address, with its place on the stack.
 */
#ifndef URETPROBE_BPF_H
#define URETPROBE_BPF_H

#include "vmlinux.h"
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>

enum { URETPROBE_MAX = 64 }; /* calls with a return probe in one thread, as in the kernel */

struct xol_area___up {
	unsigned long vaddr;
} __attribute__((preserve_access_index));

struct uprobes_state___up {
	struct xol_area___up *xol_area;
} __attribute__((preserve_access_index));

struct mm_struct___up {
	struct uprobes_state___up uprobes_state;
} __attribute__((preserve_access_index));

struct return_instance___up {
	unsigned long stack, orig_ret_vaddr;
	struct return_instance___up *next;
} __attribute__((preserve_access_index));

struct uprobe_task___up {
	struct return_instance___up *return_instances;
} __attribute__((preserve_access_index));

struct task_struct___up {
	struct mm_struct___up *mm;
	struct uprobe_task___up *utask;
} __attribute__((preserve_access_index));

/*
 * Return the address of the trampoline in the current process; 0 if the process has no trampoline.
 */
static __always_inline __u64 uretprobe_trampoline(void)
{
	struct task_struct___up *task = (void *)bpf_get_current_task();
	struct xol_area___up *area = (void *)0;

	if (bpf_core_field_exists(task->utask) && bpf_core_field_exists(area->vaddr))
		area = BPF_CORE_READ(task, mm, uprobes_state.xol_area);
	return area ? BPF_CORE_READ(area, vaddr) : 0;
}

/* Return the real return address for PLACE on the stack of the current thread; 0: it is unknown. */
static __always_inline __u64 uretprobe_address(__u64 place)
{
	struct task_struct___up *task = (void *)bpf_get_current_task();
	struct return_instance___up *instance = BPF_CORE_READ(task, utask, return_instances);

	for (int i = 0; i < URETPROBE_MAX && instance; i++) {
		if (BPF_CORE_READ(instance, stack) == place)
			return BPF_CORE_READ(instance, orig_ret_vaddr);
		instance = BPF_CORE_READ(instance, next);
	}
	return 0;
}

#endif
