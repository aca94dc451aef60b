/* SPDX-License-Identifier: MIT */
/* Loads one of the variants of bpf/measure.bpf.c into the kernel. */
#ifndef MEASURE_BPF_OBJECT_H
#define MEASURE_BPF_OBJECT_H

#include <linux/types.h>
#include <stdbool.h>
#include <stdint.h>
#include "args.h"
#include "measure.h"
#include "measure_by.h"

enum bpf_variant { BPF_MULTI, BPF_FULL, BPF_SLOWER, BPF_STACKS, BPF_BY, BPF_PERF };

/* The number of entries of the maps; 0 counts as 1. */
struct bpf_object_sizes {
	uint32_t hits; /* the sum over all CPUs */
	uint32_t sites, roles, pairs, open_starts, key_starts, frames, frame_users, keys, tgids,
		marks, processes;
	/* not for BPF_MULTI and BPF_PERF */
	uint32_t site_args, histograms, key_users, compared, domain_pairs;
	uint32_t print_bytes; /* a power of 2 of whole pages, or 0 */
	/* only for BPF_STACKS */
	uint32_t walked_processes, walks; /* walks: room for walks at the same time */
	/* only for BPF_BY; by_times has config.by_max_times + MEASURE_MAX_PAIRS entries */
	uint32_t by_hits, by_probes;
};

/* The settings that the programs are loaded with. */
struct bpf_object_setup {
	struct measure_config config;
	const struct filter *filter; /* NULL: none; not for BPF_MULTI and BPF_PERF */
	struct bpf_object_sizes sizes;
};

struct bpf_object {
	void *skel;
	void (*destroy)(void *skel);
	volatile struct measure_gate *gate;
	const volatile __u32 *has_floats; /* see measure_floats.bpf.h; NULL: not in the variant */
	/* Descriptors of programs and maps, closed by bpf_object_unload. -1: not in the variant. */
	int hit, thread_exit, process_fork;
	int hits, site_table, roles, pair_stats, pair_open, key_open, frame_open, keyed, tgids,
		process_hits, losses, marks, serials, bss;
	int site_args, histograms, float_histograms, prints, domain_pairs;
	int process_exec, walk_tables, walk_rules, walk_processes, walk_files, walk_news, stacks,
		stack_losses, stack_counts, walk_costs;
	int by_hits, by_others, by_pairs, by_times;
};

/*
 * Load VARIANT into the kernel with SETUP, and fill in OBJECT. Return 0, or the kernel's negative
 * errno; then there is nothing to unload.
 */
int bpf_object_load(enum bpf_variant variant, const struct bpf_object_setup *setup,
		    struct bpf_object *object);
void bpf_object_unload(struct bpf_object *object);

#endif
