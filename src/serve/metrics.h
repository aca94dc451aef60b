/* SPDX-License-Identifier: MIT */
/* The state of a watch in the text formats of Prometheus and OpenMetrics. */
#ifndef SERVE_METRICS_H
#define SERVE_METRICS_H

#include "serve/buckets.h"
#include "serve/negotiate.h"
#include "serve/profile_counts.h"
#include "base/strbuf.h"
#include "watch/watch.h"

/*
 * Write the metrics of WATCH. PROFILES: NULL if no profiles are served. LABEL_PID: split hits by
 * process.
 */
void metrics_write(struct strbuf *out, const struct watch *watch, enum exposition exposition,
		   const struct buckets *buckets, bool label_pid,
		   const struct profile_counts *profiles);

#endif
