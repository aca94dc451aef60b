// SPDX-License-Identifier: MIT
/*
 * The objects are light skeletons of bpftool: a loader program that the kernel runs. Loading takes
 * 0.5 ms and parses no ELF or BTF here. Unlike libbpf's object loader, it neither prints (through
 * one callback per process, stderr by default) nor raises RLIMIT_MEMLOCK; a library must do
 * neither. Only thin system call wrappers of libbpf are used.
 *
 * Each skeleton has its own type. The macro below defines the function that loads it and fills in
 * the common type.
 */
#include "measure/engine/bpf_object.h"

#include <errno.h>
#include <string.h>
#include "measure_by.skel.h"
#include "measure_full.skel.h"
#include "measure_multi.skel.h"
#include "measure_perf.skel.h"
#include "measure_slower.h"
#include "measure_slower.skel.h"
#include "measure_stacks.skel.h"

static uint32_t at_least_1(uint32_t n)
{
	return n ? n : 1;
}

/* Members that measure_multi and measure_perf lack, to set before and after their load. */
#define DEFINE_FULL(variant)                                                                       \
	static void prepare_full_##variant(struct variant##_bpf *skel,                             \
					   const struct bpf_object_setup *setup)                   \
	{                                                                                          \
		if (setup->filter)                                                                 \
			memcpy((void *)&skel->rodata->filter, setup->filter,                       \
			       sizeof(*setup->filter));                                            \
		skel->maps.site_args.max_entries = at_least_1(setup->sizes.site_args);             \
		skel->maps.histograms.max_entries = at_least_1(setup->sizes.histograms);           \
		skel->maps.float_histograms.max_entries = at_least_1(setup->sizes.histograms);     \
		skel->maps.key_users.max_entries = at_least_1(setup->sizes.key_users);             \
		skel->maps.compared.max_entries = at_least_1(setup->sizes.compared);               \
		skel->maps.domain_pairs.max_entries = at_least_1(setup->sizes.domain_pairs);       \
		if (setup->sizes.print_bytes)                                                      \
			skel->maps.prints.max_entries = setup->sizes.print_bytes;                  \
	}                                                                                          \
                                                                                                   \
	static void complete_full_##variant(const struct variant##_bpf *skel,                      \
					    struct bpf_object *object)                             \
	{                                                                                          \
		object->process_fork = skel->progs.process_fork.prog_fd;                           \
		object->site_args = skel->maps.site_args.map_fd;                                   \
		object->histograms = skel->maps.histograms.map_fd;                                 \
		object->float_histograms = skel->maps.float_histograms.map_fd;                     \
		object->has_floats = &skel->bss->has_floats;                                       \
		object->prints = skel->maps.prints.map_fd;                                         \
		object->domain_pairs = skel->maps.domain_pairs.map_fd;                             \
	}

DEFINE_FULL(measure_full)
DEFINE_FULL(measure_slower)
DEFINE_FULL(measure_stacks)
DEFINE_FULL(measure_by)

static void prepare_measure_slower(struct measure_slower_bpf *skel,
				   const struct bpf_object_setup *setup)
{
	prepare_full_measure_slower(skel, setup);
	skel->maps.slow_open.max_entries = SLOW_STARTS;
}

static void prepare_measure_stacks(struct measure_stacks_bpf *skel,
				   const struct bpf_object_setup *setup)
{
	prepare_full_measure_stacks(skel, setup);
	skel->maps.walk_processes.max_entries = at_least_1(setup->sizes.walked_processes);
	skel->maps.walk_scratch.max_entries = at_least_1(setup->sizes.walks);
}

static void complete_measure_stacks(const struct measure_stacks_bpf *skel,
				    struct bpf_object *object)
{
	complete_full_measure_stacks(skel, object);
	object->process_exec = skel->progs.process_exec.prog_fd;
	object->walk_tables = skel->maps.walk_tables.map_fd;
	object->walk_rules = skel->maps.walk_rules.map_fd;
	object->walk_processes = skel->maps.walk_processes.map_fd;
	object->walk_files = skel->maps.walk_files.map_fd;
	object->walk_news = skel->maps.walk_news.map_fd;
	object->stacks = skel->maps.stacks.map_fd;
	object->stack_counts = skel->maps.stack_counts.map_fd;
	object->stack_losses = skel->maps.stack_losses.map_fd;
	object->walk_costs = skel->maps.walk_costs.map_fd;
}

static void prepare_measure_by(struct measure_by_bpf *skel, const struct bpf_object_setup *setup)
{
	prepare_full_measure_by(skel, setup);
	skel->maps.by_hits.max_entries = at_least_1(setup->sizes.by_hits);
	skel->maps.by_others.max_entries = at_least_1(setup->sizes.by_probes);
	skel->maps.by_pairs.max_entries = at_least_1(setup->config.by_max_times);
	skel->maps.by_times.max_entries = setup->config.by_max_times + MEASURE_MAX_PAIRS;
	skel->maps.by_open.max_entries = at_least_1(setup->sizes.open_starts);
	skel->maps.by_key_open.max_entries = at_least_1(setup->sizes.key_starts);
}

static void complete_measure_by(const struct measure_by_bpf *skel, struct bpf_object *object)
{
	complete_full_measure_by(skel, object);
	object->by_hits = skel->maps.by_hits.map_fd;
	object->by_others = skel->maps.by_others.map_fd;
	object->by_pairs = skel->maps.by_pairs.map_fd;
	object->by_times = skel->maps.by_times.map_fd;
}

#define prepare_measure_full	prepare_full_measure_full
#define complete_measure_full	complete_full_measure_full
#define complete_measure_slower complete_full_measure_slower
#define prepare_measure_multi(skel, setup)
#define prepare_measure_perf(skel, setup)
#define complete_measure_multi(skel, object)
#define complete_measure_perf(skel, object)

#define DEFINE_LOAD(variant)                                                                       \
	static void destroy_##variant(void *skel)                                                  \
	{                                                                                          \
		variant##_bpf__destroy(skel);                                                      \
	}                                                                                          \
                                                                                                   \
	static int load_##variant(const struct bpf_object_setup *setup, struct bpf_object *object) \
	{                                                                                          \
		const struct bpf_object_sizes *sizes = &setup->sizes;                              \
		struct variant##_bpf *skel = variant##_bpf__open();                                \
		int err;                                                                           \
                                                                                                   \
		if (!skel)                                                                         \
			return -ENOMEM;                                                            \
		memcpy(&skel->rodata->config, &setup->config, sizeof(setup->config));              \
		skel->maps.hits.max_entries = at_least_1(sizes->hits);                             \
		skel->maps.site_table.max_entries = at_least_1(sizes->sites);                      \
		skel->maps.roles.max_entries = at_least_1(sizes->roles);                           \
		skel->maps.pair_stats.max_entries = at_least_1(sizes->pairs);                      \
		skel->maps.pair_open.max_entries = at_least_1(sizes->open_starts);                 \
		skel->maps.key_open.max_entries = at_least_1(sizes->key_starts);                   \
		skel->maps.frame_open.max_entries = at_least_1(sizes->frames);                     \
		skel->maps.frame_users.max_entries = at_least_1(sizes->frame_users);               \
		skel->maps.keyed.max_entries = at_least_1(sizes->keys);                            \
		skel->maps.tgids.max_entries = at_least_1(sizes->tgids);                           \
		skel->maps.process_hits.max_entries = at_least_1(sizes->processes);                \
		skel->maps.marks.max_entries = at_least_1(sizes->marks);                           \
		skel->maps.serials.max_entries = at_least_1(sizes->sites);                         \
		prepare_##variant(skel, setup);                                                    \
		err = variant##_bpf__load(skel);                                                   \
		if (err) {                                                                         \
			variant##_bpf__destroy(skel);                                              \
			return err;                                                                \
		}                                                                                  \
		*object = (struct bpf_object){                                                     \
			.skel = skel,                                                              \
			.destroy = destroy_##variant,                                              \
			.gate = (void *)&skel->bss->gate,                                          \
			.hit = skel->progs.hit.prog_fd,                                            \
			.thread_exit = skel->progs.thread_exit.prog_fd,                            \
			.process_fork = -1,                                                        \
			.site_args = -1,                                                           \
			.histograms = -1,                                                          \
			.float_histograms = -1,                                                    \
			.prints = -1,                                                              \
			.domain_pairs = -1,                                                        \
			.stacks = -1,                                                              \
			.hits = skel->maps.hits.map_fd,                                            \
			.site_table = skel->maps.site_table.map_fd,                                \
			.roles = skel->maps.roles.map_fd,                                          \
			.pair_stats = skel->maps.pair_stats.map_fd,                                \
			.pair_open = skel->maps.pair_open.map_fd,                                  \
			.key_open = skel->maps.key_open.map_fd,                                    \
			.frame_open = skel->maps.frame_open.map_fd,                                \
			.keyed = skel->maps.keyed.map_fd,                                          \
			.tgids = skel->maps.tgids.map_fd,                                          \
			.process_hits = skel->maps.process_hits.map_fd,                            \
			.losses = skel->maps.losses.map_fd,                                        \
			.marks = skel->maps.marks.map_fd,                                          \
			.serials = skel->maps.serials.map_fd,                                      \
			.bss = skel->maps.bss.map_fd,                                              \
		};                                                                                 \
		complete_##variant(skel, object);                                                  \
		return 0;                                                                          \
	}

DEFINE_LOAD(measure_multi)
DEFINE_LOAD(measure_full)
DEFINE_LOAD(measure_slower)
DEFINE_LOAD(measure_stacks)
DEFINE_LOAD(measure_by)
DEFINE_LOAD(measure_perf)

int bpf_object_load(enum bpf_variant variant, const struct bpf_object_setup *setup,
		    struct bpf_object *object)
{
	switch (variant) {
	case BPF_MULTI:
		return load_measure_multi(setup, object);
	case BPF_PERF:
		return load_measure_perf(setup, object);
	case BPF_SLOWER:
		return load_measure_slower(setup, object);
	case BPF_STACKS:
		return load_measure_stacks(setup, object);
	case BPF_BY:
		return load_measure_by(setup, object);
	default:
		return load_measure_full(setup, object);
	}
}

void bpf_object_unload(struct bpf_object *object)
{
	if (object->skel)
		object->destroy(object->skel);
	object->skel = NULL;
}
