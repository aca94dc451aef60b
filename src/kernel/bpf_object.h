/* SPDX-License-Identifier: MIT */
/*
 * Room kernel: makes programs, maps, links and perf events in the kernel.
 * In: the BPF programs of bpf/, offsets of places in files.
 * Out: loaded programs, links, maps; what the kernel supports.
 * Callers: the engines, profiler, stack walker and change/inside (for the time stamp counter).
 */
/*
 * Load BPF programs and their maps into the kernel: all programs except bpf/waiting.bpf.c, which
 * waiting.c loads.
 */
#ifndef KERNEL_BPF_OBJECT_H
#define KERNEL_BPF_OBJECT_H

#include <linux/types.h>
#include <stdbool.h>
#include <stdint.h>
#include "args.h"
#include "base/ctx.h"
#include "measure.h"
#include "measure_by.h"
#include "samples.h"

/* The numbers of entries of the maps; 0 counts as 1. */
struct bpf_object_sizes {
	uint32_t hits; /* the number for all CPUs together */
	uint32_t sites, roles, pairs, open_starts, key_starts, frames, frame_users, keys, tgids,
		marks, processes;
	/* Not used for BPF_MULTI and BPF_PERF: */
	uint32_t site_args, histograms, key_users, compared, domain_pairs;
	uint32_t print_bytes; /* a power of 2 of whole pages, or 0 */
	/* only for BPF_STACKS and bpf/profile.bpf.c, walks also for bpf/memprof.bpf.c */
	uint32_t walked_processes, walks; /* walks: the maximum number of simultaneous walks */
	uint32_t waits;			  /* only for bpf/profile.bpf.c; 0: as declared there */
	uint32_t releases;		  /* like `waits` */
	uint32_t
		moment_bytes; /* only for bpf/profile.bpf.c; as print_bytes; 0: as declared there */
	/* only for BPF_BY; by_times has config.by_max_times + config.n_pairs entries */
	uint32_t by_hits, by_probes;
};

/* What a variant of the programs is loaded with. */
struct bpf_object_setup {
	struct measure_config config;
	const struct filter *filter; /* NULL: no filter; not used for BPF_MULTI and BPF_PERF */
	struct bpf_object_sizes sizes;
};

struct bpf_object {
	void *skel;
	void (*destroy)(void *skel);
	volatile struct measure_gate *gate;
	/* see measure_floats.bpf.h; NULL if the variant lacks it */
	const volatile __u32 *has_floats;
	/*
	 * The descriptors of programs and maps, which bpf_object_unload() closes. -1 if the variant
	 * lacks the program or map.
	 */
	int hit, thread_exit, process_fork;
	int hits, site_table, roles, pair_stats, pair_open, key_open, frame_open, keyed, tgids,
		process_hits, losses, marks, serials, bss;
	int site_args, histograms, float_histograms, prints, domain_pairs, slow_open;
	int process_exec, walk_tables, walk_rules, walk_processes, walk_files, walk_news, stacks,
		stack_losses, stack_counts, walk_costs;
	int by_hits, by_others, by_pairs, by_times;
};

/* The variants of bpf/measure.bpf.c. */
enum bpf_variant { BPF_MULTI, BPF_FULL, BPF_SLOWER, BPF_STACKS, BPF_BY, BPF_PERF };

/*
 * Load VARIANT into the kernel with SETUP, and fill in OBJECT. Return 0, or the kernel's negative
 * errno; after an error there is nothing to unload.
 */
int bpf_object_load(enum bpf_variant variant, const struct bpf_object_setup *setup,
		    struct bpf_object *object);
void bpf_object_unload(struct bpf_object *object);

struct profile_bpf;
struct memprof_bpf;

/*
 * Load bpf/profile.bpf.c with CONFIG and these members of SIZES: walked_processes, walks, waits,
 * releases and moment_bytes. Return 0 and set *SKEL, which the caller destroys by
 * profile_bpf__destroy(), or return a negative errno.
 */
int bpf_profile_load(struct ocp_ctx *ctx, const struct profile_config *config,
		     const struct bpf_object_sizes *sizes, struct profile_bpf **skel);
/*
 * Load bpf/memprof.bpf.c with four members of SIZES: sites, site_args, print_bytes and walks.
 * Return 0 and set *SKEL, which the caller destroys by memprof_bpf__destroy(), or return a negative
 * errno.
 */
int bpf_memprof_load(struct ocp_ctx *ctx, const struct bpf_object_sizes *sizes,
		     struct memprof_bpf **skel);

#endif
