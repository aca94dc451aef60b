/* SPDX-License-Identifier: MIT */
/*
 * A measuring engine: something that notices runs of numbered sites and adds them up. meter.c maps
 * probes to sites and knows no engine by more than this interface; today there is one
 * (engine_bpf.c: uprobes), the next will count inside the process (shared experiment: in-process
 * trampolines).
 *
 * Phases: open -> attach (again for files that come later) -> read ... -> detach -> read -> close.
 * Reads are allowed any time after open; a read after detach is exact. close detaches if need be
 * and takes NULL.
 *
 * All functions return 0 or a negative errno with the sentence in the ctx.
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
#include "ocaml_probes_measure.h"

struct filter;
struct hit_record;
struct site_args; /* these three: bpf/args.h */

enum { ENGINE_NO_KEY = -1 }; /* engine_spec.key_arg */

/* A site begins or ends pair number `pair`. */
struct engine_role {
	uint32_t pair;
	bool is_stop;
};

/* One site as the kernel wants it, and what is to be done at it. */
struct engine_site {
	uint64_t nop_off; /* file offset of the site's first byte, the nop */
	/*
	 * File offset of the 2-byte semaphore that belongs to tracers (S+0 of provider ocaml_1 and
	 * ocaml_2), 0 for none: where raising it would run the OCaml handler (provider `ocaml`).
	 */
	uint64_t ref_ctr_off;
	uint32_t probe_index; /* of its probe; comes back in keyed counts */
	uint32_t first_role;  /* in engine_spec.roles */
	uint32_t n_roles;
	bool is_off;   /* nothing is to be attached to it now; see switch_sites */
	bool is_keyed; /* its hits are told apart by engine_spec.split */
	/* The following only if the spec says that arguments are read. */
	bool is_filtered; /* its hits must match the filter, unless they are stops of pairs */
	bool is_printed;
	bool has_histogram;
	uint32_t histogram; /* number of the one that its hits go to */
	uint32_t args;	    /* number of its arguments in engine_file.args */
};

/* Sites of one file; path is opened by the kernel during attach only. */
struct engine_file {
	const char *path;  /* e.g. /proc/self/fd/N of the open file */
	const char *name;  /* what the user calls it */
	const pid_t *pids; /* the processes whose hits are meant */
	size_t n_pids;	   /* 0: every process, those to come included */
	bool check_exe;	   /* of these, only those that run engine_spec.exe */
	const struct engine_site *sites;
	size_t n_sites;
	size_t first_site; /* the number of the first; the others follow */
	/* Arguments that sites may have; in later calls, longer and with the same beginning. */
	const struct site_args *args;
	size_t n_args;
};

struct engine_spec {
	size_t max_sites;     /* their numbers are less */
	enum ocp_split split; /* by thread or process: hits are counted by these, too */
	size_t max_keys;      /* (thread or process, probe) that are told apart */
	const struct engine_role *roles;
	size_t n_roles;
	size_t n_pairs;
	size_t max_open;      /* (thread, pair) with starts at one time */
	unsigned int depth;   /* starts that one thread can have open in one pair */
	int key_arg;	      /* pairs match by this argument, or ENGINE_NO_KEY: by thread */
	bool many_processes;  /* targets may have more than one process */
	size_t max_processes; /* that are listed at one time */
	bool children;	      /* what a listed process forks is listed, too */
	const char *exe;      /* see check_exe; NULL: none */
	/*
	 * Arguments are read if there is a filter, a key, a histogram or if something is printed.
	 */
	const struct filter *filter; /* NULL: none */
	size_t n_histograms;	     /* 0: none */
	unsigned int hist_arg;	     /* of the histograms */
	bool prints;
	uint64_t print_limit; /* hits that are printed a second; 0: all */
	size_t print_bytes;   /* of the buffer between: a power of 2 of whole pages */
	size_t max_args;      /* site_args of all targets */
	bool can_switch;      /* switch_sites may be called */
	/*
	 * One of the processes, 0 if there is none yet. Ids are those of its pid namespace, unless
	 * ours is the initial one.
	 */
	pid_t pid;
};

/* What a pair adds up to. The sums of `starts` and `stops` are explained in bpf/measure.h. */
struct engine_pair {
	uint64_t starts, count, sum_ns, min_ns, max_ns; /* min_ns: 0 if count is 0 */
	uint64_t orphan_starts, orphan_stops, map_full, not_keyed;
	uint64_t buckets[496];
};

struct engine_keyed {
	uint32_t id; /* of the thread or process */
	uint32_t tgid;
	uint32_t probe_index;
	char comm[16]; /* of the thread, at its first hit */
	uint64_t hits;
};

/* What the values of an argument add up to; see struct measure_histogram. */
struct engine_histogram {
	uint64_t count, not_int;
	__int128 sum;
	int64_t min, max; /* 0 if count is 0 */
	uint64_t buckets[496], below_0[496];
};

/* What is read; the arrays are the caller's, but `keyed`, which is to be freed. */
struct engine_reading {
	uint64_t *hits;			     /* by number; room for all that were attached */
	struct engine_pair *pairs;	     /* room for n_pairs */
	struct engine_histogram *histograms; /* room for n_histograms */
	struct engine_keyed *keyed;
	size_t n_keyed;
	struct measure_losses losses;
};

struct engine;

/* Has what ID of process TGID stands for ended, so that it never runs a site again? */
typedef bool (*engine_ended_fn)(void *data, uint32_t id, uint32_t tgid);

/* RECORD is checked, and valid during the call only. */
typedef void (*engine_print_fn)(void *data, const struct hit_record *record);

struct engine_ops {
	const char *name;

	/* Could it be opened, as far as privileges and the kernel are concerned? */
	int (*check)(struct ocp_ctx *ctx);
	/* Load everything that can be loaded before a process is touched. SPEC is not kept. */
	int (*open)(struct ocp_ctx *ctx, const struct engine_spec *spec, struct engine **out);
	/*
	 * Attach to the sites of N targets; all begin to be measured at one moment. No site that
	 * is attached has one of their numbers. The targets are not kept. On failure nothing more
	 * is attached than before.
	 */
	int (*attach)(struct engine *engine, const struct engine_file *targets, size_t n);
	/*
	 * Let TARGET, which is attached, have those of its sites attached that are not off now.
	 * What the others do is measured as if nothing happened; on failure nothing has changed.
	 */
	int (*switch_sites)(struct engine *engine, const struct engine_file *target);
	/*
	 * Detach from the N sites from number FIRST on, of one target, for good. HITS, if it is not
	 * NULL, gets what they counted, which is 0 from then on: others can have their numbers.
	 */
	void (*give_up)(struct engine *engine, size_t first, size_t n, uint64_t *hits);
	/*
	 * Process PID of some targets has ended: whoever has its number next is not meant. Does
	 * nothing if it is not listed.
	 */
	void (*unlist)(struct engine *engine, pid_t pid);
	int (*read)(struct engine *engine, struct engine_reading *reading);
	/*
	 * Take the rows of those that HAS_ENDED(DATA, id, tgid) says so of out of `keyed`.
	 * *DROPPED, N of them, also on failure, is to be freed. Nothing is done where their ids
	 * mean nothing to us, in another pid namespace.
	 */
	int (*forget)(struct engine *engine, engine_ended_fn has_ended, void *data,
		      struct engine_keyed **dropped, size_t *n);
	/*
	 * Hand over what is to be printed, each hit once and ordered by time. For the sake of the
	 * order the last milliseconds are left for the next call, unless ALL are asked for.
	 */
	int (*print)(struct engine *engine, bool all, engine_print_fn fn, void *data);
	int (*detach)(struct engine *engine);
	void (*close)(struct engine *engine);

	/*
	 * Let it go on measuring when it is closed, under names in FOLDER, which is empty. What it
	 * leaves there goes with the folder's contents.
	 */
	int (*keep)(struct engine *engine, const char *folder);
	/*
	 * Open what was kept in FOLDER; of SPEC, max_sites is the number of sites attached, and
	 * n_pairs and split are looked at. It can be read, detached, and closed; closing alone lets
	 * it go on.
	 */
	int (*open_pinned)(struct ocp_ctx *ctx, const char *folder, const struct engine_spec *spec,
			   struct engine **out);
};

extern const struct engine_ops engine_bpf;

#endif
