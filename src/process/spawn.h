/* SPDX-License-Identifier: MIT */
/* Starting a program that is stopped before any of its code runs; a part of tracee.c's work. */
#ifndef PROCESS_SPAWN_H
#define PROCESS_SPAWN_H

#include <signal.h>
#include <sys/types.h>
#include "base/ctx.h"

struct spawn {
	struct ocp_ctx *ctx;
	const char *path;
	char *const *argv; /* NULL-terminated */
	sigset_t mask;	   /* the new program's signal mask */
	pid_t pid;	   /* set by spawn_stopped */
};

/*
 * Start it; the calling thread becomes its tracer. It is killed if that thread ends before it is
 * detached. On error nothing is left.
 */
int spawn_stopped(struct spawn *spawn);

/* Kill such a process, and wait for its end. */
void spawn_kill(pid_t pid);

#endif
