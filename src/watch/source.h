/* SPDX-License-Identifier: MIT */
/*
 * A source: a meter attached to one process, or to every process of one file, from its first
 * sample to its last.
 *
 * With the engine `inside`, a source is always one process of our own user, and the children that
 * the process has forked. The children count in the same memory, and continue after the process has
 * ended.
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
	pid_t pid;		  /* the pid of proc, else 0 */
	int pidfd;		  /* for proc, else -1 */
	int file;		  /* O_PATH; of the executable */
	dev_t dev;		  /* identity of the file */
	ino_t ino;
	const void *owner; /* the rule that opened it */
	bool is_inside;	   /* measured by the engine `inside`; else by the kernel */
	/* With is_inside: */
	bool has_left;	  /* the process does not count any more: it has ended, for example */
	bool is_outgrown; /* it has loaded files that are not measured */
	pid_t *children;  /* children that count with it, ascending; see source_adopt */
	size_t n_children;
	pid_t *pids; /* found processes, ascending */
	size_t n_pids;
	bool knows_pids;	    /* false: there may be more */
	struct container container; /* of all processes; all "": any container */
	bool is_mixed;		    /* bound to a container, but also run in another */
	bool is_stale;		    /* a measured file was overwritten and is no longer measured */
	struct ocp_sample *sample;  /* the newest; NULL: none yet */
	uint64_t hits;		    /* total of the sample */
	uint64_t charged_hits;	    /* the part of `hits` that a tick's cpu_overhead includes */
	int64_t uncharged_ns;	    /* the time of the ticks since then */
	struct ocp_costs costs;	    /* all 0: unknown */
	double cost_per_hit_ns;	    /* of the hits so far; 0: unknown */
	double cpu_overhead;	    /* of the last tick; 0 while the costs are unknown */
	bool was_cut;		    /* counters were switched off since the last tick */
	bool asked_costs;
	int64_t attached_ns;   /* CLOCK_MONOTONIC */
	int64_t idle_since_ns; /* CLOCK_MONOTONIC: without a process since; 0: unknown or has one */
};

/* What to measure: the file at PATH, or process PID if it is not 0. */
struct source_spec {
	const char *path;
	pid_t pid;
	const struct measure_request *request;
	bool by_process;
	bool is_inside; /* measure with the engine `inside`; needs PID */
};

/*
 * Open a source for SPEC, which is used during the call only. KNOWN is the shared list of
 * processes. source_open refreshes it, unless SPEC is for one process that counts inside. Later,
 * its owner refreshes it. source_attach starts measuring. -EPERM: a process of another user cannot
 * count inside.
 */
int source_open(struct ocp_ctx *ctx, const struct source_spec *spec, struct find_memory *known,
		struct source **out);
/* Start measuring. Do nothing if SOURCE is already attached. */
int source_attach(struct source *source);
/* Log what a hit will cost if the kernel single-steps sites. Before source_attach. */
void source_tell_estimate(struct source *source);
/* Log for TITLE how the pairs of SOURCE are matched, unless the request sets the matching. */
void source_tell_matching(const struct source *source, const char *title);
/* SOURCE may be NULL. */
void source_free(struct source *source);

/* Has the process of SOURCE exited? False for a source of a file. */
bool source_has_ended(const struct source *source);
/* Was PID, at its last inspection, a child that counts with SOURCE? */
bool source_has_child(const struct source *source, pid_t pid);
/*
 * Inspect PID again, which was not a child of SOURCE so far. Set *IS_CHILD if PID is a child now.
 * Returns -ENOMEM or 0.
 */
int source_adopt(struct source *source, pid_t pid, bool *is_child);
/* Find new processes and newly loaded files; *N_SITES is the number of sites added. */
int source_refresh(struct source *source, size_t *n_sites);
/* Replace the sample by a current one. */
int source_read(struct source *source);
/* Detach the meter, and replace the sample by the final one. */
int source_end(struct source *source);
/* Update the cost per hit, once it is known without waiting. */
void source_ask_costs(struct source *source, int64_t now_ns);

#endif
