/* SPDX-License-Identifier: MIT */
/*
 * The options of engine_bpf for tests, and the declarations that the engine_bpf*.c files share. All
 * other code uses engine_ops.
 */
#ifndef MEASURE_ENGINE_BPF_H
#define MEASURE_ENGINE_BPF_H

#include <stdbool.h>
#include "kernel/bpf_object.h"
#include "kernel/bpf_support.h"
#include "measure/engine/engine.h"

enum { HITS_A_PAGE = 512 }; /* 4096 / sizeof(u64) */

/* Return the value of measure_config.hits_stride for N_SITES. */
static inline size_t engine_bpf_hits_stride(size_t n_sites)
{
	return (n_sites + HITS_A_PAGE) & ~(size_t)(HITS_A_PAGE - 1);
}

struct engine_bpf_options {
	/* Let the BPF program select the process, even if the kernel's filter works. */
	bool filter_in_bpf;
	/* Behave as on a kernel without uprobe_multi. */
	bool perf_events;
};

/* Like engine_bpf.open, with OPTIONS, which may be NULL. */
int engine_bpf_open(struct ocp_ctx *ctx, const struct engine_spec *spec,
		    const struct engine_bpf_options *options, struct engine **out);

struct print_ring;

struct engine_link {
	int fd;
	/* the serial in the cookies; perf events that are made together have the same serial */
	uint32_t serial;
	/*
	 * `first`: the number of the first site of the link's file; for a perf event, the number of
	 * its site. `n_sites`: the number of sites of the link; 0 for a tracepoint.
	 */
	size_t first, n_sites;
	bool is_return; /* the link is for return probes */
};

/* A process in `tgids`. */
struct listed_process {
	pid_t pid; /* in our pid namespace */
	__u32 id;  /* in the pid namespace that the BPF programs use */
};

struct engine {
	struct ocp_ctx *ctx;
	struct bpf_support support;
	struct bpf_object object;
	struct measure_config config;
	size_t max_sites, n_sites; /* all attached sites have numbers below n_sites */
	size_t n_pairs;
	struct engine_by by;
	bool *is_stop;	      /* by role: whether the role ends a pair */
	uint32_t *role_pairs; /* by role: the number of its pair */
	bool *if_confirmed;   /* by pair: only confirmed calls are timed */
	size_t n_cpus;
	bool kernel_filters; /* for files with one process, the kernel selects the process */
	bool uses_perf;	     /* uses perf events, one per site, instead of uprobe_multi links */
	bool sees_exits;     /* the programs remove an exiting process from `tgids` */
	bool is_pinned;	     /* the engine continues to measure after close */
	bool is_attached;
	struct listed_process *listed;
	size_t n_listed;
	struct engine_link *links; /* closing these detaches the engine */
	size_t n_links, room_for_links;
	uint32_t last_serial;
	/*
	 * The map `serials`, mapped into memory. By site: the serial of the link that counts the
	 * site; 0: no link.
	 */
	volatile __u64 *serials;
	/* by site: whether the site's semaphore must not be used, see uprobe_link.c */
	bool *no_semaphore;
	size_t n_histograms;
	size_t max_args, n_args; /* the first n_args entries of site_args are written */
	/* the map `hits`, mapped into memory: n_cpus * hits_stride entries */
	volatile __u64 *hits;
	size_t hits_stride, hits_bytes;
	struct print_ring *ring;     /* NULL: nothing is printed */
	struct stack_walker *walker; /* NULL: stacks are not walked */
};

/*
 * engine_bpf_read.c: print_ring_open() makes a reader of the ring buffer with the descriptor
 * MAP_FD, which has BYTES bytes. If DEPTH is not 0, the records are struct measure_stack_record,
 * with stacks of up to DEPTH frames. print_ring_open() returns 0 or a negative errno,
 * print_ring_close() accepts NULL, print_ring_take() implements engine_ops.print,
 * and print_ring_until() engine_ops.printed_until.
 */
int print_ring_open(int map_fd, size_t bytes, unsigned int depth, struct print_ring **out);
void print_ring_close(struct print_ring *ring);
int print_ring_take(struct print_ring *ring, bool all, engine_print_fn fn, void *data);
int64_t print_ring_until(const struct print_ring *ring);

/* Return whether SPLIT requires counting by thread id, by process id, or by neither. */
enum measure_keyed_by engine_bpf_keyed_by(enum ocp_split split);

/* Create an engine without loading any program. */
int engine_bpf_new(struct ocp_ctx *ctx, struct engine **out);

/* engine_bpf_pins.c: see engine_ops. */
int engine_bpf_pin(struct engine *engine, const char *folder);
int engine_bpf_open_pinned(struct ocp_ctx *ctx, const char *folder, const struct engine_spec *spec,
			   struct engine **out);

/* engine_bpf_read.c: see engine_ops. EXE is engine_spec.exe. */
int engine_bpf_open_stacks(struct engine *engine, const char *exe);
int engine_bpf_walk(struct engine *engine, pid_t pid);
int engine_bpf_refresh_stacks(struct engine *engine);
struct stack_walker *engine_bpf_walker(struct engine *engine);
int engine_bpf_read_stacks(struct engine *engine, struct engine_stacks *stacks);

/* Make room for N more links. */
int engine_bpf_room_for_links(struct engine *engine, size_t n);

/* Map the map `hits` into memory, and unmap it. Unmapping does nothing if it is not mapped. */
int engine_bpf_map_hits(struct engine *engine);
void engine_bpf_unmap_hits(struct engine *engine);
/*
 * Set HITS[0..N) to the counts of the N sites from number FIRST on, and reset these counts in the
 * map to 0. The sites must be detached, so that no program counts them any more.
 */
void engine_bpf_take_hits(struct engine *engine, size_t first, size_t n, uint64_t *hits);
int engine_bpf_read(struct engine *engine, struct engine_reading *reading);
int engine_bpf_forget(struct engine *engine, engine_ended_fn has_ended, void *data,
		      struct engine_keyed **dropped, size_t *n);

/* engine_bpf_open.c: see engine_ops.read_open. */
int engine_bpf_read_open(struct engine *engine, struct engine_opens *opens);

#endif
