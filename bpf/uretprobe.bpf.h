/* SPDX-License-Identifier: MIT */
/*
 * Finds the real return addresses of calls with return probes, which this tool or another one may
 * have set. While such a call is active, the return address on the stack is that of the kernel's
 * trampoline. The kernel remembers the real return address and the place on the stack that it
 * belongs to.
 */
#ifndef URETPROBE_BPF_H
#define URETPROBE_BPF_H

#include "vmlinux.h"
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>

enum { URETPROBE_MAX = 64 }; /* the kernel's limit of active calls with return probes in a thread */

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

/* Return the address of the trampoline of the current process. No trampoline: return 0. */
static __always_inline __u64 uretprobe_trampoline(void)
{
	struct task_struct___up *task = (void *)bpf_get_current_task();
	struct xol_area___up *area = (void *)0;

	if (bpf_core_field_exists(task->utask) && bpf_core_field_exists(area->vaddr))
		area = BPF_CORE_READ(task, mm, uprobes_state.xol_area);
	return area ? BPF_CORE_READ(area, vaddr) : 0;
}

/*
 * Return the real return address that belongs to PLACE, an address on the stack of the current
 * thread, or 0 if it is unknown.
 */
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
