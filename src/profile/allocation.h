/* SPDX-License-Identifier: MIT */
/*
 * Samples allocation with uprobes on two kinds of functions of the OCaml runtime: the function that
 * is called when the minor heap has run out, and the functions that allocate large blocks. Counters
 * of the runtime show how many words each sample stands for.
 */
#ifndef PROFILE_ALLOCATION_H
#define PROFILE_ALLOCATION_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/ctx.h"
#include "code/code_file.h"
#include "elf/symbols.h"

struct allocation;

/*
 * Descriptors of two programs and of the map `sampled` of bpf/profile.bpf.c. The caller owns the
 * descriptors.
 */
struct allocation_bpf {
	int small, large;
	int sampled;
};

int allocation_open(struct ocp_ctx *ctx, const struct allocation_bpf *bpf, struct allocation **out);
/* Detach and free ALLOCATION, which may be NULL. */
void allocation_close(struct allocation *allocation);

/*
 * Check whether the allocation of PID can be sampled. If not, return an error and record the
 * reason.
 */
int allocation_check(struct ocp_ctx *ctx, pid_t pid);
/*
 * Sample process PID, whose id in the BPF programs is TGID. Return -ENODATA if PID is not an OCaml
 * program.
 */
int allocation_add_process(struct allocation *allocation, pid_t pid, uint32_t tgid);

/*
 * Read how much the processes have allocated so far. Call this from time to time: if a process
 * ends, its allocations after the last reading can only be estimated.
 */
void allocation_refresh(struct allocation *allocation);

/*
 * Return true if one of the instructions at which large blocks are sampled is single-stepped by the
 * kernel. This is slow.
 */
bool allocation_large_is_stepped(const struct allocation *allocation);
/* Stop sampling large blocks; they are not sampled in processes that are added later, either. */
void allocation_stop_large(struct allocation *allocation);
void allocation_stop(struct allocation *allocation);

/*
 * Return the words that TGID has allocated in its minor heaps since it was added. If the process
 * has ended, the words that it allocated after the last reading are estimated from the number of
 * minor heaps that ran out.
 */
double allocation_minor_words(const struct allocation *allocation, uint32_t tgid);
/* Return the error bound, in words, of the sum of allocation_minor_words() over all processes. */
double allocation_unsure_words(const struct allocation *allocation);

/* The cheapest place for a uprobe that sees each call of a C function with its first argument. */
struct entry_place {
	uint64_t va;
	bool is_stepped; /* the kernel single-steps the instruction, which is ten times slower */
};

/*
 * Set *PLACE to the place for a uprobe on FUNCTION, which is in FILE: the entry of the function if
 * the kernel emulates the instruction there. Otherwise the kernel would single-step it; so take the
 * first instruction that the kernel emulates and that each call executes exactly once, provided
 * that the instructions before it neither branch nor change rdi or memory. If there is no such
 * instruction, take the entry nevertheless. Return 0, or -ENOMEM with a message.
 */
int entry_place_find(struct ocp_ctx *ctx, struct code_file *file,
		     const struct named_symbol *function, struct entry_place *place);

#endif
