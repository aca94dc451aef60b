/* SPDX-License-Identifier: MIT */
/* Files with numbers: slow.pftrace becomes slow-1.pftrace, slow-2.pftrace and so on. */
#ifndef TOOL_NUMBERED_FILES_H
#define TOOL_NUMBERED_FILES_H

#include <stddef.h>
#include "base/ctx.h"

/*
 * Return the path of file number N: OUTPUT with the number before its extension. The caller frees
 * it. NULL: out of memory.
 */
char *numbered_file_path(const char *output, size_t n);

/*
 * Set *LAST to the largest number of a file of OUTPUT that exists, or to 0. Returns 0, or a
 * negative errno with a message in CTX.
 */
int numbered_file_last(struct ocp_ctx *ctx, const char *output, size_t *last);

#endif
