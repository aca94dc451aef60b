/* SPDX-License-Identifier: MIT */
/* Makes maps of BPF programs, and reads all entries of a map. */
#ifndef KERNEL_MAPS_H
#define KERNEL_MAPS_H

#include <stddef.h>
#include <stdint.h>
#include "base/ctx.h"

/*
 * Return the number of possible CPUs, or a negative errno. A per-CPU map has a value for each
 * possible CPU. Print nothing.
 */
int possible_cpus(void);

/*
 * Add up, over all CPUs, entry 0 of the per-CPU array FD. The entry is a struct of N counters of
 * type __u64; write the sums to SUMS, a struct of the same type. Return 0 or a negative errno.
 */
int map_sum_counters(int fd, void *sums, size_t n);

/*
 * Make an array map called NAME with N values of VALUE_BYTES bytes. FLAGS are those of linux/bpf.h.
 * Return the map's descriptor or a negative errno.
 */
int map_create_array(const char *name, size_t value_bytes, size_t n, uint32_t flags);

/*
 * Read all entries of the BPF map FD, a hash map or an array, which has at most ROOM entries. Sets
 * *N to their number, *KEYS to an array of their keys, and *VALUES to an array of their values in
 * the same order. The caller frees both arrays, also after an error.
 */
int map_read_all(struct ocp_ctx *ctx, int fd, size_t key_bytes, size_t value_bytes, size_t room,
		 void **keys, void **values, size_t *n);

#endif
