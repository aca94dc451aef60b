/* SPDX-License-Identifier: MIT */
/*
 * Rules for the files that are read as programs. Usually the user names the files. A monitor of all
 * programs reads files of unknown users, and needs rules.
 */
#ifndef BASE_FILE_RULES_H
#define BASE_FILE_RULES_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>
#include "ocaml_probes.h"

/* The origin of a file. */
struct file_origin {
	const char *name; /* for messages */
	pid_t pid;	  /* a process that has it mapped; 0: unknown */
	bool is_library;  /* it is mapped, but not the executable */
};

enum file_verdict {
	FILE_UNKNOWN, /* it may be read */
	FILE_WITH_PROBES,
	FILE_WITHOUT_PROBES,
};

struct file_rules {
	/*
	 * Called before the file of FD is read. Returns an enum file_verdict, or a negative errno
	 * with a message in the ctx: -EAGAIN: not yet; -EFBIG: it exceeds the limits.
	 */
	int (*admit)(void *data, int fd, const struct file_origin *origin);
	/* Called when the file exceeds the limits; the ctx has the message. */
	void (*exceeds)(void *data, int fd, const struct file_origin *origin);
	void *data;
	size_t max_sites;	  /* of a program; 0: any number */
	size_t max_library_sites; /* of a library; likewise */
	/* Read the code of files of trusted owners only, see measure/code_files.h. */
	bool check_owners;
};

/* Set the rules of CTX to RULES, which are not copied. NULL, the default: no rules. */
void file_rules_set(struct ocp_ctx *ctx, const struct file_rules *rules);
/* Call admit; without rules return FILE_UNKNOWN. */
int file_rules_admit(struct ocp_ctx *ctx, int fd, const struct file_origin *origin);
void file_rules_exceeded(struct ocp_ctx *ctx, int fd, const struct file_origin *origin);
bool file_rules_check_owners(const struct ocp_ctx *ctx);
/* Return the largest number of sites that a file of ORIGIN may have; 0: any number. */
size_t file_rules_max_sites(const struct ocp_ctx *ctx, const struct file_origin *origin);

#endif
