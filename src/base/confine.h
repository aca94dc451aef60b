/* SPDX-License-Identifier: MIT */
/* What a child process gives up before it reads what strangers wrote. */
#ifndef BASE_CONFINE_H
#define BASE_CONFINE_H

#include <stddef.h>
#include "base/ctx.h"

/* Close all descriptors from 3 on but the N KEPT, which ascend; 0 and 1 become /dev/null. */
int confine_close_files(struct ocp_ctx *ctx, const int *kept, size_t n);

/*
 * Give up all capabilities, and the right to get any by running a program. No other process of the
 * user may ptrace this one.
 */
int confine_drop_capabilities(struct ocp_ctx *ctx);

#endif
