/* SPDX-License-Identifier: MIT */
/*
 * A source: a meter that is attached to one process, or to every process of one file, from its
 * first sample to its last.
 */
#ifndef WATCH_SOURCE_H
#define WATCH_SOURCE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include "measure/request.h"
#include "ocaml_probes.h"
#include "process/container.h"
#include "process/find.h"

struct source {
	struct ocp_ctx *ctx;
	struct ocp_meter *meter;
	struct ocp_process *proc; /* NULL: every process of the file */
	pid_t pid;		  /* of proc, else 0 */
	int pidfd;		  /* of proc, else -1 */
	int file;		  /* O_PATH; of the executable */
	dev_t dev;		  /* its identity */
	ino_t ino;
	const void *owner; /* whoever asked for it */
	pid_t *pids;	   /* that were found to run it, ascending */
	size_t n_pids;
	bool knows_pids;	     /* false: there may be more */
	struct container container;  /* that all of them are in; all "": not bound to one */
	bool is_mixed;		     /* it is bound to one, and some are in another */
	bool is_stale;		     /* one of its files was overwritten, and is measured no more */
	struct ocp_sample *sample;   /* the last; NULL: none yet */
	uint64_t hits, hits_at_tick; /* all of sample, and when the last tick was */
	double cost_per_hit_ns;	     /* 0: not known */
	double cpu_overhead;	     /* that its hits in the last tick cost */
	bool asked_costs;
	int64_t attached_ns;   /* CLOCK_MONOTONIC */
	int64_t idle_since_ns; /* likewise: without a process; 0: not known to be */
};

/*
 * A source for what runs the file that PATH leads to, or for process PID if it is not 0. REQUEST is
 * looked at during the call only. KNOWN is where it looks up processes, together with others; it
 * is made to list them now, and by its owner from then on. Nothing is measured before
 * source_attach.
 */
int source_open(struct ocp_ctx *ctx, const char *path, pid_t pid,
		const struct measure_request *request, bool by_process, struct find_memory *known,
		struct source **out);
/* Does nothing if it is attached already. */
int source_attach(struct source *source);
/* Takes NULL. */
void source_free(struct source *source);

/* Has the process that it is about ended? False for a source of a file. */
bool source_has_ended(const struct source *source);
/*
 * Find the processes it measures now, and what they have loaded since; *N_SITES says how many sites
 * that came to.
 */
int source_refresh(struct source *source, size_t *n_sites);
/* Replace the sample by one of this moment. */
int source_read(struct source *source);
/* Replace it by the last one there will be: the meter is detached. */
int source_end(struct source *source);
/* Ask what a hit costs, once that is known without waiting. */
void source_ask_costs(struct source *source, int64_t now_ns);

#endif
