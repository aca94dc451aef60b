/* SPDX-License-Identifier: MIT */
/* The ELF files that a process has mapped, with where they were loaded. */
#ifndef PROCESS_IMAGE_H
#define PROCESS_IMAGE_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include "base/ctx.h"
#include "program/program.h"
#include "process/maps.h"

struct image {
	struct ocp_program *prog;
	uint64_t bias; /* add to a link-time address; modulo 2^64 */
	char *path;    /* as the process sees it */
};

struct image_list {
	struct image *images; /* the executable first, then by address */
	size_t n;
	char *exe_path;	    /* also without any probes */
	bool is_restricted; /* to one program's, see restrict.c */
};

/*
 * Find the images of PID that have OCaml probes. The executable must be readable and sane; another
 * file that is not is left out with a warning: it may be anything. -EAGAIN if the ctx's file rules
 * say of one of them that it may not be read yet.
 */
int image_list_read(struct ocp_ctx *ctx, pid_t pid, struct image_list *list);
void image_list_free(struct image_list *list);

/*
 * Whose probes these are, for messages: the executable, or the program that they are restricted to.
 */
const char *image_list_name(const struct image_list *list);

/* Free one that was taken out of its list. */
void image_free(struct image *image);
/* Free all images; what else the list knows stays. */
void image_list_empty(struct image_list *list);

/* Open the file behind mapping M of PID for reading; -1 and errno if it cannot be had. */
int image_open_mapped(pid_t pid, const struct mapping *m);

#endif
