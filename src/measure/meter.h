/* SPDX-License-Identifier: MIT */
/* What a struct ocp_meter holds, for the modules that build on it. */
#ifndef MEASURE_METER_H
#define MEASURE_METER_H

#include "measure/args/arg_requests.h"
#include "measure/calibrate.h"
#include "measure/code_files.h"
#include "measure/engine/engine.h"
#include "measure/pin_folder.h"
#include "program/selection.h"
#include "measure/sites/site_table.h"
#include "ocaml_probes.h"
#include "process/find.h"
#include "tracee/maps.h"

struct meter_pair {
	char *start, *stop;
	bool is_calls; /* of the function START; STOP is "" */
	/* The numbers of arguments, as in filter.h; -1: none. See meter_keys.c. */
	int key_arg;	  /* that matches starts and stops; none: they are matched by thread */
	int compared_arg; /* by thread: of which is counted how often it differs */
	bool is_chosen;	  /* the key was not asked for */
};

/* Who says by what pairs are matched. */
enum meter_keys {
	KEYS_AS_ASKED, /* by ocp_meter_set_key(), or by thread */
	KEYS_FOUND,    /* by an argument that both probes have, if there is one */
	KEYS_COMPARED, /* by thread; such an argument is compared */
};

/* A probe that begins or ends pairs, whether it exists or not: its part of meter->roles. */
struct meter_end {
	const char *name;
	uint32_t first_role, n_roles;
	bool begins_pair;
	uint32_t key_args, compared_args; /* bit N: of a pair by the argument N */
	/*
	 * It is a function whose calls are timed. Its last role is the beginning of a call. Two more
	 * follow, which are not among the n_roles: the end, and the confirmation of a call. Then
	 * beginning and end of calls that are matched by thread, which is faster: see fill_roles().
	 */
	bool has_calls;
};

/* A process that existed at the last look, and the files that it ran code of then. */
struct measured_process {
	pid_t pid;  /* its id in /proc */
	pid_t tgid; /* differs from pid if the main thread has exited */
	unsigned int looks;
	unsigned int changed; /* the round in which its files were seen to change */
	uint64_t signature;   /* 0: unknown */
	uint64_t start_time;  /* only of single processes */
	bool is_walked;	      /* its stacks can be walked */
};

/* Of a program without probes: must it be one in native OCaml code when the meter is opened? */
enum meter_ocaml {
	METER_OCAML_LATER,  /* it may load some */
	METER_NOT_BYTECODE, /* the same, but bytecode loads none */
	METER_OCAML_NOW,
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
	struct ocp_program *program; /* measure in every process that runs it */
	char program_path[FD_PATH_BYTES];
	bool program_is_layered; /* other files share its code: see kernel_file.c */
	struct selection counted;
	struct meter_pair *pairs;
	size_t n_pairs;
	const struct line_spans *spans; /* of the request; NULL: none */
	enum ocp_split split;
	unsigned int depth;
	bool children, wants_estimate;
	enum meter_ocaml needs_ocaml;
	bool counts_processes;	  /* see spending.h */
	unsigned int stack_depth; /* 0: stacks are not walked */
	struct engine_domains domains;
	struct arg_requests arg_requests;
	enum meter_keys keys;
	bool is_thread_wanted; /* by --key none */

	/* what was found */
	struct site_table table;
	struct meter_end *ends;
	size_t n_ends;
	struct engine_role *roles;
	size_t n_roles;
	/* Sorted by pid. Single processes are in the order in which they were added. */
	struct measured_process *processes;
	size_t n_processes;
	struct find_memory known, *shared; /* shared with other meters, or NULL */
	struct warned_pids hidden;	   /* may run the program too */
	struct code_files without_code;	   /* nothing in them is asked for */
	uint64_t *forgotten;		   /* hits of ended processes, by probe */
	size_t n_forgotten;		   /* probes */
	int64_t start_ns, end_ns;	   /* CLOCK_MONOTONIC; 0: not yet */
	unsigned int round;		   /* rounds of listing the processes */
	struct frame_names *frame_names;   /* NULL: none was needed yet */
	struct named_frame **site_frames;  /* by site: the frames of probes; NULL: not needed yet */
	size_t n_site_frames;
	bool sees_all; /* the list is complete, except for hidden ones */
	bool is_attached;
	bool is_pinned;	      /* it continues to measure after it is freed */
	bool is_foreign;      /* it had no probes when it was opened, and is not an OCaml program */
	bool is_found;	      /* in a process that counts inside: an earlier tool has made it */
	bool has_passed_over; /* see meter_passes_over() */
	size_t n_asked;	      /* found: the first of the pids; the others share their counters */
	size_t n_alive;	      /* of these, those that still count */
	const char *kept_name; /* which it gets if it counts inside; NULL: none */

	/* the request as text, for readers of a pinned meter */
	char *program_name;
	pid_t *pids;
	size_t n_pids;
	char pin_folder[PIN_PATH_BYTES]; /* "" unless it is a pinned meter */
	struct ocp_costs pinned_costs;
};

/* The time of CLOCK_MONOTONIC at the attach, from which the times of samples and hits count. */
int64_t meter_start_ns(const struct ocp_meter *meter);

/*
 * hits.c: why argument ARG of HIT, of kind OCP_UNSUPPORTED, has no value: "whose place cannot be read
 * (8@sy)". The caller frees it; NULL if memory is short.
 */
char *meter_why_unread(const struct ocp_meter *meter, const struct ocp_hit *hit, size_t arg);

/* meter_request.c, meter_arg_requests.c: count, or print the hits of, the probes of ITEM. */
int meter_count_item(struct ocp_meter *meter, const struct item *item);
int meter_print_item(struct ocp_meter *meter, const struct item *item);
/* Group hits, and times of pairs by their starts, by the value of the argument ARG: see by_value.h. */
int meter_group_by(struct ocp_meter *meter, const char *arg);

/*
 * meter_files.c: add the program, or the new files that PROC maps, to the table. If PROC is OURS,
 * the files take their programs from it, and PROC can be freed.
 */
int meter_add_program(struct ocp_meter *meter, size_t *n_new);
int meter_add_images(struct ocp_meter *meter, const struct ocp_process *proc, bool ours,
		     size_t *n_new);
/* For site_table_add_file(): is the probe NAME asked for, and for what? DATA is the meter. */
bool meter_wants_probe(void *data, const char *name, struct measured_probe *probe);
/* Remove the files that no process maps any more and none can map again. */
void meter_give_up_files(struct ocp_meter *meter);

/*
 * meter_code.c: the functions of PROG, which PID maps, that are asked for, or NULL. Add the files
 * without probes that PID maps and that have functions which are asked for. Check that all were
 * found.
 */
int meter_find_code(struct ocp_meter *meter, const struct ocp_program *prog, pid_t pid,
		    struct code_probes **out);
int meter_add_files_without_probes(struct ocp_meter *meter, pid_t pid, size_t *n_new);
/* Are phases of the collector asked for? Some of their sites have conditions. */
bool meter_has_conditions(const struct ocp_meter *meter);
int meter_check_code(struct ocp_meter *meter);
/*
 * meter_changed.c: leave out the functions of the file of ST that PID, which maps it at M, has changed
 * in memory. -EBADMSG if one of them was named and nothing is measured yet.
 */
int meter_leave_out_changed(struct ocp_meter *meter, pid_t pid, const struct mapping *m,
			    const struct stat *st);
bool meter_asks_for_code(const struct ocp_meter *meter);

/*
 * meter_keys.c: find out by what the pairs are matched, when the sites are known. If the kernel reads no
 * arguments, meter_drop_keys() leaves the pairs by thread; false: no argument was found.
 * The texts are for the user, who frees them: which keys were found; why pairs by thread may mix up
 * requests. NULL: there is nothing to tell.
 */
int meter_find_keys(struct ocp_meter *meter);
bool meter_drop_keys(struct ocp_meter *meter);
char *meter_keys_text(const struct ocp_meter *meter);
char *meter_threads_text(const struct ocp_meter *meter);

/* NULL if no pair has NAME. */
const struct meter_end *meter_find_end(const struct ocp_meter *meter, const char *name);
/* The name of what is measured, for messages. */
const char *meter_where(const struct ocp_meter *meter);

/*
 * meter_none_yet.c: meter_has_none_yet() is true if no file has probes. meter_check_can_load()
 * returns -ENOENT if no process can load any, and -ENODATA if meter_need_ocaml() asks for more than
 * the program is. meter_log_none_yet() logs which probes are missing. meter_remained_foreign() is
 * true if there was no OCaml at the start, and there are no probes now.
 */
bool meter_has_none_yet(const struct ocp_meter *meter);
void meter_need_ocaml(struct ocp_meter *meter, enum meter_ocaml needs);
int meter_check_can_load(struct ocp_meter *meter);
bool meter_remained_foreign(const struct ocp_meter *meter);
void meter_log_none_yet(const struct ocp_meter *meter);

/*
 * meter_processes.c: list the processes and add the files that they have loaded since the last
 * round. After meter_forget_round(), files that could not be measured in this round are found
 * again.
 */
int meter_look_at_processes(struct ocp_meter *meter, size_t *n_new);
void meter_forget_round(struct ocp_meter *meter);
void meter_processes_free(struct ocp_meter *meter);
/*
 * Use the list KNOWN, which other meters use too, instead of listing the processes at each refresh.
 * Its owner decides when it expires. It must outlive METER.
 */
void meter_share_known(struct ocp_meter *meter, struct find_memory *known);
/*
 * Remove single processes that have ended, so that a new process with the same pid is not measured.
 */
void meter_drop_ended(struct ocp_meter *meter);

/* meter_stacks.c: walk the stacks of all processes of the list, if stacks are walked. */
int meter_walk_processes(struct ocp_meter *meter);
void meter_stacks_free(struct ocp_meter *meter);

/* meter_arg_requests.c: what the engine must know about all sites, and about one site. */
void meter_fill_spec(const struct ocp_meter *meter, struct engine_spec *spec);
void meter_fill_site(const struct ocp_meter *meter, const struct measured_site *measured,
		     struct engine_site *site);

/* True: BPF is not permitted, or this kernel is too old for it. The ctx has the reason. */
bool meter_lacks_bpf(struct ocp_ctx *ctx);

/*
 * meter_inside.c: count inside of the processes (engine_inside.c) instead of in the kernel. Call it before
 * the meter is opened. The files are known when the following are called: meter_check_inside() refuses if no
 * process has sites that can be counted so, meter_check_all_inside() if one has none; what is wrong with a
 * process is told at the attach. meter_passes_over() tells, and warns of, a file that was loaded too late;
 * meter_tell_late() warns if the process of FROM has loaded a file too late that is counted in others.
 */
void meter_use_inside(struct ocp_meter *meter);
bool meter_is_inside(const struct ocp_meter *meter);
bool meter_needs_kernel(const struct site *site);
int meter_check_inside(const struct ocp_meter *meter);
int meter_check_all_inside(const struct ocp_meter *meter);
void meter_tell_without_sites(const struct ocp_meter *meter);
/* After the attach: how many of the processes are measured, or were until their end. */
size_t meter_n_counted(const struct ocp_meter *meter);
/*
 * Give a meter that counts inside the NAME under which ocp_meter_pin() is to keep it. Before the attach.
 * NAME outlives the meter. -EEXIST if it is taken.
 */
int meter_name_inside(struct ocp_meter *meter, const char *name);
/* Tell the engine what those need that find it after the end of this process. Before the attach. */
int meter_describe(struct ocp_meter *meter);
/* The same TEXT without the costs; the caller frees it, also after an error. */
int meter_text(struct ocp_meter *meter, char **text);
void meter_tell_late(const struct ocp_meter *meter, const struct new_file *from);
bool meter_passes_over(const struct ocp_meter *meter, const struct measured_file *file);
/* Does PID, a process of METER or a child that one has forked, count inside for METER now? */
bool meter_counts_in(const struct ocp_meter *meter, pid_t pid);

/*
 * meter_costs.c: measure the cost of a hit in the background; before anything else is known, if that
 * does not affect it.
 */
void meter_start_calibration(struct ocp_meter *meter);
void meter_start_calibration_early(struct ocp_meter *meter);
/* The costs, or a first estimate of them, without waiting. False: nothing is known. */
bool meter_costs_so_far(struct ocp_meter *meter, struct ocp_costs *costs);

/*
 * meter_attach.c: attach to N files, or to all files. If there is no file yet, tell the engine
 * about the processes.
 */
int meter_attach_files(struct ocp_meter *meter, struct measured_file *const *files, size_t n);
int meter_attach_all(struct ocp_meter *meter);
/* Attach to the sites of FILE that are on, and detach from the others. */
int meter_switch_file(struct ocp_meter *meter, const struct measured_file *file);
/*
 * Measure every probe whose number is PART modulo N_PARTS, and no other one. Also before the attach. For those
 * who look at many probes without slowing down the process much: those of pairs are switched, too.
 */
int meter_switch_part(struct ocp_meter *meter, size_t part, size_t n_parts);
/* Detach from files that are being overwritten. -ESTALE if there are or were any. */
int meter_check_files(struct ocp_meter *meter);

#endif
