/* SPDX-License-Identifier: MIT */
/* The state of a watch as JSON, for the page and for programs; see ocaml-probes-serve(1). */
#ifndef SERVE_API_H
#define SERVE_API_H

#include <stdbool.h>
#include "serve/strbuf.h"
#include "watch/watch.h"

void api_write_status(struct strbuf *out, const struct watch *watch, bool has_control);
/* The last minute, oldest first. ONLY_PAIRS: leave out the rates of the probes. */
void api_write_history(struct strbuf *out, const struct watch *watch, bool only_pairs);

#endif
