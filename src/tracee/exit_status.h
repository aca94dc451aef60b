/* SPDX-License-Identifier: MIT */
/* How a process that is no child of ours has ended. */
#ifndef TRACEE_EXIT_STATUS_H
#define TRACEE_EXIT_STATUS_H

#include <stdbool.h>
#include <sys/types.h>

/*
 * Get the status of process PID, which has ended, as waitpid(2) encodes it. The kernel tells it
 * through PIDFD from Linux 6.15 on, and through /proc while the parent has not taken it. False: it
 * is not known.
 */
bool exit_status_read(int pidfd, pid_t pid, int *status);

#endif
