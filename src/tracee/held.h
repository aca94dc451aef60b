/* SPDX-License-Identifier: MIT */
/* The members of struct tracee: for tracee.c and thread_step.c only. */
#ifndef TRACEE_HELD_H
#define TRACEE_HELD_H

#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>
#include "base/ctx.h"

enum {
	STOP_TIMEOUT_MS = 3000,	 /* limit for all threads to stop */
	BUSY_TIMEOUT_MS = 20000, /* limit for a thread that waits for a CPU */
	SPINS = 16,		 /* polls before the first sleep: a stop takes microseconds */
	SLEEP_US = 20,
};

struct thread {
	pid_t tid;
	int signal;   /* the signal at which it is stopped, passed on at the detach; 0: none */
	bool stopped; /* false: interrupted, but the stop is not reported yet */
};

/* The requests to the tracing thread. */
enum request {
	REQUEST_STOP,
	REQUEST_RUN_STOPPED,
	REQUEST_SPAWN,
	REQUEST_DETACH,
	REQUEST_KILL,
	REQUEST_END,
};

/* A thread that could not be seized, and the errno. */
struct refusal {
	pid_t tid;
	int err;
};

struct tracee {
	struct ocp_ctx *ctx;
	pid_t pid;
	bool dies_with_us; /* PTRACE_O_EXITKILL */
	bool is_child;	   /* a child of ours: its exit status is left to the caller's wait */
	struct thread *threads;
	size_t n, room;
	struct refusal refused; /* the latest refusal */

	/* The program to start; `path` is NULL if the process exists already. */
	const char *path;
	char *const *argv;

	/* The thread that traces, and what it shares with the caller's thread. */
	pthread_t tracer;
	bool is_running;
	sigset_t caller_mask; /* the signal mask of the caller's thread */
	enum request request;
	int (*work)(void *arg); /* for REQUEST_RUN_STOPPED */
	void *work_arg;
	sem_t asked, done;
	int outcome;
	pthread_mutex_t busy; /* locked while the tracing thread works, except during a SEIZE */
};

#endif
