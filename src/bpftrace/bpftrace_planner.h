/* SPDX-License-Identifier: MIT */
/* The state of making a plan, shared by bpftrace_plan.c and bpftrace_code.c. */
#ifndef BPFTRACE_PLANNER_H
#define BPFTRACE_PLANNER_H

#include "base/ctx.h"
#include "bpftrace/bpftrace_plan.h"
#include "process/image.h"
#include "program/item.h"
#include "program/program.h"

/* What is known while a plan is made: the ELF files of a process, or one ELF file. */
struct planner {
	struct ocp_ctx *ctx;
	const char *owner; /* the file that has the probes, for messages */
	enum ocp_bpftrace what;
	struct items items; /* the names to trace */
	const struct ocp_program **progs;
	size_t n_progs;
	const char **all; /* the names of all probes, sorted */
	size_t n_all;
	struct bpftrace_plan *plan;
};

/*
 * The files of a process that have code to trace. The plan owns the programs of the images;
 * bpftrace_images_free() frees the rest.
 */
struct bpftrace_images {
	struct image *images;
	size_t n;
};

void bpftrace_images_free(struct bpftrace_images *images);

/*
 * bpftrace_code.c: find the functions and phases in p->items in the files that PID has mapped
 * (bpftrace_code_find), or in PROG (bpftrace_code_find_in), and fill in plan->code. The caller
 * frees IMAGES, also after an error.
 */
int bpftrace_code_find(struct planner *p, pid_t pid, struct bpftrace_images *images);
int bpftrace_code_find_in(struct planner *p, const struct ocp_program *prog);

/* Fill the groups and names of the plan from plan->code. */
int bpftrace_code_groups(struct planner *p);

#endif
