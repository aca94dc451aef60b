/* SPDX-License-Identifier: MIT */
/*
 * The command of `attach ... -- COMMAND`: it runs while probes are measured. Its input, output, signal
 * mask and process group are those of the tool, so a terminal's signals reach both.
 */
#ifndef TOOL_WORKLOAD_H
#define TOOL_WORKLOAD_H

#include <signal.h>
#include <stdbool.h>
#include <sys/types.h>

struct workload {
	const char *name;
	pid_t pid;   /* 0: no command was forked */
	int pidfd;   /* readable when it has ended */
	int channel; /* to the child that is held */
	bool has_started, has_ended;
	int status; /* as of waitpid(2), if it has ended */
};

/* Signals that are forwarded to a program that the tool waits for; SIGCHLD is not among them. */
enum { N_FORWARDED = 8 };
extern const int forwarded_signals[N_FORWARDED];

/*
 * Make a process that waits to execute ARGV with the signal mask MASK. It ends if the tool ends, or
 * closes WORKLOAD, before it is started. Returns EXIT_DONE, or EXIT_FAILED after printing the error.
 */
int workload_hold(struct workload *workload, char *const *argv, const sigset_t *mask);

/*
 * Start it. Returns EXIT_DONE; after printing the error 127 if there is no such command, and 126 if it
 * cannot be executed.
 */
int workload_start(struct workload *workload);

/* Take its status if it has ended. */
void workload_reap(struct workload *workload);

/* Free WORKLOAD. If it was not started, it ends. */
void workload_close(struct workload *workload);

/*
 * End as the program with the wait status STATUS has ended: return its exit status, or die of its
 * signal, without a core file.
 */
int end_like(int status);

#endif
