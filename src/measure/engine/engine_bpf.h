/* SPDX-License-Identifier: MIT */
/*
 * What tests may choose about engine_bpf, and what its two files share. Everybody else goes through
 * engine_ops.
 */
#ifndef MEASURE_ENGINE_BPF_H
#define MEASURE_ENGINE_BPF_H

#include <stdbool.h>
#include "measure/engine/bpf_object.h"
#include "measure/engine/bpf_support.h"
#include "measure/engine/engine.h"

enum { HITS_A_PAGE = 512 }; /* 4096 / sizeof(u64) */

/* measure_config.hits_stride of N_SITES. */
static inline size_t engine_bpf_hits_stride(size_t n_sites)
{
	return (n_sites + HITS_A_PAGE) & ~(size_t)(HITS_A_PAGE - 1);
}

struct engine_bpf_options {
	/* Tell the process apart in the BPF program even where the kernel's own filter is sound. */
	bool filter_in_bpf;
	/* As on a kernel without uprobe_multi. */
	bool perf_events;
};

/* As engine_bpf.open; OPTIONS may be NULL. */
int engine_bpf_open(struct ocp_ctx *ctx, const struct engine_spec *spec,
		    const struct engine_bpf_options *options, struct engine **out);

struct print_ring;

struct engine_link {
	int fd;
	uint32_t serial; /* in its cookies; one a call, so that perf events share it */
	size_t first,
		n_sites; /* first site of its file (perf: its site); n_sites is 0 for others */
};

/* A process in `tgids`. */
struct listed_process {
	pid_t pid; /* as we see it */
	__u32 id;  /* as the program does */
};

struct engine {
	struct ocp_ctx *ctx;
	struct bpf_support support;
	struct bpf_object object;
	struct measure_config config;
	size_t max_sites, n_sites; /* the second is above all numbers that were attached */
	size_t n_pairs;
	bool *is_stop; /* of each role */
	size_t n_cpus;
	bool kernel_filters; /* for targets of one process */
	bool uses_perf;	     /* one link a site */
	bool sees_exits;     /* a process that ends leaves `tgids` at once */
	bool is_pinned;	     /* goes on when it is closed here */
	bool is_attached;
	struct listed_process *listed;
	size_t n_listed;
	struct engine_link *links; /* whatever has to be closed to detach */
	size_t n_links, room_for_links;
	uint32_t last_serial;
	volatile __u64 *serials; /* of the map: of the link that counts a site, 0: none */
	bool *no_semaphore;	 /* of each: another tracer is there without (uprobe_link.c) */
	size_t n_histograms;
	size_t max_args, n_args; /* of the second, those written */
	volatile __u64 *hits;	 /* of the map: n_cpus times hits_stride, see bpf/measure.h */
	size_t hits_stride, hits_bytes;
	struct print_ring *ring; /* NULL: nothing is printed */
};

/*
 * engine_bpf_print.c: the reader's side of the ring buffer MAP_FD of BYTES. open returns 0 or a
 * negative errno; close takes NULL; take is engine_ops.print.
 */
int print_ring_open(int map_fd, size_t bytes, struct print_ring **out);
void print_ring_close(struct print_ring *ring);
int print_ring_take(struct print_ring *ring, bool all, engine_print_fn fn, void *data);

/* Which ids of hits are counted for SPLIT. */
enum measure_keyed_by engine_bpf_keyed_by(enum ocp_split split);

/* One without anything loaded. */
int engine_bpf_new(struct ocp_ctx *ctx, struct engine **out);

/* engine_bpf_pins.c: see engine_ops. */
int engine_bpf_pin(struct engine *engine, const char *folder);
int engine_bpf_open_pinned(struct ocp_ctx *ctx, const char *folder, const struct engine_spec *spec,
			   struct engine **out);

/* engine_bpf_links.c: the sites of a target that are not off; see engine_ops.switch_sites. */
int engine_bpf_make_links(struct engine *engine, const struct engine_file *target);
int engine_bpf_switch(struct engine *engine, const struct engine_file *target);
void engine_bpf_give_up(struct engine *engine, size_t first, size_t n, uint64_t *hits);
/* Room for N more. Close all but the first N. */
int engine_bpf_room_for_links(struct engine *engine, size_t n);
void engine_bpf_close_links(struct engine *engine, size_t n);
void engine_bpf_set_gate(struct engine *engine, uint32_t open);
int engine_bpf_map_serials(struct engine *engine);
void engine_bpf_unmap_serials(struct engine *engine);

/* engine_bpf_read.c; unmapping what is not mapped does nothing */
int engine_bpf_map_hits(struct engine *engine);
void engine_bpf_unmap_hits(struct engine *engine);
/* Read those of N sites from FIRST on, of which nobody writes any more, and make them 0. */
void engine_bpf_take_hits(struct engine *engine, size_t first, size_t n, uint64_t *hits);
int engine_bpf_read(struct engine *engine, struct engine_reading *reading);
int engine_bpf_forget(struct engine *engine, engine_ended_fn has_ended, void *data,
		      struct engine_keyed **dropped, size_t *n);

#endif
