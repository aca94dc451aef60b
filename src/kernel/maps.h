/* SPDX-License-Identifier: MIT */
/* Maps of BPF programs: makes them, and reads whole ones. */
#ifndef KERNEL_MAPS_H
#define KERNEL_MAPS_H

#include <stddef.h>
#include <stdint.h>
#include "base/ctx.h"

/*
 * Return the number of possible CPUs, for each of which a per-CPU map has a value, or a negative
 * errno. Print nothing.
 */
int possible_cpus(void);

/*
 * Add up entry 0 of the per-CPU array FD, whose value is a struct of N counters of type __u64, over
 * all CPUs, and set SUMS, a struct of the same type, to the result. Return 0 or a negative errno.
 */
int map_sum_counters(int fd, void *sums, size_t n);

/*
 * Make an array NAME of N values of VALUE_BYTES, with FLAGS of linux/bpf.h. Return its descriptor
 * or a negative errno.
 */
int map_create_array(const char *name, size_t value_bytes, size_t n, uint32_t flags);

/*
 * Read the BPF hash map FD, which has at most ROOM entries. Sets *KEYS to its *N keys, and *VALUES
 * to their values in the same order. The caller frees both lists, also after an error.
 */
int map_read_all(struct ocp_ctx *ctx, int fd, size_t key_bytes, size_t value_bytes, size_t room,
		 void **keys, void **values, size_t *n);

#endif
