/* SPDX-License-Identifier: MIT */
/*
 * A file for the textfile collector of Prometheus's node exporter. A new file is written beside it
 * and renamed over it, so readers never see half a file.
 */
#ifndef SERVE_TEXTFILE_H
#define SERVE_TEXTFILE_H

#include "base/ctx.h"
#include "base/strbuf.h"

int textfile_write(struct ocp_ctx *ctx, const char *given, const struct strbuf *body);

#endif
