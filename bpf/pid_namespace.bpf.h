/* SPDX-License-Identifier: MIT */
/* Finds the thread id and the process id of the current thread in a pid namespace. */
#ifndef PID_NAMESPACE_BPF_H
#define PID_NAMESPACE_BPF_H

#include "vmlinux.h"
#include <bpf/bpf_helpers.h>

/*
 * Set *IDS to the ids in the pid namespace with device DEV and inode INO; INO 0 means the initial
 * namespace. Returns 0 if the process belongs to another pid namespace, even if that is a
 * descendant of this namespace; else 1.
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
