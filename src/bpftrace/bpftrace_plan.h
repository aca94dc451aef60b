/* SPDX-License-Identifier: MIT */
/*
 * Room bpftrace: commands for bpftrace.
 * In: names of probes, and a process or a file.
 * Out: the attach points, or a script.
 * Callers: tool.
 */
/* Choose the attach points with which bpftrace traces the requested probes: see bpftrace_plan.c. */
#ifndef BPFTRACE_PLAN_H
#define BPFTRACE_PLAN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include "ocaml_probes.h"
#include "program/code_probes.h"

/* A site, and where bpftrace attaches to it. */
struct bpftrace_site {
	const struct site *site;
	uint64_t at; /* what follows "uprobe:FILE:": a file offset or an address */
	/*
	 * if is_code: the value of rsp at the entry of the function minus that at the attach point
	 * `at`, in bytes
	 */
	int32_t depth;
};

/* A file with functions or phases to trace. */
struct bpftrace_code {
	struct ocp_program *own; /* NULL: the caller owns the program */
	struct code_probes *probes;
};

/* The sites of one probe name, or of one function, in one file. */
struct bpftrace_group {
	const char *name;
	const char *file; /* the name for bpftrace, not quoted */
	/* the provider for usdt:; NULL: usdt: cannot be used, so each site is a uprobe */
	const char *provider;
	/* why usdt: cannot be used; NULL if it can, and for functions and phases */
	const char *why;
	/* number of uses of the probe in the source, and of those uses that have no site */
	size_t n_uses, n_absent;
	struct bpftrace_site *sites;
	size_t n_sites; /* at least one */
};

struct bpftrace_plan {
	pid_t pid;	  /* 0: trace every process that runs the file */
	bool is_code;	  /* the groups are functions and phases of the collector, not probes */
	bool times_calls; /* time the calls of one function, or the pauses of one phase */
	bool omits_p;	  /* leave out -p, with which bpftrace would not find the files */
	/*
	 * For at least one attach point, bpftrace will check that an instruction begins there. Some
	 * builds of bpftrace cannot check this.
	 */
	bool needs_checks;
	struct bpftrace_group *groups; /* in the order of the requested names */
	size_t n_groups;
	struct bpftrace_site *sites; /* all sites; the groups point into this array */
	char **files;
	size_t n_files;
	size_t n_sites, n_uprobes;
	/*
	 * If is_code is set: one element for each element of `files`. `probes` owns the struct site
	 * to which the sites of the groups point.
	 */
	struct bpftrace_code *code;
	size_t n_code;
	/* number of sites that are traced at the entry of their function instead */
	size_t n_at_entry;
	const char **names; /* the requested names without duplicates */
	size_t n_names;
	const char **absent; /* requested names without sites; they are not in `names` */
	size_t n_absent;
};

/*
 * Make a plan to trace NAMES with a script of the kind WHAT. NAMES are either probes, or functions
 * and phases of the collector; program/item.h has their syntax. Return 0 or a negative errno:
 * -ENOENT if a name does not exist, if nothing matches, or if no probe has code; -EINVAL if there
 * are both probes and functions; -EOPNOTSUPP if bpftrace cannot trace one of the NAMES. After
 * success, the caller calls bpftrace_plan_free().
 */
int bpftrace_plan_process(struct ocp_process *proc, enum ocp_bpftrace what, const char *names,
			  struct bpftrace_plan *plan);
/*
 * Like bpftrace_plan_process(), for every process that runs the file PATH, from which PROG was
 * read.
 */
int bpftrace_plan_program(struct ocp_program *prog, const char *path, enum ocp_bpftrace what,
			  const char *names, struct bpftrace_plan *plan);
void bpftrace_plan_free(struct bpftrace_plan *plan);

#endif
