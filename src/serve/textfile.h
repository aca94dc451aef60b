/* SPDX-License-Identifier: MIT */
/*
 * A file for the textfile collector of Prometheus's node exporter. It is never seen half written: a
 * new one is written beside it and takes its place.
 */
#ifndef SERVE_TEXTFILE_H
#define SERVE_TEXTFILE_H

#include "base/ctx.h"
#include "serve/strbuf.h"

int textfile_write(struct ocp_ctx *ctx, const char *given, const struct strbuf *body);

#endif
