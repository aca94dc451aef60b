/* SPDX-License-Identifier: MIT */
/*
 * The events of a profile by Gc.Memprof, read at the probes of the library ocaml-probes.memprof by eBPF
 * (bpf/memprof.bpf.c), in place of the library's ring. It needs what measuring needs. The session
 * (session.h) starts and stops the profile all the same.
 */
#ifndef MEMPROF_PROBES_H
#define MEMPROF_PROBES_H

#include "base/ctx.h"
#include "memprof/session.h"

struct memprof_probes;

/*
 * Put uprobes on the probes in PID, before the session is opened: no event is missed. Call stacks have at
 * most DEPTH frames. The program is not stopped. -EPERM and -EOPNOTSUPP: what measuring needs is missing;
 * -EPROTO: the probes have other arguments than those of this version.
 */
int memprof_probes_open(struct ocp_ctx *ctx, pid_t pid, uint32_t depth,
			struct memprof_probes **out);
/* Remove the uprobes. Takes NULL. */
void memprof_probes_close(struct memprof_probes *probes);

/* The number of the probes. */
size_t memprof_probes_count(const struct memprof_probes *probes);

/*
 * Take the next event of the session SESSION, as memprof_next does. Events of other sessions are left out.
 * Before the program has begun ours, events wait: SESSION is 0.
 */
bool memprof_probes_next(struct memprof_probes *probes, uint64_t session,
			 struct memprof_event *event);

/* From now on, take only the events that are waiting at this moment. */
void memprof_probes_finish(struct memprof_probes *probes);

/* Add the events that have had no room, or that could not be read, to LOSSES. */
int memprof_probes_add_losses(const struct memprof_probes *probes, struct memprof_losses *losses);

/*
 * Call it each second. -ESTALE: a file of the program is being overwritten in place; there are no more
 * events.
 */
int memprof_probes_refresh(struct memprof_probes *probes);

#endif
