/* SPDX-License-Identifier: MIT */
/* Reads the bytes of a configuration file. */
#ifndef SERVE_CONFIG_FILE_H
#define SERVE_CONFIG_FILE_H

#include <stddef.h>

#include "base/ctx.h"

/*
 * Read FILE into *TEXT: *N bytes and a zero byte. The caller frees *TEXT. FILE must be a regular
 * file or, if WAKE_FD is not -1, a nameless pipe such as a shell's <(COMMAND). -ECANCELED if
 * WAKE_FD becomes readable before the end of the pipe.
 */
int config_file_read(struct ocp_ctx *ctx, const char *file, int wake_fd, char **text, size_t *n);

#endif
