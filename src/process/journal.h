/* SPDX-License-Identifier: MIT */
/*
 * What a tool is doing to a process, kept where it survives the tool's SIGKILL: see journal.c.
 */
#ifndef PROCESS_JOURNAL_H
#define PROCESS_JOURNAL_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>
#include "base/ctx.h"
#include "process/actions.h"

enum { JOURNAL_UNKNOWN = -1 };

enum journal_kind {
	JOURNAL_PROMISE, /* to undo it all in the end */
	JOURNAL_UPDATE,	 /* that stays: the journal is there while it is carried out */
};

/* What is done to one probe. */
struct journal_entry {
	char *name;
	enum action_verb verb;
	/*
	 * The probe's counter (of several the highest) before that, or JOURNAL_UNKNOWN; and after.
	 */
	int count_before, count_after;
};

struct journal;

/*
 * Begin a journal of what this process does to process TARGET. Nothing is written yet. -EACCES if
 * there is no folder for it that belongs to us alone.
 */
int journal_open(struct ocp_ctx *ctx, pid_t target, enum journal_kind kind, struct journal **out);

/* Entries are numbered from 0, in the order in which they are going to be done. */
int journal_append(struct journal *journal, enum action_verb verb, const char *name,
		   int count_before, int count_after);

/* The counts of entry number ENTRY: does the journal say these? And let it say them. */
bool journal_has_counts(const struct journal *journal, size_t entry, int before, int after);
void journal_set_counts(struct journal *journal, size_t entry, int before, int after);

/*
 * Write all entries, replacing what was written before, and how far they are: the first DONE are
 * done and the first BEGUN begun. Who finds it later goes by the counters for those that are begun
 * and not done.
 */
int journal_commit(struct journal *journal, size_t done, size_t begun);

/* Change of the journal on disk how far they are. */
int journal_progress(struct journal *journal, size_t done, size_t begun);

/* Forget the journal, on disk too: everything is done, or undone. Takes NULL. */
void journal_remove(struct journal *journal);

/* Free it and leave its file, for doctor to find. Takes NULL. */
void journal_close(struct journal *journal);

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
