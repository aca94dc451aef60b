/* SPDX-License-Identifier: MIT */
/*
 * The machine code that runs inside a process: one trampoline for each site, and the routines that the
 * trampolines call. It is assembled from templates for the addresses that it gets in the process.
 *
 * A trampoline counts the hit, starts and stops the pairs of its site, and then jumps to the wrapper of
 * the handler, if the gate is not 0, or returns to the site. It keeps all registers but the flags, which
 * are dead at a site, and leaves rseq_cs of the thread empty. It uses at most TEMPLATES_STACK_BYTES of the
 * stack, the return address included. At the end of a stack it faults at the call of its site, and not in
 * the trampoline.
 */
#ifndef INSIDE_TEMPLATES_H
#define INSIDE_TEMPLATES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "inside/block.h"
#include "inside/inside.h"

enum { TEMPLATES_STACK_BYTES = 104, TEMPLATES_MAX_SHARDS = 1025 };

/* RSEQ_SIG of sys/rseq.h on x86: the kernel compares it with what the thread has registered. */
#define TEMPLATES_RSEQ_SIGNATURE 0x53053053

/* What the code has to know of the process. The offsets are from the FS base, which may be below 0. */
struct templates_process {
	/*
	 * Of struct rseq, registered with TEMPLATES_RSEQ_SIGNATURE, or with a cpu_id below 0; 0: unknown,
	 * and n_shards must be 1.
	 */
	int32_t rseq_off;
	int32_t tid_off; /* of the thread id that the C library keeps; 0: unknown, and no pairs */
	/*
	 * The code may make system calls. It makes three: a start that finds no room calls tkill(tid, 0),
	 * to learn whether a thread has ended in the middle of a span. A trampoline with pairs calls
	 * rt_sigpending(2), to learn whether the stack goes on. The first hit of a thread in a pair by
	 * key calls getpid(2). False for a process with a seccomp filter.
	 */
	bool may_call_kernel;
};

/* A trampoline. All addresses are those in the process. */
struct templates_site {
	uint64_t
		trampoline; /* a multiple of 32; the site calls what is templates_entry_off() later */
	uint64_t counter;   /* in shard 0 */
	uint64_t gate;	    /* of two bytes */
	uint64_t wrapper;
	const struct inside_role *roles;   /* played in this order */
	const struct inside_place *places; /* of the keys of the roles; NULL: none is keyed */
	size_t n_roles;
};

/*
 * The room that the routines need, at the beginning of the code. They can be asked for before anything
 * else is known; a multiple of 64.
 */
size_t templates_routines_bytes(void);

/* From the beginning of a trampoline to where the site calls it. */
uint64_t templates_entry_off(uint32_t n_shards);

/* The exact room of the trampoline of a site with the N_ROLES roles ROLES; a multiple of 32. */
size_t templates_site_bytes(uint32_t n_shards, const struct inside_role *roles, size_t n_roles);

/*
 * Assemble the routines to CODE, for the address addr + code_off of HEADER. HEADER needs all its numbers
 * but magic, maker and start. Only addresses are used: nothing is written but CODE. Returns 0, or
 * -ENOTSUP or -ERANGE with a message: pairs without tid_off, shards without rseq_off, or a number that
 * is out of its bounds.
 */
int templates_routines(struct ocp_ctx *ctx, const struct block_header *header,
		       const struct templates_process *process, uint8_t *code);

/*
 * Assemble the trampoline of SITE to CODE. Returns 0, or an error with a message:
 *	-ERANGE		a distance is too long for 32 bits
 *	-EINVAL		a place of a key is outside the ranges of struct inside_place
 *	-ENOTSUP	a role has a key, and the code may not call the kernel
 */
int templates_site(struct ocp_ctx *ctx, const struct block_header *header,
		   const struct templates_process *process, const struct templates_site *site,
		   uint8_t *code);

#endif
