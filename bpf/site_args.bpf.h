/* SPDX-License-Identifier: MIT */
/*
 * The arguments of sites: a site has the number of its entry. The user side sets the number of
 * entries.
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
