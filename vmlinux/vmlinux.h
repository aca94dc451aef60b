/* SPDX-License-Identifier: MIT */
/*
 * vmlinux.h - the few kernel types that our BPF programs use, in the place of a dump of the
 * running kernel's BTF.
 *
 * A full dump is 135 000 lines (0.5 s a compile) and differs from machine to machine. This header
 * is the same everywhere and stays right on other kernels for two reasons:
 *
 *   - Types of the kernel's user-space API (scalars, map types, what helpers fill in) never change;
 *     they are copied as they are.
 *   - Types of the kernel's inside stand between the two pragmas below: their fields are found by
 *     NAME when the program is loaded (CO-RE), so a type lists only the fields that are used, in
 *     any order. Reading one makes a load need the kernel's BTF (/sys/kernel/btf/vmlinux).
 *
 * To add a type: `make vmlinux-dump`, look it up in build/vmlinux.h, copy the fields you read.
 */
#ifndef VMLINUX_H
#define VMLINUX_H

typedef signed char __s8;
typedef unsigned char __u8;
typedef short __s16;
typedef unsigned short __u16;
typedef int __s32;
typedef unsigned int __u32;
typedef long long __s64;
typedef unsigned long long __u64;

/* Mentioned by bpf_helper_defs.h. */
typedef __u16 __be16;
typedef __u32 __be32;
typedef __u32 __wsum;

/* ---- user-space API ------------------------------------------------------------------------- */

enum bpf_map_type {
	BPF_MAP_TYPE_HASH = 1,
	BPF_MAP_TYPE_ARRAY = 2,
	BPF_MAP_TYPE_PERCPU_ARRAY = 6,
	BPF_MAP_TYPE_ARRAY_OF_MAPS = 12,
	BPF_MAP_TYPE_RINGBUF = 27,
};

/* What bpf_get_ns_current_pid_tgid() fills in. */
struct bpf_pidns_info {
	__u32 pid;
	__u32 tgid;
};

/* The context of a raw tracepoint program: the tracepoint's arguments. */
struct bpf_raw_tracepoint_args {
	__u64 args[0];
};

/* ---- the kernel's inside: fields are found by name ------------------------------------------ */

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

/* The context of a uprobe program (x86-64): the registers at the probe. */
struct pt_regs {
	unsigned long r15, r14, r13, r12, bp, bx;
	unsigned long r11, r10, r9, r8, ax, cx, dx, si, di;
	unsigned long orig_ax, ip, cs, flags, sp, ss;
};

/* By this name the verifier knows a context that is handed to a global function. */
typedef struct pt_regs bpf_user_pt_regs_t;

struct super_block {
	__u32 s_dev;
};

struct inode {
	unsigned long i_ino;
	struct super_block *i_sb;
};

struct file {
	struct inode *f_inode;
};

struct maple_range_64 {
	unsigned long pivot[15];
	void *slot[16];
};

struct maple_arange_64 {
	unsigned long pivot[9];
	void *slot[10];
};

struct maple_tree {
	void *ma_root;
};

typedef struct {
	void *vdso;
} mm_context_t;

struct mm_struct {
	struct file *exe_file;
	struct maple_tree mm_mt;
	mm_context_t context;
};

struct vm_area_struct {
	unsigned long vm_start, vm_end;
	struct mm_struct *vm_mm;
	unsigned long vm_flags;
	unsigned long vm_pgoff;
	struct file *vm_file;
};

typedef struct {
	int counter;
} atomic_t;

struct signal_struct {
	atomic_t live; /* threads that have not begun to exit */
};

struct ns_common {
	unsigned int inum;
};

struct pid_namespace {
	struct ns_common ns;
};

struct upid {
	int nr;
	struct pid_namespace *ns;
};

struct pid {
	unsigned int level; /* of the innermost namespace it has a number in */
	struct upid numbers[1];
};

typedef struct {
	__u32 val;
} kuid_t;

typedef struct {
	__u32 val;
} kgid_t;

typedef struct {
	__u64 val;
} kernel_cap_t;

struct user_namespace {
	struct ns_common ns;
};

struct cred {
	kuid_t uid, suid, euid;
	kgid_t gid, sgid, egid;
	kernel_cap_t cap_permitted;
	struct user_namespace *user_ns;
};

struct sched_entity {
	__u64 sum_exec_runtime; /* nanoseconds */
};

struct task_struct {
	int pid, tgid;
	struct sched_entity se;
	const struct cred *real_cred;
	struct pid *thread_pid;
	struct signal_struct *signal;
	struct mm_struct *mm;
	struct task_struct *group_leader;
	char comm[16];
	unsigned int __state;
	unsigned long nvcsw, nivcsw; /* how often the thread has given up a CPU */
};

struct bpf_iter_meta;

struct bpf_iter__task {
	struct bpf_iter_meta *meta;
	struct task_struct *task;
};

#pragma clang attribute pop

#endif
