/* SPDX-License-Identifier: MIT */
/*
 * Room process: the probes of a live process.
 * In: a pid: its mappings and files.
 * Out: images, sites with their present bytes, states of probes, figures of the collector.
 * Callers: change/switch, and all rooms that show or measure processes.
 */
/* The members of struct ocp_process, for the other files of the library. */
#ifndef PROCESS_PROCESS_H
#define PROCESS_PROCESS_H

#include <sys/types.h>
#include "ocaml_probes.h"
#include "look/container.h"
#include "process/image.h"
#include "process/process_probes.h"
#include "look/memory.h"

struct tracee;

struct ocp_process {
	struct ocp_ctx *ctx;
	pid_t pid;
	struct memory *memory;
	bool is_self;	     /* the process is the calling process */
	struct tracee *held; /* set between ocp_process_hold() and ocp_process_release() */
	struct image_list images;
	struct live live;
	struct container container;
};

/*
 * Find the source lines of the probes of SITES, which were read from PROC: see OCP_SITES_SOURCE.
 * Defined in sites.c.
 */
int sites_place(const struct ocp_process *proc, struct ocp_sites *sites);

#endif
