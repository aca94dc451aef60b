/* SPDX-License-Identifier: MIT */
/*
 * Find the addresses at which the dynamic linker of a process informs debuggers about loaded files.
 */
#ifndef TRACEE_RTLD_H
#define TRACEE_RTLD_H

#include <stdint.h>
#include <sys/types.h>
#include "base/ctx.h"

/* Addresses in the process. */
struct rtld {
	uint64_t notify_addr; /* a function that the linker calls before and after it maps files */
	uint64_t state_addr;  /* an int, RTLD_CONSISTENT when the list of files is complete */
};

enum { RTLD_CONSISTENT = 0 }; /* RT_CONSISTENT of <link.h> */

/*
 * Find the addresses of RTLD in process PID, which is at the start of its program. Returns 1 if
 * they are found, 0 if the program has no dynamic linker or the linker does not export the symbols,
 * or a negative errno.
 */
int rtld_find(struct ocp_ctx *ctx, pid_t pid, struct rtld *rtld);

#endif
