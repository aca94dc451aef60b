/* SPDX-License-Identifier: MIT */
/*
 * Explaining why the kernel does not let this process trace another process, and what would help.
 */
#ifndef LOOK_DENIAL_H
#define LOOK_DENIAL_H

#include <stdbool.h>
#include <sys/types.h>
#include "base/ctx.h"

/* The facts about the process to trace, and about this process ("our"). */
struct denial {
	pid_t pid; /* the process to trace */
	const char *name;
	uid_t real_uid, effective_uid;
	uid_t our_real_uid, our_uid;
	bool has_capability; /* this process has CAP_SYS_PTRACE */
	/* this process has no_new_privs, with which sudo has no effect */
	bool has_no_new_privileges;
	bool in_user_namespace; /* this process is not in the initial user namespace */
	int yama_scope;
	const char *security_modules; /* the contents of /sys/kernel/security/lsm; "" if unknown */
};

/*
 * Fill in the members about this process. Leave the members about the process to trace as they are.
 * Write the text of security_modules to MODULES, which has BYTES bytes.
 */
void denial_read(struct denial *denial, char *modules, size_t bytes);

/* Record a message and a hint that explain DENIAL. Returns -EPERM. */
int denial_explain(struct ocp_ctx *ctx, const struct denial *denial);

/*
 * Return how to get CAP_SYS_PTRACE, for a hint: the words that follow "run", such as "with
 * CAP_SYS_PTRACE (e.g. sudo)".
 */
const char *denial_remedy(const struct denial *denial);

#endif
