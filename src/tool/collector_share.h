/* SPDX-License-Identifier: MIT */
/*
 * What share of a process's CPU time its collector takes, for `gc`: a profile of the CPU beside the gauges and
 * pauses. A pause also lasts while the process waits for a processor; samples are of CPU time only.
 */
#ifndef TOOL_COLLECTOR_SHARE_H
#define TOOL_COLLECTOR_SHARE_H

#include <sys/types.h>

struct collector_share;

/* Begin. NULL if this user, kernel or process cannot be sampled. */
struct collector_share *collector_share_begin(pid_t pid);
/* To be called some times a second: the process may load code. Accepts NULL. */
void collector_share_refresh(struct collector_share *share);
/* End, and print a line if the share is known. Accepts NULL. */
void collector_share_print(struct collector_share *share);
void collector_share_close(struct collector_share *share);

#endif
