/* SPDX-License-Identifier: MIT */
/* The map of the threads that wait now. profile.bpf.c and waiting.bpf.c share this map. */
#ifndef WAITS_BPF_H
#define WAITS_BPF_H

#include "vmlinux.h"
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>
#include "samples.h"

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__type(key, __u32);
	__type(value, struct profile_wait);
	__uint(max_entries, 1);
} waits SEC(".maps");

/*
 * States of include/linux/sched.h. A preempted thread (TASK_RUNNING) does not wait, and neither
 * does a thread that has ended (TASK_DEAD).
 */
enum { TASK_RUNNING = 0, TASK_DEAD = 0x80 };

/* Return the CPU time of TASK in nanoseconds. It is up to date when TASK gives up its CPU. */
static __always_inline __u64 cpu_time_of(const struct task_struct *task)
{
	return BPF_CORE_READ(task, se.sum_exec_runtime);
}

enum { SYSTEM_CALL_FUTEX = 202 };

/* Return the registers with which TASK has entered the kernel, an address in the kernel. */
static __always_inline const struct pt_regs *entry_registers(struct task_struct *task)
{
	return (const void *)bpf_task_pt_regs(task);
}

/* Return the address that TASK has given to futex(2), or 0 if TASK is in another system call. */
static __always_inline __u64 futex_of(struct task_struct *task)
{
	const struct pt_regs *regs = entry_registers(task);

	return BPF_CORE_READ(regs, orig_ax) == SYSTEM_CALL_FUTEX ? BPF_CORE_READ(regs, di) : 0;
}

#endif
