/* SPDX-License-Identifier: MIT */
/*
 * Room measure: meters: what a user measures.
 * In: a request and processes.
 * Out: samples: rows with names.
 * Callers: watch and tool; the public C API.
 */
/* The contents of struct ocp_meter, and the functions of its modules. */
#ifndef MEASURE_METER_H
#define MEASURE_METER_H

#include "measure/args/arg_requests.h"
#include "measure/calibrate.h"
#include "measure/engine/engine.h"
#include "program/selection.h"
#include "measure/sites/site_table.h"
#include "ocaml_probes.h"
#include "look/find.h"
#include "look/maps.h"

enum { PIN_PATH_BYTES = 128 }; /* the path of the directory of a pinned meter */

/* The state of a file. Each change of the file changes its state. */
struct code_file_state {
	dev_t dev;
	ino_t ino;
	off_t bytes;
	struct timespec modified, changed;
};

enum { CODE_FILES_REMEMBERED = 64 };

/*
 * The CODE_FILES_REMEMBERED files that were remembered most recently. If all members are 0, no file
 * is remembered.
 */
struct code_files {
	struct code_file_state states[CODE_FILES_REMEMBERED];
	size_t next;
};

/* How the key of pairs is determined. */
enum meter_keys {
	KEYS_AS_ASKED, /* by the key of ocp_meter_set_key(); by thread if no key was set */
	/* by an argument that both probes of the pair have; by thread if there is none */
	KEYS_FOUND,
	/* by thread; compare an argument that both probes of the pair have, if there is one */
	KEYS_COMPARED,
};

/*
 * A probe that begins or ends pairs, and the probe's part of meter->roles. The file of the probe
 * may be loaded later.
 */
struct meter_end {
	const char *name;
	uint32_t first_role, n_roles;
	bool begins_pair;
	/* bit N: argument N is the key_arg (compared_arg) of a pair */
	uint32_t key_args, compared_args;
	/*
	 * The probe is a function whose calls are timed. The last of the n_roles roles is the
	 * beginning of a call. Behind these roles are four more, which n_roles does not count: the
	 * end and the confirmation of a call, then the beginning and the end of a call that is
	 * matched by thread (this is faster). See fill_roles().
	 */
	bool has_calls;
};

/* A process of the newest list of processes, and the results of its last inspection. */
struct measured_process {
	pid_t pid;	      /* the id of the process in /proc */
	pid_t tgid;	      /* differs from pid if the main thread has exited */
	unsigned int looks;   /* how often the process was inspected, counted up to a limit */
	unsigned int changed; /* the last round in which its files were seen to change */
	/* hash of the files that the process has mapped as code; 0: unknown */
	uint64_t signature;
	uint64_t start_time; /* set only if the meter measures single processes (`procs`) */
	bool is_walked;	     /* the engine is prepared to walk the stacks of the process */
};

/* Whether a program without probes must be native OCaml code when the meter is opened. */
enum meter_ocaml {
	METER_OCAML_LATER,  /* no: the program may load OCaml code later */
	METER_NOT_BYTECODE, /* no, but it must not be bytecode, which cannot load native code */
	METER_OCAML_NOW,
};

struct ended_calls;

struct ocp_meter {
	struct ocp_ctx *ctx;
	const struct engine_ops *ops;
	struct engine *engine; /* NULL before open */
	struct calibration *calibration;
	struct engine_spec spec;

	/* the request */
	struct ocp_process **procs; /* owned by the caller */
	size_t n_procs;
	struct ocp_program *program; /* measure in every process that runs this program */
	char program_path[FD_PATH_BYTES];
	/* other files share the code of the program's file: see kernel_file.c */
	bool program_is_layered;
	struct measure_request request; /* depth and print_limit always have a value */
	struct selection counted;	/* the compiled form of request.counted */
	/*
	 * The compiled form of request.timed. When the meter is opened, each function that matches
	 * becomes a pair of the request: see meter_add_matching().
	 */
	struct selection timed;
	bool wants_estimate;
	enum meter_ocaml needs_ocaml;
	bool counts_processes; /* see spending.h */
	struct engine_domains domains;
	struct arg_requests arg_requests;
	enum meter_keys keys;

	/* the state */
	struct site_table table;
	struct meter_end *ends;
	size_t n_ends;
	struct engine_role *roles;
	size_t n_roles;
	/*
	 * The processes of a program are sorted by pid; single processes are in the order in which
	 * they were added.
	 */
	struct measured_process *processes;
	size_t n_processes;
	struct find_memory known, *shared; /* `shared`: see meter_share_known() */
	struct warned_pids hidden; /* processes that may run the program, but cannot be inspected */
	/* files that must not be read, or that have none of the requested functions */
	struct code_files without_code;
	uint64_t *forgotten;		 /* hits of ended processes, by probe */
	size_t n_forgotten;		 /* entries of `forgotten` */
	int64_t start_ns, end_ns;	 /* attach and detach, by CLOCK_MONOTONIC; 0: not yet */
	unsigned int round;		 /* number of the latest round of listing the processes */
	struct frame_names *frame_names; /* NULL until a frame is named */
	struct ended_calls *ended_calls; /* see open_pairs.h; NULL: none were searched */
	/* by site: the frame of the site's probe; NULL: not needed yet */
	struct named_frame **site_frames;
	size_t n_site_frames;
	bool sees_all; /* `processes` has all measured processes, except hidden ones */
	bool is_attached;
	bool is_pinned;	 /* the meter continues to measure after ocp_meter_free() */
	bool is_foreign; /* at open, the program had no probes and was not an OCaml program */
	/* the meter was made by an earlier tool, and counts inside of processes */
	bool is_found;
	bool has_passed_over; /* see meter_passes_over() */
	/*
	 * If is_found: the first n_asked elements of `pids` are the processes to which that tool
	 * attached, of which n_alive still count. The other elements are processes that share
	 * counters with these.
	 */
	size_t n_asked;
	size_t n_alive;
	/* if the meter counts inside of processes: the name under which to keep it; NULL: none */
	const char *kept_name;

	/* the request as text, for readers of a pinned meter */
	char *program_name;
	pid_t *pids;
	size_t n_pids;
	char pin_folder[PIN_PATH_BYTES]; /* "" unless the meter was opened from bpffs */
	struct ocp_costs pinned_costs;
};

/* Return the time of the attach (CLOCK_MONOTONIC). Times of samples and hits are relative to it. */
int64_t meter_start_ns(const struct ocp_meter *meter);

/*
 * Return a time (CLOCK_MONOTONIC) up to which ocp_meter_take_hits() has passed all hits. Return 0
 * before it has passed any.
 */
int64_t meter_hits_until(const struct ocp_meter *meter);

/*
 * hits.c: return why the value of argument number ARG of HIT is unknown, as a clause for a message:
 * "whose place cannot be read (8@sy)". The argument must have the kind OCP_UNSUPPORTED. The caller
 * frees the text. Return NULL if memory is short.
 */
char *meter_why_unread(const struct ocp_meter *meter, const struct ocp_hit *hit, size_t arg);

/*
 * hits.c: call FN with the hit with which OPEN began, a pair or call that has not ended: for this
 * hit, slow_pair_of() returns a pair with is_open.
 */
void meter_pass_open(struct ocp_meter *meter, const struct engine_open *open, ocp_hit_fn fn,
		     void *data);

/*
 * meter_files.c: meter_add_program() adds the file of the measured program to the table, and sets
 * *N_NEW to the number of added sites. meter_add_images() adds the files that PROC maps, unless the
 * table has them, and increases *N_NEW by the number of added sites. If OURS is true, the table
 * then owns the struct ocp_program of each added file, so that the caller can free PROC.
 */
int meter_add_program(struct ocp_meter *meter, size_t *n_new);
int meter_add_images(struct ocp_meter *meter, const struct ocp_process *proc, bool ours,
		     size_t *n_new);
/*
 * A callback for site_table_add_file(). DATA is the meter. If the probe NAME is requested, fill in
 * the members of PROBE that say how it is measured, and return true.
 */
bool meter_wants_probe(void *data, const char *name, struct measured_probe *probe);
/* Remove deleted files that no process maps any more: no process can map them again. */
void meter_give_up_files(struct ocp_meter *meter);

/*
 * meter_code.c: meter_find_code() sets *OUT to the requested functions of PROG, a file that PID
 * maps, or to NULL if PROG has none of them. Of the files that PID maps,
 * meter_add_files_without_probes() adds those that have requested functions but no probes.
 * meter_check_code() checks that all requested functions were found.
 */
int meter_find_code(struct ocp_meter *meter, const struct ocp_program *prog, pid_t pid,
		    struct code_probes **out);
int meter_add_files_without_probes(struct ocp_meter *meter, pid_t pid, size_t *n_new);
/*
 * After all files were added, remove the functions whose sites are all left out: a row without hits
 * would say that they were not called. Set *N_SITES to the number of sites that remain, if that has
 * changed. Return -EBADMSG, with a message, if nothing remains.
 */
int meter_drop_left_out(struct ocp_meter *meter, size_t *n_sites);
/*
 * Return true if sites may have conditions, which is the case if phases of the garbage collector
 * are requested.
 */
bool meter_has_conditions(const struct ocp_meter *meter);
/* Return true if no calls are timed but those of phases of the collector. */
bool meter_times_only_phases(const struct ocp_meter *meter);
int meter_check_code(struct ocp_meter *meter);

/*
 * meter_keys.c: meter_find_keys() decides how each pair is matched, once the sites are known. Call
 * meter_drop_keys() if the kernel cannot read arguments: it undoes these decisions, so that pairs
 * for which the user requested no key are matched by thread; it returns false if there was nothing
 * to undo. meter_keys_text() returns a text for the user that says which keys were chosen.
 * meter_threads_text() returns a text that says why pairs that are matched by thread may mix up
 * requests. The caller frees these texts. NULL means that there is nothing to say.
 */
int meter_find_keys(struct ocp_meter *meter);
bool meter_drop_keys(struct ocp_meter *meter);
char *meter_keys_text(const struct ocp_meter *meter);
char *meter_threads_text(const struct ocp_meter *meter);

/*
 * meter.c: add a pair to the request of METER, which is being opened, for each function in CODE
 * that matches meter->timed and is not timed yet. Return -EINVAL if the functions are too many. If
 * the meter is open, do nothing: the number of its pairs is fixed.
 */
int meter_add_matching(struct ocp_meter *meter, const struct code_probes *code);
/* meter_request.c: the largest number of pairs that one meter can time. */
enum { METER_MAX_PAIRS = 512 };
/*
 * The same for the functions that match a pattern, if the engine `inside` times them. So many pairs
 * by key fit into one block, with room for the fewest threads (change/inside/layout.h), and with
 * 1 KiB for the trampolines, counters and names of each function.
 */
enum { METER_MAX_INSIDE_PAIRS = 24000 };

/* Return the roles of the probe NAME in pairs, or NULL if the probe belongs to no pair. */
const struct meter_end *meter_find_end(const struct ocp_meter *meter, const char *name);
/* Return the name of the measured program or processes, for messages. */
const char *meter_where(const struct ocp_meter *meter);

/*
 * meter.c: meter_remained_foreign() returns true if the program was not an OCaml program when the
 * meter was opened, and has loaded no probes since.
 */
void meter_need_ocaml(struct ocp_meter *meter, enum meter_ocaml needs);
bool meter_remained_foreign(const struct ocp_meter *meter);

/*
 * meter_processes.c: meter_look_at_processes() begins a new round: it lists the processes, and adds
 * to the table the files that these have loaded since the previous round. Call meter_forget_round()
 * if files that were found in this round could not be measured: the next round then finds these
 * files again.
 */
int meter_look_at_processes(struct ocp_meter *meter, size_t *n_new);
void meter_forget_round(struct ocp_meter *meter);
void meter_processes_free(struct ocp_meter *meter);
/*
 * Use the list of processes in KNOWN, which several meters share, instead of listing the processes
 * at each refresh. The owner of KNOWN decides when the list expires. KNOWN must outlive METER.
 */
void meter_share_known(struct ocp_meter *meter, struct find_memory *known);
/*
 * Remove single processes that have ended, so that a new process with the same pid is not measured.
 */
void meter_drop_ended(struct ocp_meter *meter);

/*
 * meter_stacks.c: if METER walks stacks, prepare the engine to walk those of all listed processes.
 */
int meter_walk_processes(struct ocp_meter *meter);
void meter_stacks_free(struct ocp_meter *meter);

/*
 * Return true if this process is not permitted to use BPF, or if the kernel lacks what our BPF
 * programs need. The error in CTX is the reason.
 */
bool meter_lacks_bpf(struct ocp_ctx *ctx);

/*
 * meter_inside.c: meter_use_inside() makes METER count inside of the processes (engine_inside.c)
 * instead of in the kernel. Call it before the meter is opened. Call the two checks after the files
 * of the processes were added to the table: meter_check_inside() returns -ENOTSUP if none of the
 * processes can be counted inside, meter_check_all_inside() if at least one process cannot be
 * counted inside. After the attach, meter_tell_without_sites() warns of processes that are not
 * counted. meter_passes_over() returns true, and warns, if FILE was loaded too late to be counted.
 * meter_tell_late() warns if the file of FROM is counted in other processes, but the process of
 * FROM has loaded it too late.
 */
void meter_use_inside(struct ocp_meter *meter);
bool meter_is_inside(const struct ocp_meter *meter);
bool meter_needs_kernel(const struct site *site);
int meter_check_inside(const struct ocp_meter *meter);
int meter_check_all_inside(const struct ocp_meter *meter);
/*
 * Call these after arg_requests_resolve(): return -ENOTSUP if the engine `inside` cannot evaluate
 * the filter at a site, or cannot group its hits.
 */
int meter_check_filter_inside(const struct ocp_meter *meter);
int meter_check_groups_inside(const struct ocp_meter *meter);
void meter_tell_without_sites(const struct ocp_meter *meter);
/*
 * After the attach: return the number of processes that are measured, including those that have
 * ended since.
 */
size_t meter_n_counted(const struct ocp_meter *meter);
/*
 * Set the NAME under which ocp_meter_pin() will keep a meter that counts inside. Call this before
 * the attach. NAME must outlive the meter. Return -EEXIST if NAME is taken.
 */
int meter_name_inside(struct ocp_meter *meter, const char *name);
/*
 * Give the engine the name and the description of METER, by which other tools find and read it
 * after the end of this process. Call this before the attach.
 */
int meter_describe(struct ocp_meter *meter);
/*
 * Set *TEXT to the description that meter_describe() makes, but without the costs. The caller frees
 * *TEXT, also after an error.
 */
int meter_text(struct ocp_meter *meter, char **text);
void meter_tell_late(const struct ocp_meter *meter, const struct new_file *from);
bool meter_passes_over(const struct ocp_meter *meter, const struct measured_file *file);
/*
 * Return true if the engine `inside` is now counting for METER in process PID, which is a process
 * of METER or a child forked from one. Return false if METER uses another engine.
 */
bool meter_counts_in(const struct ocp_meter *meter, pid_t pid);

/*
 * calibrate.c: measure the cost of a hit in the background. Call meter_start_calibration() when the
 * sites and the spec are known. meter_start_calibration_early() may be called before that; it
 * starts the measurement only if functions are requested and the cost does not depend on arguments
 * of sites.
 */
void meter_start_calibration(struct ocp_meter *meter);
void meter_start_calibration_early(struct ocp_meter *meter);
/*
 * Set *COSTS to the costs, or to a first estimate, without waiting. Return false if neither is
 * known.
 */
bool meter_costs_so_far(struct ocp_meter *meter, struct ocp_costs *costs);

/*
 * meter_files.c: meter_attach_files() attaches to N files, and meter_attach_all() to all files. If
 * the table has no file yet, meter_attach_all() only tells the engine which processes to measure.
 */
int meter_attach_files(struct ocp_meter *meter, struct measured_file *const *files, size_t n);
int meter_attach_all(struct ocp_meter *meter);
/* Attach to the sites of FILE that are on, and detach from the others. */
int meter_switch_file(struct ocp_meter *meter, const struct measured_file *file);
/*
 * Measure only the probes whose number is PART modulo N_PARTS. This may also be called before the
 * attach. By measuring one part after the other, a caller can look at many probes without slowing
 * down the process much. Unlike ocp_meter_switch(), this function also switches probes that belong
 * to pairs.
 */
int meter_switch_part(struct ocp_meter *meter, size_t part, size_t n_parts);
/* Detach from files that are being overwritten. Return -ESTALE if a file is or was overwritten. */
int meter_check_files(struct ocp_meter *meter);

/* pin.c: the names of meters that are pinned in directories of bpffs. */

/*
 * Return -EEXIST if there is a directory for NAME that this process can see, -EINVAL if NAME is not
 * a valid name, else 0.
 */
int pin_check_name_free(struct ocp_ctx *ctx, const char *name);
/* Set the error that NAME is in use. Return -EEXIST. */
int pin_is_taken(struct ocp_ctx *ctx, const char *name);
/*
 * Remove FOLDER and all names of maps and links in it. A map or link continues to exist while a
 * process has a descriptor of it.
 */
int pin_remove_names(struct ocp_ctx *ctx, const char *folder);

#endif
