/* SPDX-License-Identifier: MIT */
/* The journals of dead tools: see journal_search.c. */
#ifndef PROCESS_JOURNAL_SEARCH_H
#define PROCESS_JOURNAL_SEARCH_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>
#include "base/ctx.h"
#include "process/journal.h"

/* A journal whose tool is dead and whose process lives. */
struct stale_journal {
	pid_t tool;
	enum journal_kind kind;
	/*
	 * according to the file: the first n_done entries are done; those from n_done up to n_begun
	 * may be done; the rest were not begun
	 */
	size_t n_done, n_begun;
	struct journal_entry *entries;
	size_t n;
	char *dir, *file;
	uid_t owner;
	size_t progress_at; /* offset in the file */
	bool settled;	    /* set by the caller that undoes or completes the actions */
};

struct stale_journals {
	struct stale_journal *list;
	size_t n;
};

/*
 * Find the stale journals about PROCESS in the directories of this user and, if the caller is root,
 * also in the directories of the user that PROCESS belongs to. Delete journals whose process has
 * ended, and journals about PROCESS that were written before it executed another program. A damaged
 * journal is left out with a warning.
 */
int journal_find_stale(struct ocp_ctx *ctx, pid_t process, struct stale_journals *stale);

/*
 * Set the progress in the file of JOURNAL to "all begun, none done". Call this before the actions
 * of JOURNAL are undone or completed: if that is interrupted, the next doctor judges all entries by
 * the counters.
 */
int journal_reopen_stale(struct ocp_ctx *ctx, const struct stale_journal *journal);

/* Delete the file of JOURNAL. Call this when nothing is left to be undone or completed. */
int journal_remove_stale(struct ocp_ctx *ctx, const struct stale_journal *journal);

void journal_free_stale(struct stale_journals *stale);

/*
 * Return true if entry number ENTRY was done, judged by the progress and, if the entry was only
 * begun, by the probe's counter, which is COUNT now.
 */
bool journal_was_done(const struct stale_journal *journal, size_t entry, int count);

#endif
