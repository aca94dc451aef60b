// SPDX-License-Identifier: MIT
/*
 * Finds the inode of a file that the calling process has mapped: the inode by which the other BPF
 * programs know the file when they find its code in a process. User space runs the program by
 * BPF_PROG_TEST_RUN.
 */
#include "vmlinux.h"
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>
#include "vma.bpf.h"

char LICENSE[] SEC("license") = "Dual MIT/GPL";

__u64 address;	/* set by user space: an address in the mapping of the file */
__u64 dev, ino; /* set by the program; 0: no file is mapped at the address */

static __u64 node[VMA_NODE_WORDS];

SEC("raw_tracepoint/sched_process_exit")
int find_mapped(void *ctx)
{
	struct vma vma;

	(void)ctx;
	dev = ino = 0;
	if (find_vma(node, address, &vma)) {
		dev = vma.dev;
		ino = vma.ino;
	}
	return 0;
}
