/* SPDX-License-Identifier: MIT */
/* Finding out how a process that is not our child has ended. */
#ifndef LOOK_EXIT_STATUS_H
#define LOOK_EXIT_STATUS_H

#include <stdbool.h>
#include <sys/types.h>

/*
 * Get the status of process PID, which has ended, encoded as by waitpid(2). The kernel reports the
 * status through PIDFD from Linux 6.15 on, and through /proc until the parent has waited for the
 * process. Returns false if the status is not known.
 */
bool exit_status_read(int pidfd, pid_t pid, int *status);

#endif
