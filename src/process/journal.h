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
	JOURNAL_PROMISE, /* all is undone in the end; until then the journal stays */
	JOURNAL_UPDATE,	 /* nothing is undone; the journal exists while the update runs */
};

/* What is done to one probe. */
struct journal_entry {
	char *name;
	enum action_verb verb;
	/* The probe's counter (the highest of several), or JOURNAL_UNKNOWN. */
	int count_before, count_after;
};

struct journal;

/*
 * Begin a journal of what this tool does to PROCESS. Writes nothing yet. -EACCES if no
 * directory for it can be created that belongs to this user alone.
 */
int journal_open(struct ocp_ctx *ctx, pid_t process, enum journal_kind kind, struct journal **out);

/* Entries are numbered from 0, in the order in which they are going to be done. */
int journal_append(struct journal *journal, enum action_verb verb, const char *name,
		   int count_before, int count_after);

/* Compare, or set, the counts of entry number ENTRY. */
bool journal_has_counts(const struct journal *journal, size_t entry, int before, int after);
void journal_set_counts(struct journal *journal, size_t entry, int before, int after);

/*
 * Write the whole journal and replace an earlier version. The progress is: the first DONE entries
 * are done, the first BEGUN entries are begun. For an entry in between, doctor compares the probe's
 * counter with count_before and count_after.
 */
int journal_commit(struct journal *journal, size_t done, size_t begun);

/* Change the progress of the journal on disk. */
int journal_progress(struct journal *journal, size_t done, size_t begun);

/* Delete the journal's file and free JOURNAL, which may be NULL: all is done, or undone. */
void journal_remove(struct journal *journal);

/* Free JOURNAL, which may be NULL, and leave its file for doctor. */
void journal_close(struct journal *journal);

#endif
