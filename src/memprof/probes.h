/* SPDX-License-Identifier: MIT */
/*
 * Reads the events of a Gc.Memprof profile with eBPF (bpf/memprof.bpf.c), at the probes of the
 * library ocaml-probes.memprof, instead of from the library's ring. This has the same requirements
 * as measuring. A session (session.h) still starts and stops the profile.
 */
#ifndef MEMPROF_PROBES_H
#define MEMPROF_PROBES_H

#include "base/ctx.h"
#include "memprof/session.h"

struct memprof_probes;

/*
 * Put uprobes on the library's probes in PID. Call this before the session is opened, so that no
 * event is missed. Call stacks are cut after DEPTH frames. The program is not stopped. Return
 * -EPERM or -EOPNOTSUPP if something that measuring requires is missing, and -EPROTO if the probes'
 * arguments are not those of this version.
 */
int memprof_probes_open(struct ocp_ctx *ctx, pid_t pid, uint32_t depth,
			struct memprof_probes **out);
/* Remove the uprobes and free PROBES, which may be NULL. */
void memprof_probes_close(struct memprof_probes *probes);

/* Return the number of probes. */
size_t memprof_probes_count(const struct memprof_probes *probes);

/*
 * Like memprof_next(): take the next event of the session with the number SESSION, and skip events
 * of other sessions. SESSION is the result of memprof_number(). While it is 0, return false and
 * leave all events in the buffer.
 */
bool memprof_probes_next(struct memprof_probes *probes, uint64_t session,
			 struct memprof_event *event);

/* From now on, take only the events that are in the buffer at this moment. */
void memprof_probes_finish(struct memprof_probes *probes);

/* Add to LOSSES the events that did not fit into the buffer, or could not be read. */
int memprof_probes_add_losses(const struct memprof_probes *probes, struct memprof_losses *losses);

/*
 * Do periodic work; call this once a second. Return -ESTALE if a file of the program is being
 * overwritten in place; then no more events will come.
 */
int memprof_probes_refresh(struct memprof_probes *probes);

#endif
