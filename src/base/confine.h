/* SPDX-License-Identifier: MIT */
/* The privileges that a child process drops before it reads untrusted files. */
#ifndef BASE_CONFINE_H
#define BASE_CONFINE_H

#include <stddef.h>
#include "base/ctx.h"

/* Close all descriptors from 3 on except the N KEPT, which ascend. 0 and 1 become /dev/null. */
int confine_close_files(struct ocp_ctx *ctx, const int *kept, size_t n);

/*
 * Drop all capabilities, and prevent that a program that is executed gains any. Other processes of
 * the user may not trace this one.
 */
int confine_drop_capabilities(struct ocp_ctx *ctx);

#endif
