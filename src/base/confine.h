/* SPDX-License-Identifier: MIT */
/*
 * Functions by which a child process gives up its descriptors and capabilities before it reads
 * untrusted files.
 */
#ifndef BASE_CONFINE_H
#define BASE_CONFINE_H

#include <stddef.h>
#include "base/ctx.h"

/*
 * Close all descriptors from 3 on except the N descriptors in KEPT, which must be in ascending
 * order. Make descriptors 0 and 1 refer to /dev/null.
 */
int confine_close_files(struct ocp_ctx *ctx, const int *kept, size_t n);

/*
 * Drop all capabilities, and prevent programs that this process executes from gaining any. Prevent
 * other processes of the user from tracing this one.
 */
int confine_drop_capabilities(struct ocp_ctx *ctx);

#endif
