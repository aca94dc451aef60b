/* SPDX-License-Identifier: MIT */
/* Start a program and stop it before any of its code runs, for tracee.c. */
#ifndef CHANGE_STOP_SPAWN_H
#define CHANGE_STOP_SPAWN_H

#include <signal.h>
#include <sys/types.h>
#include "base/ctx.h"

struct spawn {
	struct ocp_ctx *ctx;
	const char *path;
	char *const *argv; /* NULL-terminated */
	sigset_t mask;	   /* the new program's signal mask */
	pid_t pid;	   /* set by spawn_stopped() */
};

/*
 * Start the program of SPAWN; the calling thread becomes its tracer. If the calling thread ends
 * before the detach, the kernel kills the program. After an error no process is left.
 */
int spawn_stopped(struct spawn *spawn);

/* Kill a process that spawn_stopped has started, and wait for its end. */
void spawn_kill(pid_t pid);

#endif
