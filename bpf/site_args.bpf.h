/* SPDX-License-Identifier: MIT */
/*
 * The map site_args, which says where the arguments of sites are. The member `args` of measure_site
 * and of memprof_site is the index of the site's entry in this map. User space sets max_entries.
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
