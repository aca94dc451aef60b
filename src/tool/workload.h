/* SPDX-License-Identifier: MIT */
/*
 * The command of `attach ... -- COMMAND`, which runs while probes are measured. It has the input,
 * output, signal mask and process group of the tool, so a terminal's signals reach both.
 */
#ifndef TOOL_WORKLOAD_H
#define TOOL_WORKLOAD_H

#include <signal.h>
#include <stdbool.h>
#include <sys/types.h>

struct workload {
	const char *name;
	pid_t pid;   /* 0: no command was forked */
	int pidfd;   /* readable when the command has ended */
	int channel; /* connects the tool with the child that waits for workload_start() */
	bool has_started, has_ended;
	int status; /* as from waitpid(2), if has_ended */
};

/* Signals that are forwarded to a program that the tool waits for; SIGCHLD is not among them. */
enum { N_FORWARDED = 8 };
extern const int forwarded_signals[N_FORWARDED];

/*
 * Fork a process that waits for workload_start(), then executes ARGV with the signal mask MASK.
 * Until then, the process ends if the tool ends or closes WORKLOAD. Returns EXIT_DONE, or
 * EXIT_FAILED after printing the error.
 */
int workload_hold(struct workload *workload, char *const *argv, const sigset_t *mask);

/*
 * Start the held command. Returns EXIT_DONE. After printing the error, returns 127 if there is no
 * such command, and 126 if it cannot be executed.
 */
int workload_start(struct workload *workload);

/* Read the command's status if it has ended. */
void workload_reap(struct workload *workload);

/* Free WORKLOAD. A command that was not started ends. */
void workload_close(struct workload *workload);

/*
 * End like a program with the wait status STATUS: return its exit status, or die of its signal,
 * without a core file.
 */
int end_like(int status);

#endif
