/* SPDX-License-Identifier: MIT */
/* The journals that dead tools have left: see journal_search.c. */
#ifndef PROCESS_JOURNAL_SEARCH_H
#define PROCESS_JOURNAL_SEARCH_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>
#include "base/ctx.h"
#include "process/journal.h"

/* A journal whose tool is dead and whose target lives. */
struct stale_journal {
	pid_t tool;
	enum journal_kind kind;
	size_t n_done, n_begun; /* entries: what it says of its progress */
	struct journal_entry *entries;
	size_t n;
	char *dir, *file; /* where it is */
	uid_t owner;
	size_t progress_at; /* in the file; 0: an older version's, which cannot be changed */
	bool settled;	    /* for the one who undoes or completes it */
};

struct stale_journals {
	struct stale_journal *list;
	size_t n;
};

/*
 * The stale journals for process TARGET in our own folders, and for root those of the user that
 * TARGET belongs to. Deletes on the way those whose target has ended, or runs another program. A
 * damaged journal is left out with a warning.
 */
int journal_find_stale(struct ocp_ctx *ctx, pid_t target, struct stale_journals *stale);

/*
 * Let its file say that all is begun and nothing known to be done: it is about to be settled, and
 * who finds it half settled has to go by the counters.
 */
int journal_reopen_stale(struct ocp_ctx *ctx, const struct stale_journal *journal);

/* Delete its file: it is settled. */
int journal_remove_stale(struct ocp_ctx *ctx, const struct stale_journal *journal);

void journal_free_stale(struct stale_journals *stale);

/* Was entry number ENTRY done, if the probe's counter is COUNT now? */
bool journal_was_done(const struct stale_journal *journal, size_t entry, int count);

#endif
