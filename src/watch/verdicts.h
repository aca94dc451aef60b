/* SPDX-License-Identifier: MIT */
/*
 * Verdicts on the files that a watch may read. When all programs are watched, any user can present
 * any file. So an examiner reads each file first (watch/examiner.h), and this process reads it
 * only if that succeeded. A file that exceeds the limits is reported once, and skipped until it
 * changes.
 *
 * Named programs are read without an examiner. The libraries that their processes have mapped must
 * keep to the limit on sites. Their functions are read if their owner is trusted, and never when
 * all programs are watched.
 *
 * The limits also apply to this process, since a file may change after its examination.
 */
#ifndef WATCH_VERDICTS_H
#define WATCH_VERDICTS_H

#include <stdbool.h>
#include "base/ctx.h"

/* The limit for one file. Reading and attaching so large a program takes a fraction of a second. */
enum { VERDICTS_MAX_SITES = 20000 };

struct verdicts;

/* Give CTX file rules until verdicts_free. NULL: out of memory (with the message in CTX). */
struct verdicts *verdicts_new(struct ocp_ctx *ctx);
/* VERDICTS may be NULL. */
void verdicts_free(struct verdicts *verdicts);

/*
 * Examine the files of untrusted owners, executables and libraries alike, and read any number of
 * sites. Root and the user of this process are trusted. For commands that list all processes once,
 * or read one process.
 */
void verdicts_set_strangers(struct verdicts *verdicts);
/*
 * Wait at most WAIT_MS for the verdicts on the queued files. Returns whether there are new
 * verdicts.
 */
bool verdicts_await(struct verdicts *verdicts, int wait_ms);
/* Return the number of queued files that have no verdict yet. */
size_t verdicts_pending(const struct verdicts *verdicts);

/* Set whether every program is watched or, as initially, only named ones. */
void verdicts_set_all(struct verdicts *verdicts, bool all);

/* Examine the queued files, waiting at most WAIT_MS. Returns whether there are new verdicts. */
bool verdicts_settle(struct verdicts *verdicts, int wait_ms);

#endif
