/* SPDX-License-Identifier: MIT */
/*
 * The map site_args: where the arguments of each site are. The structs that describe sites,
 * measure_site and memprof_site, have the index of the site's entry in `args`. User space sets
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
