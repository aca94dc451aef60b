/* SPDX-License-Identifier: MIT */
/* The answer to /api/v1/heap: the allocation sites, sorted by live words, for the page. */
#ifndef SERVE_HEAP_JSON_H
#define SERVE_HEAP_JSON_H

#include "memprof/heaps.h"
#include "base/strbuf.h"

enum { HEAP_JSON_SITES = 25 };

/*
 * Write a JSON object with the processes that match FILTER, the sums of their figures, and the
 * first HEAP_JSON_SITES of their allocation sites. Return 0 or -ENOMEM.
 */
int heap_json_write(struct strbuf *out, struct heaps *heaps, const struct record_filter *filter);

#endif
