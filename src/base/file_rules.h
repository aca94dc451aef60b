/* SPDX-License-Identifier: MIT */
/*
 * Which files are read as programs. Most readers are told by their user what to read. A monitor of
 * all programs is not: it reads files of people it does not know, and keeps rules.
 */
#ifndef BASE_FILE_RULES_H
#define BASE_FILE_RULES_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>
#include "ocaml_probes.h"

/* Where a file comes from. */
struct file_origin {
	const char *name; /* for messages */
	pid_t pid;	  /* that has it mapped; 0: not known */
	bool is_library;  /* it is not the process's executable */
};

enum file_verdict {
	FILE_UNKNOWN, /* it may be read */
	FILE_WITH_PROBES,
	FILE_WITHOUT_PROBES,
};

struct file_rules {
	/*
	 * Asked before the file behind FD is read. An enum file_verdict, or a negative errno, said
	 * in the ctx: -EAGAIN: not yet; -EFBIG: it is known to exceed the limits.
	 */
	int (*admit)(void *data, int fd, const struct file_origin *origin);
	/* Told that it exceeds the limits; the ctx says how. */
	void (*exceeds)(void *data, int fd, const struct file_origin *origin);
	void *data;
	size_t max_sites;	  /* of a program; 0: any number */
	size_t max_library_sites; /* of a library; likewise */
};

/* RULES are not copied; NULL: there are none, as at first. */
void file_rules_set(struct ocp_ctx *ctx, const struct file_rules *rules);
/* As admit above; FILE_UNKNOWN without rules. */
int file_rules_admit(struct ocp_ctx *ctx, int fd, const struct file_origin *origin);
void file_rules_exceeded(struct ocp_ctx *ctx, int fd, const struct file_origin *origin);
/* 0: any number. */
size_t file_rules_max_sites(const struct ocp_ctx *ctx, const struct file_origin *origin);

#endif
