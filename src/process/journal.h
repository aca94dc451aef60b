/* SPDX-License-Identifier: MIT */
/*
 * What a tool is doing to a process, kept where it survives the tool's SIGKILL: see journal.c.
 * Those that dead tools have left: journal_search.h.
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

#endif
