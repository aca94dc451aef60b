/* SPDX-License-Identifier: MIT */
/*
 * A record of what a tool is doing to a process, in a file that outlives the tool: see journal.c.
 * journal_search.h finds the journals of dead tools.
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
	JOURNAL_PROMISE, /* the actions are undone later; until then the journal stays */
	JOURNAL_UPDATE,	 /* the actions are not undone; the journal exists while the update runs */
};

/* The action on one probe. */
struct journal_entry {
	char *name;
	enum action_verb verb;
	/* The probe's counter (the highest one, if it has several), or JOURNAL_UNKNOWN. */
	int count_before, count_after;
};

struct journal;

/*
 * Begin a journal of the actions of this tool on PROCESS. Writes nothing yet. Returns -EACCES if
 * this user has no directory for journals that is closed to all other users.
 */
int journal_open(struct ocp_ctx *ctx, pid_t process, enum journal_kind kind, struct journal **out);

/* Append an entry. Entries are numbered from 0, in the order in which the actions will be done. */
int journal_append(struct journal *journal, enum action_verb verb, const char *name,
		   int count_before, int count_after);

/* Return true if entry number ENTRY has these counts; or set its counts. */
bool journal_has_counts(const struct journal *journal, size_t entry, int before, int after);
void journal_set_counts(struct journal *journal, size_t entry, int before, int after);

/*
 * Write the whole journal, in place of an earlier version. The progress is: the first DONE entries
 * are done, the first BEGUN entries are begun. For the entries that are begun but not done, doctor
 * compares the probe's counter with count_before and count_after.
 */
int journal_commit(struct journal *journal, size_t done, size_t begun);

/* Change the progress of the journal on disk. */
int journal_progress(struct journal *journal, size_t done, size_t begun);

/*
 * Delete the file of JOURNAL, if it has one, and free JOURNAL, which may be NULL. Call this only if
 * nothing is left for doctor to undo or complete (all actions are done or undone, none was begun,
 * or the process has ended), or if an update continues without a journal.
 */
void journal_remove(struct journal *journal);

/* Free JOURNAL, which may be NULL, and leave its file for doctor. */
void journal_close(struct journal *journal);

#endif
