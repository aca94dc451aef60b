/* SPDX-License-Identifier: MIT */
/*
 * The share of a process's CPU time that the garbage collector takes, for `gc`: a CPU profile
 * beside the gauges and pauses. Pauses include time in which the process waits for a processor;
 * samples measure CPU time only.
 */
#ifndef TOOL_COLLECTOR_SHARE_H
#define TOOL_COLLECTOR_SHARE_H

#include <sys/types.h>

struct collector_share;

/* Begin to sample process PID. Return NULL if this user, kernel or process cannot be sampled. */
struct collector_share *collector_share_begin(pid_t pid);
/* Call this several times per second, since the process may load code. Accepts NULL. */
void collector_share_refresh(struct collector_share *share);
/* End the sampling, and print a line if the share is known. Accepts NULL. */
void collector_share_print(struct collector_share *share);
void collector_share_close(struct collector_share *share);

#endif
