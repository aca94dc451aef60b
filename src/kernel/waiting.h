/* SPDX-License-Identifier: MIT */
/*
 * Records the threads that are already waiting when a profile of waits begins. Loads
 * bpf/waiting.bpf.c.
 */
#ifndef KERNEL_WAITING_H
#define KERNEL_WAITING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include "base/ctx.h"

struct waiting;

/* A map that bpf/waiting.bpf.c shares with bpf/profile.bpf.c. */
struct waiting_map {
	const char *name;
	int fd;
};

int waiting_open(struct ocp_ctx *ctx, const struct waiting_map *maps, size_t n,
		 struct waiting **out);
void waiting_close(struct waiting *waiting);

/*
 * Record the waiting threads of PID, which BPF programs know as TGID. HAS_NAMESPACE: TGID is the id
 * of PID in PID's pid namespace. NAMES_THREADS: record the names of the threads, too. The recording
 * of thread switches must have begun before the call.
 */
int waiting_record(struct waiting *waiting, pid_t pid, uint32_t tgid, bool has_namespace,
		   bool names_threads);

#endif
