/* SPDX-License-Identifier: MIT */
/*
 * The machine code that runs inside a process: one trampoline for each site, and the routines that
 * the trampolines call. The code is assembled from templates for its addresses in the process.
 *
 * A trampoline counts the hit, and starts and stops the pairs of its site. Then it jumps to the
 * wrapper of the handler if the gate is not 0; otherwise it returns to the site. A trampoline keeps
 * all registers but the flags, which are dead at a site, and leaves rseq_cs of the thread empty. It
 * uses at most TEMPLATES_STACK_BYTES of the stack, including the return address. At the end of a
 * stack, the call at the site faults, and not the trampoline.
 *
 * The trampoline of a window counts, plays the roles of the window, and executes a copy of the
 * window: a part of it before the roles, and the rest afterwards. It changes the flags and r11.
 * With roles, it uses at most TEMPLATES_STACK_BYTES of the stack, otherwise none. At the end of a
 * stack, it plays no roles. If the window keeps r11, it has no roles, and uses eight bytes below
 * rsp.
 *
 * A trampoline with a filter begins with the filter's code, and then has two parts like that: one
 * for hits that match, and one for the others. In the second part, starts are rejected ones, and
 * the end is that of the first part.
 */
#ifndef CHANGE_INSIDE_TEMPLATES_H
#define CHANGE_INSIDE_TEMPLATES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "change/inside/block.h"
#include "change/inside/inside.h"

enum { TEMPLATES_STACK_BYTES = 104, TEMPLATES_MAX_SHARDS = 1025, TEMPLATES_COPY_BYTES = 64 };

/*
 * RSEQ_SIG of sys/rseq.h on x86: the kernel compares this number with the one that the thread has
 * registered.
 */
#define TEMPLATES_RSEQ_SIGNATURE 0x53053053

/*
 * What the code needs to know about the process. Offsets are from the FS base, and may be negative.
 */
struct templates_process {
	/*
	 * Offset of struct rseq. In each thread, this struct is registered with
	 * TEMPLATES_RSEQ_SIGNATURE, or its cpu_id is below 0. If rseq_off is 0, the offset is
	 * unknown, and n_shards must be 1.
	 */
	int32_t rseq_off;
	/*
	 * The offset of the thread id that the C library keeps. 0: unknown, so pairs are
	 * impossible.
	 */
	int32_t tid_off;
	/*
	 * The code may make system calls. There are three of them. A start that finds no slot calls
	 * tkill(tid, 0), to find out whether a thread has ended with open starts. A trampoline with
	 * pairs calls rt_sigpending(2), to find out whether the page below the one of rsp is part
	 * of the stack. The first hit of a thread in a pair by key calls getpid(2). False for a
	 * process with a seccomp filter.
	 */
	bool may_call_kernel;
};

/* The filter of a trampoline. All addresses are those in the process. */
struct templates_filter {
	const struct inside_filter *filter; /* NULL: none */
	uint32_t number;		    /* of the site */
	uint64_t rejected;   /* the counter, in shard 0, of the hits that the filter rejects */
	uint64_t mismatches; /* a struct block_mismatches */
};

/* A trampoline. All addresses are those in the process. */
struct templates_site {
	/* a multiple of 32; the site calls this address + templates_entry_off() */
	uint64_t trampoline;
	uint64_t counter; /* the counter of the site in shard 0 */
	uint64_t gate;	  /* the two bytes of the gate */
	uint64_t wrapper;
	/* what the site does to pairs, in the order of execution */
	const struct inside_role *roles;
	size_t n_roles;
	struct templates_filter filter;
};

/* The trampoline of a window. All addresses are those in the process. */
struct templates_window {
	/* a multiple of 32; the window jumps to this address + templates_entry_off() */
	uint64_t trampoline;
	uint64_t counter;		/* the counter of the window in shard 0 */
	const struct inside_site *site; /* the window */
	/*
	 * A copy of the window's instructions, in two parts: see code/window_copy.h. Together they
	 * have at most TEMPLATES_COPY_BYTES.
	 */
	struct {
		const uint8_t *bytes;
		size_t n;
	} before, rest; /* the first site->n_before bytes, before the roles, and the rest */
	struct templates_filter filter;
};

/*
 * Return the size of the routines, which are at the beginning of the code: a multiple of 64. The
 * size depends neither on the block nor on the process.
 */
size_t templates_routines_bytes(void);

/*
 * Return the offset, in a trampoline without a filter, of the address that the site calls. The
 * second function is for a trampoline with a filter, site->filter.
 */
uint64_t templates_entry_off(uint32_t n_shards);
uint64_t templates_filter_off(uint32_t n_shards, const struct inside_site *site);

/*
 * Return the exact size of the trampoline of a site with the N_ROLES roles ROLES, without a filter;
 * a multiple of 32.
 */
size_t templates_site_bytes(uint32_t n_shards, const struct inside_role *roles, size_t n_roles);

/* Return the size of the trampoline of SITE, which has a filter; a multiple of 32. */
size_t templates_filtered_bytes(uint32_t n_shards, const struct inside_site *site);
/* Return the size of the trampoline of the window SITE, without a filter; a multiple of 32. */
size_t templates_window_bytes(uint32_t n_shards, const struct inside_site *site);
/* Return the offsets, in the trampoline of the window SITE, of the two parts of the copy. */
size_t templates_before_off(uint32_t n_shards, const struct inside_site *site);
size_t templates_rest_off(uint32_t n_shards, const struct inside_site *site);

/*
 * Assemble the routines to CODE, for the address addr + code_off of HEADER. All numbers of HEADER
 * must be set, except magic, maker, start_ns and start_ticks. Writes to CODE only. Returns 0, or
 * -ENOTSUP or -ERANGE with a message: pairs without tid_off, shards without rseq_off, or a number
 * that is out of range.
 */
int templates_routines(struct ocp_ctx *ctx, const struct block_header *header,
		       const struct templates_process *process, uint8_t *code);

/*
 * Assemble the trampoline of SITE to CODE. Returns 0, or an error with a message:
 *	-ERANGE		a distance is too long for 32 bits
 *	-EINVAL		a place of a key is outside the ranges of struct inside_place, or the
 *			filter cannot read a place
 *	-ENOTSUP	a role has a key, and the code may not call the kernel
 */
int templates_site(struct ocp_ctx *ctx, const struct block_header *header,
		   const struct templates_process *process, const struct templates_site *site,
		   uint8_t *code);

/*
 * Assemble the trampoline of WINDOW to CODE. Returns 0, or an error with a message: see
 * templates_site().
 */
int templates_window(struct ocp_ctx *ctx, const struct block_header *header,
		     const struct templates_process *process, const struct templates_window *window,
		     uint8_t *code);

#endif
