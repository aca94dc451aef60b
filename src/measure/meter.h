/* SPDX-License-Identifier: MIT */
/* What a struct ocp_meter holds, for the modules that build on it. */
#ifndef MEASURE_METER_H
#define MEASURE_METER_H

#include "measure/args/arguments.h"
#include "measure/calibrate.h"
#include "measure/engine/engine.h"
#include "measure/pin_folder.h"
#include "program/selection.h"
#include "measure/sites/site_table.h"
#include "ocaml_probes.h"
#include "process/find.h"

struct meter_pair {
	char *start, *stop;
};

/* A probe that pairs begin or end with, be it there or not: its part of meter->roles. */
struct meter_end {
	const char *name;
	uint32_t first_role, n_roles;
	bool begins_pair;
};

/* A process that was there when it was last looked, and which files it ran code of then. */
struct measured_process {
	pid_t pid;  /* by which /proc knows it */
	pid_t tgid; /* another than PID if its first thread has ended */
	unsigned int looks;
	unsigned int changed; /* the round in which it was seen to run other files than before */
	uint64_t signature;   /* 0: unknown */
	uint64_t start_time;  /* of one that was asked for by itself */
};

struct ocp_meter {
	struct ocp_ctx *ctx;
	const struct engine_ops *ops;
	struct engine *engine; /* NULL before open */
	struct calibration *calibration;
	struct engine_spec spec;

	/* what was asked for */
	struct ocp_process **procs; /* the caller's */
	size_t n_procs;
	struct ocp_program *program; /* of every process that runs it */
	char program_path[FD_PATH_BYTES];
	bool program_is_layered; /* others have its code, too: see kernel_file.c */
	struct selection counted;
	struct meter_pair *pairs;
	size_t n_pairs;
	enum ocp_split split;
	unsigned int depth;
	bool children;
	struct arguments arguments;

	/* what that comes to */
	struct site_table table;
	struct meter_end *ends;
	size_t n_ends;
	struct engine_role *roles;
	size_t n_roles;
	/* Ascending; those that were asked for singly in that order. */
	struct measured_process *processes;
	size_t n_processes;
	struct find_memory known, *shared; /* with other meters; NULL: it is not */
	struct warned_pids hidden;	   /* may be of the program, too */
	uint64_t *forgotten;		   /* hits of ended processes, by probe */
	size_t n_forgotten;		   /* probes */
	int64_t start_ns, end_ns;	   /* CLOCK_MONOTONIC; 0: not yet */
	unsigned int round;		   /* of looking at the processes */
	bool sees_all;			   /* the list of these is complete, but for hidden ones */
	bool is_attached;
	bool is_pinned; /* it goes on when it is freed */

	/* what it was asked for in words, for those that read a kept one */
	char *program_name;
	pid_t *pids;
	size_t n_pids;
	char pin_folder[PIN_PATH_BYTES]; /* "" unless it is a kept one */
	struct ocp_costs pinned_costs;
};

/* meter_request.c, meter_arguments.c: count, or print the hits of, what ITEM says. */
int meter_count_item(struct ocp_meter *meter, const struct item *item);
int meter_print_item(struct ocp_meter *meter, const struct item *item);

/*
 * meter_files.c: the program, or files that PROC has mapped and that are new, go to the table. If
 * PROC is OURS these take from it what is to be kept, and it can be freed.
 */
int meter_add_program(struct ocp_meter *meter, size_t *n_new);
int meter_add_images(struct ocp_meter *meter, const struct ocp_process *proc, bool ours,
		     size_t *n_new);
/* Take those out that nobody has mapped any more and nobody will. */
void meter_give_up_files(struct ocp_meter *meter);

/* NULL if no pair has NAME. */
const struct meter_end *meter_find_end(const struct ocp_meter *meter, const char *name);
/* What the sites are in, for messages. */
const char *meter_where(const struct ocp_meter *meter);

/*
 * meter_none_yet.c: is there no probe at all, in no file? Could one come? -ENOENT if not. Log what
 * is waited for.
 */
bool meter_has_none_yet(const struct ocp_meter *meter);
int meter_check_can_load(struct ocp_meter *meter);
void meter_log_none_yet(const struct ocp_meter *meter);

/*
 * meter_processes.c: see which processes there are, and add the files that they have loaded since.
 * What was found in this round and could not be measured is found again if the round is forgotten.
 */
int meter_look_at_processes(struct ocp_meter *meter, size_t *n_new);
void meter_forget_round(struct ocp_meter *meter);
void meter_processes_free(struct ocp_meter *meter);
/*
 * Have what is known of the processes in KNOWN, together with others, instead of listing them at
 * each refresh: its owner says when it expires. It must be there longer than METER.
 */
void meter_share_known(struct ocp_meter *meter, struct find_memory *known);
/* Of those that were asked for singly; whoever has its number next shall not be taken for it. */
void meter_drop_ended(struct ocp_meter *meter);

/* meter_arguments.c: what the engine is told of all sites, and of one. */
void meter_fill_spec(const struct ocp_meter *meter, struct engine_spec *spec);
void meter_fill_site(const struct ocp_meter *meter, const struct measured_site *measured,
		     struct engine_site *site);

/*
 * meter_attach.c: attach to N files; to all there are or, if there is none yet, let the engine know
 * the processes.
 */
int meter_attach_files(struct ocp_meter *meter, struct measured_file *const *files, size_t n);
int meter_attach_all(struct ocp_meter *meter);
/* Detach from those that are being overwritten; -ESTALE if there are or were any. */
int meter_check_files(struct ocp_meter *meter);

#endif
