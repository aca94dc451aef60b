/* SPDX-License-Identifier: MIT */
/* What bpftrace has to be told so that it traces some probes: see bpftrace_plan.c. */
#ifndef MEASURE_BPFTRACE_PLAN_H
#define MEASURE_BPFTRACE_PLAN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include "ocaml_probes.h"

struct bpftrace_site {
	uint64_t at; /* what goes behind "uprobe:FILE:" */
	const char *args;
	const char *noted_args; /* what bpftrace reads in the note: args may be corrected */
	const char *args_fault; /* why some of args are not known; NULL: all are */
};

/* The sites of one name in one file. */
struct bpftrace_group {
	const char *name;
	const char *file;	 /* as bpftrace is to be told, not quoted */
	const char *provider;	 /* NULL: usdt: will not do, each site is a uprobe */
	const char *why;	 /* why not */
	size_t n_uses, n_absent; /* of the probe, and those without a site */
	struct bpftrace_site *sites;
	size_t n_sites; /* at least one */
};

struct bpftrace_plan {
	pid_t pid;	   /* 0: whoever runs the file */
	bool by_predicate; /* bpftrace's -p would not find the files: a predicate has to do */
	bool by_exe_link;  /* by -p and /proc/PID/exe: a form that was run with bpftrace 0.26.1 */
	/* of the instruction at a place, which some bpftraces are built without */
	bool needs_checks;
	struct bpftrace_group *groups; /* in the order of the names asked for */
	size_t n_groups;
	struct bpftrace_site *sites; /* what the groups point into */
	char **files;
	size_t n_files;
	size_t n_sites, n_uprobes;
	const char **names; /* that were asked for, each once */
	size_t n_names;
	const char **absent; /* of these the compiler left all sites out; not in names */
	size_t n_absent;
};

/*
 * Plan for the probes that NAMES means: names between commas, or a regular expression in Str's
 * syntax if there is any other character in it than names have. -ENOENT if one of the names
 * is not there, if nothing matches, or if none has code.
 */
int bpftrace_plan_process(struct ocp_process *proc, const char *names, struct bpftrace_plan *plan);
/* The same for every process that runs the file PATH, of which PROG was read. */
int bpftrace_plan_program(struct ocp_program *prog, const char *path, const char *names,
			  struct bpftrace_plan *plan);
void bpftrace_plan_free(struct bpftrace_plan *plan);

#endif
