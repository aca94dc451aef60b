/* SPDX-License-Identifier: MIT */
/* Histograms of floats; see measure_floats.h. */
#ifndef MEASURE_FLOATS_BPF_H
#define MEASURE_FLOATS_BPF_H

#include "args.bpf.h"
#include "measure_core.bpf.h"
#include "measure_floats.h"

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__type(key, __u32);
	__type(value, struct measure_floats);
	__uint(max_entries, 1);
} float_histograms SEC(".maps");

/* Nonzero if a float was counted. While this is 0, user space need not read float_histograms. */
volatile __u32 has_floats;

/* Add NUMBER to SUM, an integer of 128 bits in two's complement, the lower half first. */
static __always_inline void add_to_sum(__u64 *sum, __s64 number)
{
	const __u64 low = (__u64)number, before = __sync_fetch_and_add(&sum[0], low);
	__s64 high = number < 0 ? -1 : 0;

	if (before + low < before)
		high++;
	if (high)
		add_atomically(&sum[1], (__u64)high);
}

static __always_inline void add_finite(struct measure_floats *floats, __u64 bits)
{
	const __u64 ordered = measure_float_ordered(bits);
	__u32 bucket = measure_float_bucket_of(bits);
	__s64 number;
	__u32 group = measure_float_group(bits, &number);

	add_atomically(&floats->count, 1);
	args_keep(group);
	if (group < MEASURE_FLOAT_GROUPS)
		add_to_sum(floats->sums[group], number);
	raise_highest(&floats->max, ordered);
	raise_highest(&floats->min_not, ~ordered);
	args_keep(bucket);
	if (bucket < MEASURE_FLOAT_BUCKETS)
		add_atomically(&floats->buckets[bucket], 1);
}

static __always_inline void add_float(__u32 histogram, __u64 bits)
{
	const __u64 size = bits & ~FLOAT_SIGN;
	struct measure_floats *floats = bpf_map_lookup_elem(&float_histograms, &histogram);

	if (!floats)
		return;
	if (!has_floats)
		has_floats = 1;
	if (size < FILTER_INFINITY_BITS)
		add_finite(floats, bits);
	else if (size > FILTER_INFINITY_BITS)
		add_atomically(&floats->nan, 1);
	else if (size == bits)
		add_atomically(&floats->inf, 1);
	else
		add_atomically(&floats->minus_inf, 1);
}

#endif
