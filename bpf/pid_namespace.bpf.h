/* SPDX-License-Identifier: MIT */
/* The ids of the current thread and its process. */
#ifndef PID_NAMESPACE_BPF_H
#define PID_NAMESPACE_BPF_H

#include "vmlinux.h"
#include <bpf/bpf_helpers.h>

/*
 * Set *IDS to the ids in the pid namespace with device DEV and inode INO; INO 0: the initial
 * namespace. Returns 0 if the process is in another pid namespace, even in a descendant of this
 * one; else 1.
 */
static __always_inline int ids_in_namespace(__u64 dev, __u64 ino, struct bpf_pidns_info *ids)
{
	__u64 both;

	if (ino)
		return bpf_get_ns_current_pid_tgid(dev, ino, ids, sizeof(*ids)) == 0;
	both = bpf_get_current_pid_tgid();
	ids->tgid = both >> 32;
	ids->pid = (__u32)both;
	return 1;
}

#endif
