/* SPDX-License-Identifier: MIT */
/*
 * Room measure/engine: the engines, which count and time numbered sites.
 * In: a request and sites.
 * Out: counts and times of each number.
 * Callers: measure; memprof, for its kernel part.
 */
/*
 * The interface of a measuring engine, which counts and times the hits of numbered sites. meter.c
 * maps probes to sites and uses an engine only through this interface. There are two engines:
 * engine_bpf.c (uprobes), and engine_inside.c, which counts inside of processes.
 *
 * The order of calls is open, attach (again for files that are loaded later), read (any number of
 * times), detach, read, close. A read after detach is exact. close detaches if necessary and
 * accepts NULL.
 *
 * All functions that return an int return 0, or a negative errno with a message in the ctx.
 */
#ifndef MEASURE_ENGINE_H
#define MEASURE_ENGINE_H

#include <linux/types.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include "base/ctx.h"
#include "measure.h"
#include "measure_by.h"
#include "measure_floats.h"
#include "measure_stacks.h"
#include "measure/args/request.h"
#include "ocaml_probes_measure.h"

struct site;
struct slow_start;
struct stack_store;
struct stack_walker;
struct stored_stack;
struct tracee;

/* What a hit of a site does to pair number `pair`: begin the pair, end it, or confirm a call. */
struct engine_role {
	uint32_t pair;
	bool is_stop;
	bool is_frame; /* the pair is matched by the frame of a call, not by thread or key */
	/* neither start nor stop: a hit confirms that the active call is to be timed */
	bool confirms;
	/*
	 * is_keyed: the pair is matched by the argument key_arg. is_compared: the pair is matched
	 * by thread, and is also counted in `mismatched` if key_arg differs between start and stop.
	 */
	bool is_keyed, is_compared;
	unsigned int key_arg;
};

/* A site, and what to do at its hits. */
struct engine_site {
	/*
	 * The program's description of the site, from which the engine takes the condition, the
	 * frame, and whether a hit is a return. NULL: no condition, no frame, no return.
	 */
	const struct site *site;
	uint64_t nop_off; /* file offset of the site's first byte, the nop */
	/*
	 * File offset of the 2-byte semaphore that tracers raise: in providers ocaml_1 and ocaml_2,
	 * the first half of the site's semaphore. 0: raise none. Provider `ocaml` has only the
	 * semaphore that OCaml reads; raising it would run the OCaml handler.
	 */
	uint64_t ref_ctr_off;
	uint32_t probe_index; /* the number of the site's probe */
	uint32_t first_role;  /* index in engine_spec.roles */
	uint32_t n_roles;
	bool is_off; /* do not attach to the site now; see switch_sites */
	/* only the kernel can count the site, because its code is not nop and call */
	bool needs_kernel;
	bool is_keyed; /* hits of the site are split by measure_request.split */
	/* The following members are used only if the spec reads arguments. */
	bool is_filtered; /* hits must match the filter, unless they are stops of pairs */
	bool is_printed;
	bool has_histogram;
	bool is_grouped;    /* hits are grouped: see engine_spec.by */
	uint32_t histogram; /* number of the histogram, if has_histogram */
	uint32_t args;	    /* index of the site's arguments in engine_file.args */
};

/* The sites of one file. The kernel opens path only during attach. */
struct engine_file {
	const char *path;  /* for example /proc/self/fd/N */
	const char *name;  /* the name for messages */
	const pid_t *pids; /* the processes to measure */
	size_t n_pids;	   /* 0: every process, including those that start later */
	bool check_exe;	   /* hits count only in processes that run engine_spec.exe */
	const struct engine_site *sites;
	size_t n_sites;
	size_t first_site; /* number of sites[0]; sites[i] has number first_site + i */
	/*
	 * Arguments of the sites: see engine_site.args. A later attach may pass more entries, but
	 * the entries of earlier attaches must stay the same.
	 */
	const struct site_args *args;
	size_t n_args;
};

/*
 * How to find the OCaml 5 domain of a thread. If all members are 0, calls are not split by domain.
 */
struct engine_domains {
	size_t max;  /* maximum number of combinations of a pair and a domain */
	int32_t tls; /* offset, from the FS base, of the pointer to the domain's state */
	uint16_t id; /* offset of the domain's unique id in the domain's state */
};

/*
 * Grouping hits by the value of argument `arg`, and times of pairs by the value that `arg` has at
 * the start of the pair. This cannot be combined with stacks.
 */
struct engine_by {
	bool is_on;
	unsigned int arg;
	size_t max_hits, max_times; /* maximum numbers of groups of hits, and of groups of times */
};

struct engine_spec {
	size_t max_sites; /* site numbers are less than this */
	/*
	 * What to measure. Engines use the members split, depth (not 0 if there are pairs),
	 * stack_depth, children, has_slower, slower_ns, print_limit (0: no limit), and the numbers
	 * n_pairs and printed.n. Engines do not use the lists and texts in `request`, which belong
	 * to the caller.
	 */
	struct measure_request request;
	size_t max_keys; /* maximum number of combinations of a thread or process and a probe */
	const struct engine_role *roles;
	size_t n_roles;
	/*
	 * maximum number of combinations of a thread and a pair with open starts, and of open
	 * starts by key
	 */
	size_t max_open;
	size_t max_frames;   /* maximum number of active calls; 0: no role has is_frame */
	bool has_conditions; /* a site may have a condition */
	/* all timed calls are phases of the collector, which the engine inside matches by thread */
	bool times_only_phases;
	bool only_windows;    /* each site is a window of a function (engine inside) */
	bool many_processes;  /* engine_file.n_pids may be more than 1 */
	size_t max_processes; /* processes that can be listed at the same time */
	const char *exe;      /* the program for check_exe; NULL: none */
	/*
	 * Arguments are read for a filter, histograms, groups, printed hits, slow pairs, and roles
	 * with is_keyed or is_compared.
	 */
	const struct filter *filter; /* NULL: none */
	size_t n_histograms;	     /* 0: none */
	unsigned int hist_arg;	     /* number of the argument for the histograms */
	bool can_switch;	     /* switch_sites may be called */
	size_t print_bytes;	     /* size of the ring buffer: a power of 2 of whole pages */
	size_t max_args;	     /* maximum number of entries of engine_file.args */
	struct engine_domains domains;
	struct engine_by by;
	bool counts_processes; /* count the hits of each process: engine_reading.processes */
	/*
	 * One of the measured processes; 0: none is known yet. If the tool is in the initial pid
	 * namespace, the engine uses the process ids of that namespace, otherwise those of the pid
	 * namespace of process PID.
	 */
	pid_t pid;
	/*
	 * The measured process, if it is held from its start until after the attach, and no other
	 * is measured. Otherwise NULL.
	 */
	struct tracee *held;
};

/*
 * The calls of a function, which is pair number `pair`, in one domain. In a reading, only the
 * members of `times` that are about completed calls are set, and times.starts is not set. In a
 * sample, times.start and times.stop are set, too, times.starts equals times.count, and
 * times.buckets points to `buckets`.
 */
struct domain_pair {
	uint32_t pair, domain;
	struct ocp_pair times;
	uint64_t buckets[OCP_BUCKETS];
};

/*
 * If all members are 0, there are no calls by domain. In a sample, the list is sorted by pair, then
 * by domain.
 */
struct domain_pairs {
	struct domain_pair *list;
	size_t n;
};

/* A hit that the filter could not judge, because an argument is not an int. */
struct engine_mismatch {
	bool is_set;
	uint32_t number, arg; /* of the site, and of the argument: see filter_parse() */
};

struct engine_keyed {
	uint32_t id; /* id of the thread or process */
	uint32_t tgid;
	uint32_t probe_index;
	char comm[16]; /* name of the thread that made the first hit */
	uint64_t hits;
};

/* The histogram of an argument's int values, summed over all CPUs; see struct measure_histogram. */
struct engine_histogram {
	uint64_t count, not_number;
	__int128 sum;
	int64_t min, max; /* 0 if count is 0 */
	uint64_t buckets[OCP_BUCKETS], below_0[OCP_BUCKETS];
};

/* The histogram of an argument's float values, summed over all CPUs; see struct measure_floats. */
struct engine_floats {
	uint64_t count, nan, inf, minus_inf;
	uint64_t max, min_not;
	__int128 sums[MEASURE_FLOAT_GROUPS];
	uint64_t buckets[MEASURE_FLOAT_BUCKETS];
};

/* All hits of a process so far, including hits that a filter rejects. */
struct engine_process {
	uint32_t tgid;
	uint64_t hits;
};

/*
 * The hits of a probe, or the times of a pair, for one value of the argument by which they are
 * grouped.
 */
struct engine_group {
	bool is_others;		 /* the group of all values for which there was no room */
	struct measure_by value; /* if is_others, only `what` is set */
	uint64_t hits;
	const struct measure_by_times *times; /* NULL if the group is of a probe */
};

/*
 * The result of a read. The caller provides the arrays hits, pairs, pair_buckets, histograms and
 * floats. The engine allocates the remaining arrays, which the caller frees.
 */
struct engine_reading {
	/*
	 * Set by the caller: read only hits, losses, walk_ns and `processes`. The other arrays may
	 * then be NULL.
	 */
	bool only_hits;
	uint64_t *hits; /* by site number; room for all attached sites */
	/*
	 * Room for n_pairs. The engine sets the counts and times, but not `open`. struct
	 * measure_pair in bpf/measure.h says how the counts of starts add up.
	 */
	struct ocp_pair *pairs;
	uint64_t (*pair_buckets)[OCP_BUCKETS]; /* by pair: the histogram of its times */
	struct engine_histogram *histograms;   /* room for n_histograms */
	struct engine_floats *floats;	       /* room for n_histograms; NULL: not wanted */
	struct engine_keyed *keyed;
	size_t n_keyed;
	struct domain_pairs domain_pairs;
	struct engine_group *groups;
	size_t n_groups;
	struct measure_by_times *group_times;
	struct measure_losses losses;
	/* set by the engine `inside`, in place of losses.last_mismatch */
	struct engine_mismatch mismatch;
	uint64_t walk_ns; /* time spent on walking stacks */
	/*
	 * The hits of each process, if only_hits is set. The BPF engine reads these only if
	 * engine_spec.counts_processes is set, too. After a process has ended, one more reading
	 * includes it.
	 */
	struct engine_process *processes;
	size_t n_processes;
};

/* The hits of a probe, or the times of a pair, with one stack. */
struct engine_stack {
	const struct stored_stack *stack; /* NULL: the stack was lost */
	uint32_t number;		  /* number of the probe or pair */
	bool is_pair;
	struct measure_stack_count count;
};

struct engine_stacks {
	struct engine_stack *list;
	size_t n;
	struct stack_store *store; /* owns the stacks in the list */
	struct stack_losses losses;
	struct measure_walk_costs costs;
};

/* A pair or a call that has begun and not ended. */
struct engine_open {
	uint32_t pair;
	bool is_call;
	/* as in struct slow_key (bpf/measure_slower.h), whose `pair` has SLOW_CALL for calls */
	uint32_t owner;
	uint64_t value;
	uint64_t ns;		   /* when it began (CLOCK_MONOTONIC) */
	struct slow_start *record; /* what was kept of the start */
};

struct engine_opens {
	struct engine_open *list;
	size_t n;
	uint64_t n_unkept; /* those whose start was not kept, which are not in the list */
};

void engine_opens_free(struct engine_opens *opens);

struct engine;

/*
 * Return true if ID, which is a thread of process TGID or TGID itself, has ended, so that it can
 * never hit a site again.
 */
typedef bool (*engine_ended_fn)(void *data, uint32_t id, uint32_t tgid);

/*
 * A callback for a record. The engine has checked the record: RECORD and, for a slow pair, the rest
 * of struct slow_record are valid. STACK is NULL if the record has no stack. RECORD and STACK exist
 * only during the call.
 */
typedef void (*engine_print_fn)(void *data, const struct hit_record *record,
				const struct stored_stack *stack);

struct engine_ops {
	const char *name;
	/* Do not measure the cost of a hit. */
	bool has_no_costs;

	/*
	 * Measure the cost of measuring with SPEC, without attaching to any site. If `costs` is
	 * NULL, calibrate.c measures the cost instead: it attaches an engine to sites of the tool
	 * itself.
	 */
	int (*costs)(struct ocp_ctx *ctx, const struct engine_spec *spec, struct ocp_costs *costs);

	/* Check that `open` can succeed with this kernel and the privileges of this process. */
	int (*check)(struct ocp_ctx *ctx);
	/* Load everything that does not need a process. SPEC is not kept. */
	int (*open)(struct ocp_ctx *ctx, const struct engine_spec *spec, struct engine **out);
	/*
	 * Attach to the sites of N files. All these sites start to count at the same moment. Their
	 * numbers must not belong to attached sites. The structs are not kept. On failure none of
	 * these sites is attached.
	 */
	int (*attach)(struct engine *engine, const struct engine_file *files, size_t n);
	/*
	 * Attach to the sites of FILE whose is_off is false, and detach from the sites whose is_off
	 * is true. FILE must be attached. A site whose state stays the same loses no hits. On
	 * failure, no site has changed its state.
	 */
	int (*switch_sites)(struct engine *engine, const struct engine_file *file);
	/*
	 * Detach permanently from the N sites from number FIRST on, which belong to one file. If
	 * HITS is not NULL, move the counts of these sites to HITS, and reset the engine's counts
	 * to 0. The caller can then reuse the numbers.
	 */
	void (*give_up)(struct engine *engine, size_t first, size_t n, uint64_t *hits);
	/*
	 * Process PID has ended: do not measure a new process with the same pid. Does nothing if
	 * the engine does not measure PID by its id.
	 */
	void (*unlist)(struct engine *engine, pid_t pid);
	int (*read)(struct engine *engine, struct engine_reading *reading);
	/*
	 * walk, refresh_stacks, walker and read_stacks may be called only if the spec has a
	 * stack_depth. Call `walk` before attaching to PID, so that the stacks of PID can be walked
	 * from the first hit on. The stacks of a process without a call of `walk` can be walked
	 * after refresh_stacks has found this process. refresh_stacks also finds the code that
	 * processes have loaded since the previous call.
	 */
	int (*walk)(struct engine *engine, pid_t pid);
	int (*refresh_stacks)(struct engine *engine);
	struct stack_walker *(*walker)(struct engine *engine);
	/* Read the counts by stack. The caller frees the list and the store, also on failure. */
	int (*read_stacks)(struct engine *engine, struct engine_stacks *stacks);
	/*
	 * Remove from `keyed` the rows for which has_ended(data, id, tgid) is true. Set *DROPPED to
	 * the *N removed rows, also on failure; the caller frees *DROPPED. Do nothing if the ids
	 * are not those of our pid namespace.
	 */
	int (*forget)(struct engine *engine, engine_ended_fn has_ended, void *data,
		      struct engine_keyed **dropped, size_t *n);
	/*
	 * Pass each record of a printed hit or slow pair (struct slow_record) to FN once, in the
	 * order of time. Unless ALL is true, leave the records of the last milliseconds for the
	 * next call, because older records may still appear.
	 */
	int (*print)(struct engine *engine, bool all, engine_print_fn fn, void *data);
	/*
	 * Return a time of CLOCK_MONOTONIC, in nanoseconds. The calls of `print` have passed all
	 * records up to this time. Return 0 before the first such call, and INT64_MAX if the engine
	 * makes no records.
	 */
	int64_t (*printed_until)(const struct engine *engine);
	/*
	 * Set OPENS to the pairs and calls that have begun and not ended. Calls that an exception
	 * has ended are included. NULL: the engine cannot say this. Call this only if the spec has
	 * has_slower. The caller calls engine_opens_free(), also on failure.
	 */
	int (*read_open)(struct engine *engine, struct engine_opens *opens);
	int (*detach)(struct engine *engine);
	void (*close)(struct engine *engine);

	/*
	 * For an engine that continues to count after the tool was killed: store NAME ("" for none)
	 * and TEXT, which describes the numbers, in a place where a later tool can find them. Call
	 * this before the attach. The engine frees TEXT, also after an error. If `describe` is
	 * NULL, the engine stops counting when the tool ends.
	 */
	int (*describe)(struct engine *engine, const char *name, char *text);
	/*
	 * Make the engine continue to measure after close, by pinning its maps and links in FOLDER,
	 * which is empty. To end the measuring, remove the contents of FOLDER. An engine that has
	 * `describe` ignores FOLDER, which may be NULL.
	 */
	int (*keep)(struct engine *engine, const char *folder);
	/*
	 * Open the engine that was pinned in FOLDER. Of SPEC, only max_sites (the number of
	 * attached sites), request.n_pairs and request.split are used. The engine can be read,
	 * detached and closed. If it is closed without a detach, it continues to measure.
	 */
	int (*open_pinned)(struct ocp_ctx *ctx, const char *folder, const struct engine_spec *spec,
			   struct engine **out);
};

extern const struct engine_ops engine_bpf;

#endif
