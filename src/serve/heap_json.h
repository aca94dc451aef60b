/* SPDX-License-Identifier: MIT */
/* /api/v1/heap: the allocation sites, sorted by live words, for the page. */
#ifndef SERVE_HEAP_JSON_H
#define SERVE_HEAP_JSON_H

#include "memprof/heaps.h"
#include "base/strbuf.h"

enum { HEAP_JSON_SITES = 25 };

/*
 * Write the processes that match FILTER, their sums, and their first HEAP_JSON_SITES sites. Return
 * 0 or -ENOMEM.
 */
int heap_json_write(struct strbuf *out, struct heaps *heaps, const struct record_filter *filter);

#endif
