/* SPDX-License-Identifier: MIT */
/*
 * Write a trace in the format of Perfetto, which ui.perfetto.dev and trace_processor open:
 * perfetto.proto has the messages that are written.
 */
#ifndef RECORD_PERFETTO_WRITER_H
#define RECORD_PERFETTO_WRITER_H

#include <stdio.h>
#include "record/source.h"

/* Write the struct trace_source DATA to TO. Returns 0, or -ENOMEM with a message in CTX. */
int perfetto_write(struct ocp_ctx *ctx, const void *data, FILE *to);

#endif
