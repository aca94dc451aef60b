/* SPDX-License-Identifier: MIT */
/*
 * Checks whether a user who lacks CAP_SYS_PTRACE may read the memory of the current task. User
 * space checks the processes that it finds in /proc by opening files in /proc/PID. The check in
 * this file is for processes that start later or that are hidden in /proc.
 *
 * The conditions are those of ptrace_may_access(PTRACE_MODE_READ_FSCREDS) in kernel/ptrace.c and of
 * cap_ptrace_access_check() in security/commoncap.c, without the exceptions for CAP_SYS_PTRACE: the
 * task's real, effective and saved user and group ids equal the user's ids; the task's memory is
 * dumpable; the task is in the user's user namespace, and has no capability that the user lacks.
 * Security modules (SELinux, AppArmor) are not considered.
 *
 * The fields of the kernel's structures are read directly, without a helper, in a few ns. If one of
 * these fields does not exist in the running kernel, the program cannot be loaded. The field with
 * the dumpable bits is an exception: if it does not exist, each task with user memory counts as
 * dumpable.
 */
#ifndef ACCESS_BPF_H
#define ACCESS_BPF_H

#include "vmlinux.h"
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>

enum {
	DUMPABLE_MASK = 3, /* MMF_DUMPABLE_MASK in linux/mm_types.h */
	DUMPABLE_BY_USER = 1,
};

/*
 * Before Linux 6.18 the flags of a task's memory are one word; since then they are a bitmap whose
 * first word has the same bits.
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

	/* The task has no user memory: it is a kernel thread. */
	if (!mm)
		return 0;
	if (bpf_core_field_exists(since->flags.__mm_flags))
		flags = BPF_CORE_READ(since, flags.__mm_flags[0]);
	else if (bpf_core_field_exists(before->flags))
		flags = BPF_CORE_READ(before, flags);
	return (flags & DUMPABLE_MASK) == DUMPABLE_BY_USER;
}

/*
 * Return 1 if the user with these ids and effective capabilities, in the user namespace with this
 * inode, may inspect the current task.
 */
static __always_inline int may_user_inspect(__u32 uid, __u32 gid, __u64 userns_ino,
					    __u64 capabilities)
{
	struct task_struct *task = bpf_get_current_task_btf();
	const struct cred *cred = task->real_cred;
	__u64 permitted;

	if (cred->uid.val != uid || cred->euid.val != uid || cred->suid.val != uid ||
	    cred->gid.val != gid || cred->egid.val != gid || cred->sgid.val != gid)
		return 0;
	if (cred->user_ns->ns.inum != userns_ino)
		return 0;
	/*
	 * A capability set is two words of 32 bits before Linux 6.3, and one word of 64 bits since
	 * then. The bytes in memory are the same in both cases.
	 */
	if (bpf_core_read(&permitted, sizeof(permitted), &cred->cap_permitted) ||
	    permitted & ~capabilities)
		return 0;
	return is_dumpable(task->mm);
}

/*
 * Return 1 if the current task executes the file with device DEV and inode INO, the kernel's
 * numbers of the file (struct kernel_file).
 */
static __always_inline int current_executes(__u64 dev, __u64 ino)
{
	struct task_struct *task = (void *)bpf_get_current_task();
	struct inode *inode = BPF_CORE_READ(task, mm, exe_file, f_inode);

	return BPF_CORE_READ(inode, i_ino) == ino && BPF_CORE_READ(inode, i_sb, s_dev) == dev;
}

#endif
