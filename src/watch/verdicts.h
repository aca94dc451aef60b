/* SPDX-License-Identifier: MIT */
/*
 * What is known of the files that a watch may have to read. Where all programs are watched, anybody
 * may put any file before us: each is read by an examiner first (watch/examiner.h), and by us only
 * if that went well. What exceeds the limits is reported once, and left out until it changes.
 *
 * Where programs were named, these are read as they are; the libraries that their processes have
 * mapped must keep to the limit on sites.
 *
 * The limits hold for us as well: the file may have changed since it was examined.
 */
#ifndef WATCH_VERDICTS_H
#define WATCH_VERDICTS_H

#include <stdbool.h>
#include "base/ctx.h"

/* Of one file. A program of as many is read and attached in a fraction of a second. */
enum { VERDICTS_MAX_SITES = 20000 };

struct verdicts;

/* CTX gets file rules, which it has until verdicts_free. NULL: memory is short (said in CTX). */
struct verdicts *verdicts_new(struct ocp_ctx *ctx);
/* Takes NULL. */
void verdicts_free(struct verdicts *verdicts);

/* Is every program watched, or what was named? At first the latter. */
void verdicts_set_all(struct verdicts *verdicts, bool all);

/*
 * Have the files examined that could not be read because nothing is known of them, and wait WAIT_MS
 * at most. True: more is known than before.
 */
bool verdicts_settle(struct verdicts *verdicts, int wait_ms);

#endif
