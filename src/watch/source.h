/* SPDX-License-Identifier: MIT */
/*
 * A source: a meter attached to one process, or to every process of one file, from its first sample
 * to its last.
 *
 * With the engine `inside`, a source is always one process of our own user, together with the
 * children that this process has forked. The children count in the same memory, and continue after
 * the process has ended.
 */
#ifndef WATCH_SOURCE_H
#define WATCH_SOURCE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include "ocaml_probes.h"
#include "look/container.h"
#include "look/find.h"
#include "watch/watch.h"

struct source {
	struct ocp_ctx *ctx;
	struct ocp_meter *meter;
	struct ocp_process *proc; /* NULL: every process of the file is measured */
	pid_t pid;		  /* pid of proc; 0 without proc */
	int pidfd;		  /* refers to the process of proc; -1 without proc */
	int file;		  /* the executable, opened with O_PATH */
	dev_t dev;		  /* device and inode number of the file */
	ino_t ino;
	const void *owner; /* the rule that has opened this source */
	bool is_inside;	   /* measured by the engine `inside`; false: by BPF */
	/* The next four members are set only with is_inside. */
	/*
	 * The process does not count any more; for example, it has ended or has executed another
	 * program.
	 */
	bool has_left;
	bool is_outgrown; /* the process has loaded files that are not measured */
	/* Children that count with the process, in ascending order; see source_adopt(). */
	pid_t *children;
	size_t n_children;
	pid_t *pids; /* the processes found, in ascending order */
	size_t n_pids;
	bool knows_pids;	    /* false: there may be processes that are not in `pids` */
	struct container container; /* the container of all processes; all "": any container */
	/* `container` is set, but the file also runs in another container */
	bool is_mixed;
	bool is_stale;		   /* a measured file was overwritten and is no longer measured */
	struct ocp_sample *sample; /* the newest sample; NULL: none so far */
	uint64_t hits;		   /* sum of all hits in the sample */
	/* The part of `hits` that has been included in a tick's cpu_overhead. */
	uint64_t charged_hits;
	int64_t uncharged_ns;	/* sum of the ticks since cpu_overhead last included hits */
	struct ocp_costs costs; /* all 0: unknown */
	double cost_per_hit_ns; /* mean cost of the hits so far; 0: unknown */
	/* CPU overhead in the last tick, as a share of one core. 0 while the costs are unknown. */
	double cpu_overhead;
	bool was_cut; /* counters were switched off since the last tick */
	bool asked_costs;
	int64_t attached_ns; /* CLOCK_MONOTONIC: when the meter was attached; 0: not attached */
	/*
	 * CLOCK_MONOTONIC: since when the source has had no process; 0: unknown, or it has a
	 * process.
	 */
	int64_t idle_since_ns;
};

/*
 * Open a source for SPEC, which names a file or a process and is used only during this call. If
 * SPEC requests the engine `inside`, it must name a process; for any other request, the engine is
 * BPF. BY_PROCESS: also split hits by process. source_attach() then starts measuring. KNOWN is the
 * list of known processes that all sources share. KNOWN must stay valid as long as the source. If
 * the engine is BPF, source_open() calls find_memory_expire(KNOWN), so that new processes are
 * found. Later, the caller must call find_memory_expire(KNOWN) at each tick. -EPERM: a process of
 * another user cannot count inside.
 */
int source_open(struct ocp_ctx *ctx, const struct watch_spec *spec, bool by_process,
		struct find_memory *known, struct source **out);
/* Start measuring. Do nothing if SOURCE is already attached. */
int source_attach(struct source *source);
/*
 * Log what a hit will cost if the kernel must single-step sites. Call this before source_attach().
 */
void source_tell_estimate(struct source *source);
/*
 * Log, after TITLE, which keys were chosen for pairs of SOURCE, and why pairs by thread may mix up
 * requests.
 */
void source_tell_matching(const struct source *source, const char *title);
/* Detach and free SOURCE, which may be NULL. */
void source_free(struct source *source);

/* Return true if the process of SOURCE has exited; false for a source of a file. */
bool source_has_ended(const struct source *source);
/* Return true if PID was a child that counts with SOURCE when the children were last inspected. */
bool source_has_child(const struct source *source, pid_t pid);
/*
 * Inspect process PID, for which source_has_child() has returned false. Set *IS_CHILD to whether
 * PID counts with SOURCE now, and if so, add it to the children. Return -ENOMEM or 0.
 */
int source_adopt(struct source *source, pid_t pid, bool *is_child);
/*
 * Find new processes and newly loaded files. Set *N_SITES to the number of sites that were added.
 */
int source_refresh(struct source *source, size_t *n_sites);
/* Replace the sample by a new one. */
int source_read(struct source *source);
/* Detach the meter, and replace the sample by the final sample. */
int source_end(struct source *source);
/* Update the cost per hit as soon as it is known; do not wait for it. */
void source_ask_costs(struct source *source, int64_t now_ns);

#endif
