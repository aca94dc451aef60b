/* SPDX-License-Identifier: MIT */
/* Finding out how a process that is not our child has ended. */
#ifndef LOOK_EXIT_STATUS_H
#define LOOK_EXIT_STATUS_H

#include <stdbool.h>
#include <sys/types.h>

/*
 * Get the status of process PID, which has ended, encoded as by waitpid(2). PIDFD is a pidfd of the
 * process. From Linux 6.15 on, the kernel reports the status through PIDFD; until the parent has
 * waited for the process, it also reports the status through /proc. Returns false if the status
 * cannot be found.
 */
bool exit_status_read(int pidfd, pid_t pid, int *status);

#endif
