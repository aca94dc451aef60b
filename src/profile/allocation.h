/* SPDX-License-Identifier: MIT */
/*
 * Samples of allocation: uprobes on the functions of the runtime that an allocation ends in when the
 * minor heap has run out, and on those that allocate large blocks; and how many words a sample stands
 * for, from what the runtime counts.
 */
#ifndef PROFILE_ALLOCATION_H
#define PROFILE_ALLOCATION_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>
#include "base/ctx.h"

struct allocation;

/* Descriptors of programs and of a map of bpf/profile.bpf.c. They belong to the caller. */
struct allocation_bpf {
	int small, large;
	int sampled;
};

int allocation_open(struct ocp_ctx *ctx, const struct allocation_bpf *bpf, struct allocation **out);
/* Detaches. */
void allocation_close(struct allocation *allocation);

/* Can the allocation of PID be sampled? The ctx has the reason if not. */
int allocation_check(struct ocp_ctx *ctx, pid_t pid);
/* Sample PID, which programs know as TGID. -ENODATA if it is no OCaml program. */
int allocation_add_process(struct allocation *allocation, pid_t pid, uint32_t tgid);

/* Read what the processes have allocated so far. To be called now and then: they may end. */
void allocation_refresh(struct allocation *allocation);

/* Does the kernel single-step the instructions at which large blocks are sampled? */
bool allocation_large_is_stepped(const struct allocation *allocation);
/* Take no more samples of large blocks, in processes that are added later neither. */
void allocation_stop_large(struct allocation *allocation);
void allocation_stop(struct allocation *allocation);

/*
 * The words that TGID has allocated in its minor heaps since it was added. What a process has allocated after the
 * last time when it could be read, since it has ended, is estimated by its minor heaps.
 */
double allocation_minor_words(const struct allocation *allocation, uint32_t tgid);
/* By so many words may the sum of allocation_minor_words() for all processes be wrong. */
double allocation_unsure_words(const struct allocation *allocation);

#endif
