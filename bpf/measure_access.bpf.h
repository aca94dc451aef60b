/* SPDX-License-Identifier: MIT */
/*
 * Whether the measuring user may read the memory of the task that hits a site. For the processes
 * that it finds, user space asks the kernel (by opening files in /proc/PID). But uprobes belong to
 * files: processes that start later, or that are hidden, hit them too. So if the measuring process
 * lacks CAP_SYS_PTRACE, the program checks each hit before it counts anything.
 *
 * The conditions are those of ptrace_may_access(PTRACE_MODE_READ_FSCREDS) in kernel/ptrace.c and of
 * cap_ptrace_access_check() in security/commoncap.c, without the exceptions for CAP_SYS_PTRACE: the
 * user and group ids of the task are ours, its memory is dumpable, it is in our user namespace, and
 * it has no capability that we lack. Security modules (SELinux, AppArmor) are not considered.
 *
 * The fields are read directly, without a helper, which takes a few ns in all. An unknown layout of
 * the kernel's structures makes the load fail, except for the place of the dumpable bits.
 */
#ifndef MEASURE_ACCESS_BPF_H
#define MEASURE_ACCESS_BPF_H

#include "measure_core.bpf.h"

enum {
	DUMPABLE_MASK = 3, /* MMF_DUMPABLE_MASK in linux/mm_types.h */
	DUMPABLE_BY_USER = 1,
};

/*
 * Before Linux 6.18 the flags are one word; since then they are a bitmap that begins with this
 * word.
 */
struct mm_struct___before_6_18 {
	unsigned long flags;
} __attribute__((preserve_access_index));

struct mm_struct___since_6_18 {
	struct {
		unsigned long __mm_flags[1];
	} flags;
} __attribute__((preserve_access_index));

static __always_inline int is_dumpable(struct mm_struct *mm)
{
	struct mm_struct___before_6_18 *before = (void *)mm;
	struct mm_struct___since_6_18 *since = (void *)mm;
	unsigned long flags = DUMPABLE_BY_USER;

	/* A task without memory of its own (a kernel thread). */
	if (!mm)
		return 0;
	if (bpf_core_field_exists(since->flags.__mm_flags))
		flags = BPF_CORE_READ(since, flags.__mm_flags[0]);
	else if (bpf_core_field_exists(before->flags))
		flags = BPF_CORE_READ(before, flags);
	return (flags & DUMPABLE_MASK) == DUMPABLE_BY_USER;
}

static __always_inline int may_inspect_current(void)
{
	struct task_struct *task = bpf_get_current_task_btf();
	const struct cred *cred = task->real_cred;
	__u64 capabilities;

	if (cred->uid.val != config.uid || cred->euid.val != config.uid ||
	    cred->suid.val != config.uid || cred->gid.val != config.gid ||
	    cred->egid.val != config.gid || cred->sgid.val != config.gid)
		return 0;
	if (cred->user_ns->ns.inum != config.userns_ino)
		return 0;
	/* Two words of 32 bits before Linux 6.3, one of 64 since then: the bytes are the same. */
	if (bpf_core_read(&capabilities, sizeof(capabilities), &cred->cap_permitted) ||
	    capabilities & ~config.capabilities)
		return 0;
	return is_dumpable(task->mm);
}

#endif
