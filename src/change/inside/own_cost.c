// SPDX-License-Identifier: MIT
/*
 * Measure what counting inside costs, in this process. A tool cannot trace itself, so the block is
 * not attached: it is built in our own memory. Behind the trampolines, the block has two sites,
 * each in a function that does nothing else, and two more such functions whose sites are switched
 * off. The cost is the time of the first two functions less the time of the other two. For windows,
 * there is a small recursive function instead, with a window at its first instruction, and the same
 * function without one.
 */
#include "change/inside/own_cost.h"

#include <assert.h>
#include <errno.h>
#include <linux/memfd.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>
#include "base/clock.h"
#include "change/inside/build.h"
#include "change/inside/layout.h"
#include "kernel/ticks.h"
#include "change/inside/threads.h"
#include "change/inside/totals.h"

#if __has_include(<sys/rseq.h>)
#include <sys/rseq.h>
#else
#define __rseq_size   0U
#define __rseq_offset 0
#endif

#ifndef MFD_EXEC
#define MFD_EXEC 0x10U /* linux/memfd.h: Linux 6.3 */
#endif

enum {
	SITES = 2,
	N_BATCHES = 40,
	PASSES_A_BATCH = 500,
	CALLS_OF_PASS = 511, /* of the recursive function: it calls itself twice, to a depth of 9 */
	RECURSIVE_PASSES = 4,
	/* Offsets of the functions in the code of the sites. */
	OFF_PASS = 0,
	ON_PASS = 16,
	OFF_SITES = 32,
	ON_SITES = 64,
	SITE_ROOM = 16,
	CALL = 0xe8,
	JMP = 0xe9,
	RET = 0xc3,
	CALL_BYTES = 5,
	EVENT_BYTES = 4 << 20, /* for each event of all batches on any CPU */
};

/* The recursive function, and a function that calls it, except for the distance. */
static const uint8_t recursive[] = {
	0xb8, 1,    0,	  0,	0,    /* mov  $1,%eax    the window */
	0xff, 0xcf,		      /* dec  %edi */
	0x78, 0x0f,		      /* js   the return */
	0x57,			      /* push %rdi */
	CALL, 0xf1, 0xff, 0xff, 0xff, /* call itself */
	0x8b, 0x3c, 0x24,	      /* mov  (%rsp),%edi */
	CALL, 0xe9, 0xff, 0xff, 0xff, /* call itself */
	0x5f,			      /* pop  %rdi */
	RET,
};
static const uint8_t recursive_pass[] = {
	0xbf, 8, 0, 0, 0, /* mov $8,%edi */
	JMP,
};
static_assert(sizeof(recursive) <= ON_SITES - OFF_SITES, "the functions do not overlap");

struct own {
	struct inside *inside; /* describes this process; its block is a writable mapping */
	struct build build;
	struct inside_spec spec;
	struct inside_site sites[SITES];
	struct inside_role roles[SITES];
	struct inside_event event;
	struct inside_filter filter;
	uint8_t *map; /* the mapping of the data (rw-) and, behind it, the code (r-x); NULL: none */
	uint64_t code_off; /* the offset, in the block, of the code of the sites */
};

/* Return true if the first site is a window. There is no other site then. */
static bool is_of_windows(const struct own *own)
{
	return own->sites[0].window != NULL;
}

/* ---- the block ------------------------------------------------------------------------------ */

/* Fill *PROCESS for this process, as threads_examine() does for a stopped one. */
static void examine_self(struct templates_process *process)
{
	const char *fs_base = (const char *)pthread_self();

	*process = (struct templates_process){ .may_call_kernel = true };
	if (*(const int32_t *)(fs_base + THREADS_TID_OFF) == (int32_t)syscall(SYS_gettid))
		process->tid_off = THREADS_TID_OFF;
	if (__rseq_size)
		process->rseq_off = (int32_t)__rseq_offset;
}

static int lay_out(struct own *own, struct ocp_ctx *ctx)
{
	const uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
	struct block_header *header = &own->inside->header;
	int err;

	examine_self(&own->build.process);
	if ((own->spec.n_pairs || own->spec.event_bytes) && !own->build.process.tid_off)
		return ctx_error(ctx, -ENOTSUP,
				 "this C library keeps thread ids at an unknown place");
	err = layout_make(ctx, &own->spec, &own->build.parts,
			  own->build.process.rseq_off ? layout_n_shards(SITES) : 1, header);
	if (err)
		return err;
	own->code_off = header->code_off + header->code_bytes;
	header->code_bytes += page;
	header->parts[0].code_bytes += page;
	header->bytes += page;
	return own->spec.n_pairs || own->spec.event_bytes
		       ? ticks_ns_per_tick(ctx, &header->ns_per_tick)
		       : 0;
}

static int make_memfd(struct ocp_ctx *ctx, uint64_t bytes)
{
	int fd = (int)syscall(SYS_memfd_create, "ocaml-probes-cost", MFD_CLOEXEC | MFD_EXEC);

	if (fd < 0 && errno == EINVAL)
		fd = (int)syscall(SYS_memfd_create, "ocaml-probes-cost", MFD_CLOEXEC);
	if (fd >= 0 && ftruncate(fd, (off_t)bytes) == 0)
		return fd;
	ctx_error(ctx, -errno, "memory for counters of our own: %s", strerror(errno));
	if (fd >= 0)
		close(fd);
	return -1;
}

static int map(struct own *own, struct ocp_ctx *ctx)
{
	struct block_header *header = &own->inside->header;
	const int fd = make_memfd(ctx, header->bytes);
	uint8_t *at;
	bool ok;

	if (fd < 0)
		return -ENOMEM;
	at = mmap(NULL, header->bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	own->inside->block = at == MAP_FAILED ? NULL : at;
	at = mmap(NULL, header->bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	own->map = at == MAP_FAILED ? NULL : at;
	ok = own->inside->block && own->map &&
	     mmap(own->map + header->code_off, header->code_bytes, PROT_READ | PROT_EXEC,
		  MAP_SHARED | MAP_FIXED, fd, (off_t)header->code_off) != MAP_FAILED;
	if (!ok)
		ctx_error(ctx, -errno, "memory for counters of our own: %s", strerror(errno));
	close(fd);
	header->addr = header->parts[0].addr = (uint64_t)(uintptr_t)own->map;
	return ok ? 0 : -ENOMEM;
}

/* ---- the sites ------------------------------------------------------------------------------ */

static void put_call(uint8_t *at, int32_t distance)
{
	*at = CALL;
	memcpy(at + 1, &distance, sizeof(distance));
}

/* Write a function at PASS that calls the two functions at SITES. */
static void write_pass(uint8_t *code, int32_t pass, int32_t sites)
{
	for (int32_t i = 0; i < SITES; i++) {
		const int32_t at = pass + i * CALL_BYTES;

		put_call(code + at, sites + i * SITE_ROOM - (at + CALL_BYTES));
	}
	code[pass + SITES * CALL_BYTES] = RET;
}

/* Write a function that consists of a site and a return. */
static void write_site(uint8_t *at, uint8_t opcode, uint32_t displacement)
{
	at[0] = SITE_NOP;
	at[1] = opcode;
	memcpy(at + 2, &displacement, sizeof(displacement));
	at[SITE_BYTES] = RET;
}

/* Write the recursive function at FUNCTION, and a function at PASS that calls it. */
static void write_recursive(uint8_t *code, int32_t pass, int32_t function)
{
	const int32_t distance = function - (pass + (int32_t)sizeof(recursive_pass) + 4);

	memcpy(code + pass, recursive_pass, sizeof(recursive_pass));
	memcpy(code + pass + sizeof(recursive_pass), &distance, sizeof(distance));
	memcpy(code + function, recursive, sizeof(recursive));
}

static void write_functions_with_sites(const struct own *own, uint8_t *code)
{
	for (size_t i = 0; i < SITES; i++) {
		const struct block_site *site = &own->inside->sites[i];

		write_site(code + OFF_SITES + i * SITE_ROOM, SITE_OFF, 0);
		write_site(code + ON_SITES + i * SITE_ROOM, SITE_ON, inside_displacement(site));
	}
	write_pass(code, OFF_PASS, OFF_SITES);
	write_pass(code, ON_PASS, ON_SITES);
}

static void write_functions_with_windows(const struct own *own, uint8_t *code)
{
	const uint32_t displacement = inside_displacement(&own->inside->sites[0]);

	write_recursive(code, OFF_PASS, OFF_SITES);
	write_recursive(code, ON_PASS, ON_SITES);
	code[ON_SITES] = JMP;
	memcpy(code + ON_SITES + 1, &displacement, sizeof(displacement));
}

static int build(struct own *own)
{
	const struct block_header *header = &own->inside->header;
	uint8_t *code = own->inside->block + own->code_off;
	int err;

	/* The trampolines read the address of the block from the header in the block. */
	memcpy(own->inside->block, header, sizeof(*header));
	own->inside->sites = calloc(SITES, sizeof(*own->inside->sites));
	if (!own->inside->sites)
		return ctx_no_memory(own->inside->ctx);
	/*
	 * The wrapper is the return behind the site. No trampoline jumps to it, because all gates
	 * are 0.
	 */
	for (size_t i = 0; i < own->spec.n_sites; i++) {
		own->sites[i].addr = header->addr + own->code_off + ON_SITES + i * SITE_ROOM;
		own->inside->sites[i] = (struct block_site){
			.addr = own->sites[i].addr,
			.opcode = SITE_OFF,
			.gate = is_of_windows(own) ? BLOCK_GATE_NONE : BLOCK_GATE_PRIVATE,
		};
	}
	err = build_block(own->inside, &own->build);
	if (err)
		return err;
	if (is_of_windows(own))
		write_functions_with_windows(own, code);
	else
		write_functions_with_sites(own, code);
	return 0;
}

/* ---- the times ------------------------------------------------------------------------------ */

static int passes(const struct own *own)
{
	return is_of_windows(own) ? RECURSIVE_PASSES : PASSES_A_BATCH;
}

/*
 * Return the duration in nanoseconds of a batch of calls of the function at offset OFF of the code.
 */
static double time_batch(const struct own *own, uint64_t off)
{
	void (*const pass)(void) = (void (*)(void))(uintptr_t)(own->map + own->code_off + off);
	const int64_t start_ns = clock_ns(CLOCK_MONOTONIC);

	for (int i = 0; i < passes(own); i++)
		pass();
	return (double)(clock_ns(CLOCK_MONOTONIC) - start_ns);
}

/*
 * Return the mean duration of the pairs that were added to TOTALS since BEFORE; 0 if there are
 * none.
 */
static double mean_since(const struct inside_pair *totals, const struct inside_pair *before)
{
	const uint64_t n = totals->count - before->count;

	return n ? (double)(totals->sum_ns - before->sum_ns) / (double)n : 0;
}

static void keep_least(double *least, double value, bool is_first)
{
	if (is_first || value < *least)
		*least = value;
}

/*
 * Measure all batches. Use the time of the fastest one, because the machine may have been busy in
 * the others.
 */
static void time_all(const struct own *own, struct own_cost *cost)
{
	const double hits = passes(own) * (double)(is_of_windows(own) ? CALLS_OF_PASS : SITES);
	double off_ns = 0, on_ns = 0, pair_ns = 0;

	for (int i = 0; i < N_BATCHES; i++) {
		struct inside_pair before = { 0 }, after = { 0 };

		keep_least(&off_ns, time_batch(own, OFF_PASS), i == 0);
		if (own->spec.n_pairs)
			totals_pair(&own->inside->header, own->map, 0, &before);
		keep_least(&on_ns, time_batch(own, ON_PASS), i == 0);
		if (own->spec.n_pairs)
			totals_pair(&own->inside->header, own->map, 0, &after);
		keep_least(&pair_ns, mean_since(&after, &before), i == 0);
	}
	*cost = (struct own_cost){ .hit_ns = (on_ns - off_ns) / hits, .empty_pair_ns = pair_ns };
	if (cost->hit_ns < 0)
		cost->hit_ns = 0;
}

/* Let the sites of OWN write events with N_ARGS arguments, for which the rings have room. */
static void write_events(struct own *own, uint32_t n_args)
{
	own->spec.event_bytes = EVENT_BYTES;
	own->spec.event_args = own->event.n_args = n_args;
	own->event.frame.kind = INSIDE_FRAME;
	for (uint32_t i = 0; i < n_args; i++)
		own->event.args[i] = (struct inside_place){ INSIDE_REGISTER, (int64_t)i };
	for (size_t i = 0; i < SITES; i++) {
		own->roles[i].event = &own->event;
		own->sites[i] = (struct inside_site){ .roles = &own->roles[i], .n_roles = 1 };
	}
}

/*
 * Give the sites that count or start a filter with N_COMPARISONS comparisons, which are all true.
 */
static void add_filter(struct own *own, size_t n_comparisons)
{
	struct inside_filter *filter = &own->filter;

	for (size_t i = 0; i < n_comparisons && filter->n_ops + 1 < INSIDE_FILTER_OPS; i++) {
		filter->ops[filter->n_ops++] =
			(struct inside_filter_op){ .comparison = INSIDE_EQ,
						   .place = { INSIDE_CONSTANT, 1 } };
		if (i)
			filter->ops[filter->n_ops++].kind = INSIDE_AND;
	}
	for (size_t i = 0; filter->n_ops && i < own->spec.n_sites; i++)
		if (!own->sites[i].n_roles || !own->sites[i].roles->is_stop)
			own->sites[i].filter = filter;
}

int own_cost_measure(struct ocp_ctx *ctx, enum own_cost_of of, unsigned int depth,
		     size_t n_comparisons, struct own_cost *cost)
{
	const bool by_key = of == OWN_COST_TIMING_BY_KEY || of == OWN_COST_TIMING_GROUPS_BY_KEY;
	const bool groups_times =
		of == OWN_COST_TIMING_GROUPS || of == OWN_COST_TIMING_GROUPS_BY_KEY;
	const bool times = of == OWN_COST_TIMING || by_key || groups_times;
	const bool of_windows = of == OWN_COST_COUNTING_WINDOWS, groups = of == OWN_COST_GROUPING;
	struct own own = {
		.spec = { .n_sites = of_windows ? 1 : SITES,
			  .n_pairs = times,
			  .n_groups = groups || groups_times,
			  .groups_times = groups_times,
			  .depth = depth,
			  .max_threads = 1 },
		.roles = { { .is_keyed = by_key,
			     .has_group = groups,
			     .is_grouped = groups_times,
			     .key = { INSIDE_CONSTANT, 1 },
			     .value = { INSIDE_CONSTANT, 1 } },
			   { .is_stop = times,
			     .is_keyed = by_key,
			     .has_group = groups,
			     .is_grouped = groups_times,
			     .key = { INSIDE_CONSTANT, 1 } } },
		.build.parts.n = 1,
		.inside = inside_new(ctx, getpid()),
	};
	int err = own.inside ? 0 : ctx_no_memory(ctx);

	*cost = (struct own_cost){ 0 };
	for (size_t i = 0; (times || groups) && i < SITES; i++)
		own.sites[i] = (struct inside_site){ .roles = &own.roles[i], .n_roles = 1 };
	if (of == OWN_COST_RECORDING || of == OWN_COST_RECORDING_ARGS)
		write_events(&own, of == OWN_COST_RECORDING_ARGS ? 2 : 0);
	if (of_windows)
		own.sites[0] =
			(struct inside_site){ .window = recursive, .n_window = PATCH_JUMP_BYTES };
	add_filter(&own, n_comparisons);
	own.spec.sites = own.sites;
	own.build.spec = &own.spec;
	if (!err)
		err = lay_out(&own, ctx);
	if (!err)
		err = map(&own, ctx);
	if (!err)
		err = build(&own);
	if (!err)
		time_all(&own, cost);
	if (own.map)
		munmap(own.map, own.inside->header.bytes);
	inside_close(own.inside);
	return err;
}
