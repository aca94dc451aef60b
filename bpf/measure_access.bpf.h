/* SPDX-License-Identifier: MIT */
/*
 * May the user who measures read the memory of the task that hits a site? User space asks the
 * kernel for each process that it finds (by opening files in /proc/PID), but uprobes are in a file:
 * processes that start later, or that are not shown, hit them too. So where the measuring process
 * has no CAP_SYS_PTRACE the program asks at each hit, before it counts anything.
 *
 * The conditions are those of ptrace_may_access(PTRACE_MODE_READ_FSCREDS) in kernel/ptrace.c and of
 * cap_ptrace_access_check() in security/commoncap.c, without the exceptions that they make for
 * CAP_SYS_PTRACE: the task's user and group ids are all ours, its memory is dumpable, it is in our
 * user namespace, and has no capability that we do not have. What a security module (SELinux,
 * AppArmor) would say is not known here.
 *
 * The fields are read directly, not by a helper, which takes a few ns in all. A layout of the
 * kernel's that is not known here makes the load fail, except for the place of the dumpable bits.
 */
#ifndef MEASURE_ACCESS_BPF_H
#define MEASURE_ACCESS_BPF_H

#include "measure_core.bpf.h"

enum {
	DUMPABLE_MASK = 3, /* MMF_DUMPABLE_MASK in linux/mm_types.h */
	DUMPABLE_BY_USER = 1,
};

/* Until Linux 6.17 the flags are one word, then a bitmap of which that word is the first. */
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

	/* A task without memory of its own has none that could be read. */
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
	/* Two words of 32 bits before Linux 6.3, one of 64 since: the same bytes. */
	if (bpf_core_read(&capabilities, sizeof(capabilities), &cred->cap_permitted) ||
	    capabilities & ~config.capabilities)
		return 0;
	return is_dumpable(task->mm);
}

#endif
