/* SPDX-License-Identifier: MIT */
/*
 * Rules that restrict which files are read as programs. A monitor of all programs needs the rules,
 * because it reads files of unknown users. If the user names the files, no rules are needed.
 */
#ifndef BASE_FILE_RULES_H
#define BASE_FILE_RULES_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>
#include "ocaml_probes.h"

/* The origin of a file. */
struct file_origin {
	const char *name; /* the name of the file for messages */
	pid_t pid;	  /* a process that has the file mapped; 0: unknown */
	bool is_library;  /* the file is mapped, but is not the executable */
};

enum file_verdict {
	FILE_UNKNOWN, /* read the file to find out whether it has probes */
	FILE_WITH_PROBES,
	FILE_WITHOUT_PROBES,
};

struct file_rules {
	/*
	 * Called before the file that is open as FD is read. Returns an enum file_verdict, or a
	 * negative errno with a message in the ctx: -EAGAIN if the file must not be read yet;
	 * -EFBIG if the file exceeds the limits.
	 */
	int (*admit)(void *data, int fd, const struct file_origin *origin);
	/* Called when the file exceeds a limit. The ctx then has the message. */
	void (*exceeds)(void *data, int fd, const struct file_origin *origin);
	void *data;
	size_t max_sites;	  /* the limit for an executable; 0: no limit */
	size_t max_library_sites; /* the limit for a library; 0: no limit */
	/* Read the code of a file only if its owner is trusted: see measure/meter_code.c. */
	bool check_owners;
};

/*
 * Set the rules of CTX to RULES, which is not copied. If RULES is NULL (the default), there are no
 * rules.
 */
void file_rules_set(struct ocp_ctx *ctx, const struct file_rules *rules);
/* Return the result of the callback `admit`, or FILE_UNKNOWN if there is no callback. */
int file_rules_admit(struct ocp_ctx *ctx, int fd, const struct file_origin *origin);
void file_rules_exceeded(struct ocp_ctx *ctx, int fd, const struct file_origin *origin);
bool file_rules_check_owners(const struct ocp_ctx *ctx);
/* Return how many sites a file of ORIGIN may have at most. 0 means any number. */
size_t file_rules_max_sites(const struct ocp_ctx *ctx, const struct file_origin *origin);

#endif
