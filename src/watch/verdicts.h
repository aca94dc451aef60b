/* SPDX-License-Identifier: MIT */
/*
 * Verdicts on the files that a watch may read: whether reading a file is safe.
 *
 * When all programs are watched, any user can present any file. So an examiner (watch/examiner.h)
 * reads each file first, and this process reads a file only if the examiner could read it within
 * the limits. A file that exceeds the limits is reported once, and skipped until it changes.
 *
 * Programs that the user names are read without an examiner. The libraries that processes of these
 * programs have mapped must keep to the limit on sites. The functions of a library are read only if
 * the library's owner is trusted, and never when all programs are watched.
 *
 * The limits also apply when this process reads a file that was examined, since the file may have
 * changed after its examination.
 */
#ifndef WATCH_VERDICTS_H
#define WATCH_VERDICTS_H

#include <stdbool.h>
#include "base/ctx.h"

/*
 * The maximum number of sites in one file. Reading and attaching a program with this number of
 * sites takes a fraction of a second.
 */
enum { VERDICTS_MAX_SITES = 20000 };

struct verdicts;

/*
 * Create verdicts, and set file rules for CTX that apply the verdicts until verdicts_free(). NULL:
 * out of memory (with the message in CTX).
 */
struct verdicts *verdicts_new(struct ocp_ctx *ctx);
/* Remove the file rules, and free VERDICTS, which may be NULL. */
void verdicts_free(struct verdicts *verdicts);

/*
 * Examine the files of untrusted owners, both executables and libraries, and allow any number of
 * sites. Root and the user of this process are trusted. Call this in commands that list all
 * processes once, or that read one process.
 */
void verdicts_set_strangers(struct verdicts *verdicts);
/* A time to wait for the verdict on one file: longer than the examiner reads the file at most. */
enum { VERDICTS_WAIT_MS = 12000 };

/*
 * Wait at most WAIT_MS for the verdicts on the queued files. Return whether there are new verdicts.
 */
bool verdicts_await(struct verdicts *verdicts, int wait_ms);
/* Return the number of files that have been queued but have no verdict yet. */
size_t verdicts_pending(const struct verdicts *verdicts);

/* Set whether every program is watched, or only the programs that the user names (the default). */
void verdicts_set_all(struct verdicts *verdicts, bool all);

/*
 * Start to examine the queued files, and wait at most WAIT_MS for the results. Return whether there
 * are new verdicts.
 */
bool verdicts_settle(struct verdicts *verdicts, int wait_ms);

#endif
