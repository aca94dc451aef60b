/* SPDX-License-Identifier: MIT */
/*
 * Write BODY to the file at path GIVEN, for the textfile collector of Prometheus's node exporter.
 * BODY is written to another file in the same directory, which is then renamed, so readers never
 * see half a file.
 */
#ifndef SERVE_TEXTFILE_H
#define SERVE_TEXTFILE_H

#include "base/ctx.h"
#include "base/strbuf.h"

int textfile_write(struct ocp_ctx *ctx, const char *given, const struct strbuf *body);

#endif
