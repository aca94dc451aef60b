/* SPDX-License-Identifier: MIT */
/*
 * Waiting for a tracee as by waitpid(2), but if requested, its exit status is left for another
 * wait.
 */
#ifndef TRACEE_WAIT_STATUS_H
#define TRACEE_WAIT_STATUS_H

#include <stdbool.h>
#include <sys/types.h>

/*
 * Do the same as waitpid(2) with WNOHANG. With KEEP_EXIT, do not take the exit status of TID, a
 * child of this process: *STATUS is then 0, and the caller's own wait still finds the exit status.
 */
pid_t wait_status(pid_t tid, bool keep_exit, int *status);

/*
 * Take the status of the tracee TID if it has ended. Do not take a stop, which wait_status()
 * reports.
 */
void wait_reap_ended(pid_t tid);

#endif
