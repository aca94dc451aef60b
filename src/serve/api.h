/* SPDX-License-Identifier: MIT */
/* The state of a watch as JSON, for the page and for programs; see ocaml-probes-serve(1). */
#ifndef SERVE_API_H
#define SERVE_API_H

#include <stdbool.h>
#include "base/strbuf.h"
#include "watch/watch.h"

enum { API_VERSION = 2 }; /* the version of all documents under /api/v1/ */

void api_write_status(struct strbuf *out, const struct watch *watch, bool has_control,
		      bool has_profiles, bool has_heaps, bool has_recordings);
/*
 * Write the columns of SPAN, the oldest first. If ONLY_PAIRS, omit the rates of the probes. For
 * WATCH_QUARTER_HOUR, omit probes without hits.
 */
void api_write_history(struct strbuf *out, const struct watch *watch, enum watch_span span,
		       bool only_pairs);

#endif
