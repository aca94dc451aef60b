/* SPDX-License-Identifier: MIT */
/*
 * What count.bpf.c and its user side (src/count/engine_bpf.c) share. The includer provides the
 * __u32 and __u64 types: vmlinux.h there, linux/types.h here.
 */
#ifndef COUNT_H
#define COUNT_H

/* Set between open and load; the verifier then drops the code of what is off. */
struct count_config {
	/*
	 * Count this process only, by its id in its own pid namespace, which is the one with the
	 * device and inode below; 0: the kernel filters, count whatever comes.
	 */
	__u32 tgid;
	__u32 reserved;
	__u64 pidns_dev; /* as the kernel packs it: major << 20 | minor */
	__u64 pidns_ino;
};

_Static_assert(sizeof(struct count_config) == 24, "shared by two compilers");

#endif
