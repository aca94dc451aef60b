/* SPDX-License-Identifier: MIT */
/* The bytes of a configuration file. */
#ifndef SERVE_CONFIG_FILE_H
#define SERVE_CONFIG_FILE_H

#include "base/ctx.h"

/*
 * The N bytes of FILE, a zero byte behind them, which the caller frees. FILE is a regular file; or
 * a pipe without a name, as a shell has for <(COMMAND), if WAKE_FD is not -1: -ECANCELED if that
 * can be read from before the pipe's end has come.
 */
int config_file_read(struct ocp_ctx *ctx, const char *file, int wake_fd, char **text, size_t *n);

#endif
