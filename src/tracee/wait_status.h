/* SPDX-License-Identifier: MIT */
/* What waitpid(2) reports of a tracee; it can leave an exit status for the parent. */
#ifndef TRACEE_WAIT_STATUS_H
#define TRACEE_WAIT_STATUS_H

#include <stdbool.h>
#include <sys/types.h>

/*
 * As waitpid(2) with WNOHANG. With KEEP_EXIT the exit status of TID, which is a child of this
 * process, is not taken: *STATUS is then 0, and the caller's own wait still finds it.
 */
pid_t wait_status(pid_t tid, bool keep_exit, int *status);

/* Take the status of the tracee TID if it has ended; leave a stop to wait_status. */
void wait_reap_ended(pid_t tid);

#endif
