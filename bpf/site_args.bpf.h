/* SPDX-License-Identifier: MIT */
/*
 * The arguments of sites. The struct of a site has the index of its entry. User space sets
 * max_entries.
 */
#ifndef SITE_ARGS_BPF_H
#define SITE_ARGS_BPF_H

#include "args.bpf.h"

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__type(key, __u32);
	__type(value, struct site_args);
	__uint(max_entries, 1);
} site_args SEC(".maps");

#endif
