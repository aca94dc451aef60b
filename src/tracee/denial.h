/* SPDX-License-Identifier: MIT */
/* Why the kernel does not let this process trace another one, and what would help. */
#ifndef TRACEE_DENIAL_H
#define TRACEE_DENIAL_H

#include <stdbool.h>
#include <sys/types.h>
#include "base/ctx.h"

/* What is known of the two processes. */
struct denial {
	pid_t pid; /* the other one */
	const char *name;
	uid_t real_uid, effective_uid;
	uid_t our_real_uid, our_uid;
	bool has_capability;	    /* we have CAP_SYS_PTRACE */
	bool has_no_new_privileges; /* of ours: sudo has no effect */
	bool in_user_namespace;	    /* ours is not that of the machine */
	int yama_scope;
	const char *security_modules; /* as in /sys/kernel/security/lsm; "" if unknown */
};

/* Find out what is known of this process. The members about the other one are left as they are. */
void denial_read(struct denial *denial, char *modules, size_t bytes);

/* Record the message and the hint. Returns -EPERM. */
int denial_explain(struct ocp_ctx *ctx, const struct denial *denial);

/* How to run it with CAP_SYS_PTRACE, for a hint behind "run": "with CAP_SYS_PTRACE (e.g. sudo)". */
const char *denial_remedy(const struct denial *denial);

#endif
