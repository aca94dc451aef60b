/* SPDX-License-Identifier: MIT */
/* The parts that the modules that make a plan share. */
#ifndef BPFTRACE_PLANNER_H
#define BPFTRACE_PLANNER_H

#include "base/ctx.h"
#include "bpftrace/bpftrace_plan.h"
#include "process/image.h"
#include "program/item.h"
#include "program/program.h"

/* The ELF files of a process, or one ELF file, and their names for bpftrace. */
struct planner {
	struct ocp_ctx *ctx;
	const char *owner; /* of the probes, for messages */
	enum ocp_bpftrace what;
	struct items items; /* the names to trace */
	const struct ocp_program **progs;
	size_t n_progs;
	const char **all; /* the names of all probes, sorted */
	size_t n_all;
	struct bpftrace_plan *plan;
};

/* The files of a process with code to trace. The plan owns their programs. */
struct bpftrace_images {
	struct image *images;
	size_t n;
};

void bpftrace_images_free(struct bpftrace_images *images);

/*
 * bpftrace_code.c: find the functions and phases in p->items in the files that PID has mapped, or
 * in PROG, and fill in plan->code. The caller frees IMAGES, also after an error.
 */
int bpftrace_code_find(struct planner *p, pid_t pid, struct bpftrace_images *images);
int bpftrace_code_find_in(struct planner *p, const struct ocp_program *prog);

/* Fill the groups and names of the plan from plan->code. */
int bpftrace_code_groups(struct planner *p);

#endif
