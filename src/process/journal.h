/* SPDX-License-Identifier: MIT */
/*
 * What a tool has to undo in a process when it ends, kept where it survives the tool's SIGKILL: see
 * journal.c.
 */
#ifndef PROCESS_JOURNAL_H
#define PROCESS_JOURNAL_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>
#include "base/ctx.h"
#include "process/actions.h"

enum { JOURNAL_UNKNOWN = -1 };

/* What was done to one probe. */
struct journal_entry {
	char *name;
	enum action_verb verb;
	/* The probe's counter (of several the highest) before that, or JOURNAL_UNKNOWN. */
	int count_before;
};

struct journal;

/*
 * Begin a journal of what this process does to process TARGET. Nothing is written yet. -EACCES if
 * there is no folder for it that belongs to us alone.
 */
int journal_open(struct ocp_ctx *ctx, pid_t target, struct journal **out);

int journal_append(struct journal *journal, enum action_verb verb, const char *name,
		   int count_before);

/*
 * Write all entries, replacing what was written before: first with APPLIED false, before the
 * process is changed; then with true, when all entries are done. In between, whoever finds the
 * journal tells what was done by count_before.
 */
int journal_commit(struct journal *journal, bool applied);

/* Forget the journal, on disk too: everything is undone, or nothing was done. Takes NULL. */
void journal_remove(struct journal *journal);

/* Free it and leave its file, for doctor to find. Takes NULL. */
void journal_close(struct journal *journal);

/* A journal whose tool is dead and whose target lives. */
struct stale_journal {
	pid_t tool;
	bool applied;
	struct journal_entry *entries;
	size_t n;
	char *dir, *file; /* where it is */
	uid_t owner;
	bool undone; /* for whoever undoes it */
};

struct stale_journals {
	struct stale_journal *list;
	size_t n;
};

/*
 * The stale journals for process TARGET in our own folders, and for root those of the user that
 * TARGET belongs to. Deletes on the way those whose target has ended. A damaged journal is left out
 * with a warning.
 */
int journal_find_stale(struct ocp_ctx *ctx, pid_t target, struct stale_journals *stale);

/* Delete its file: it was undone. */
int journal_remove_stale(struct ocp_ctx *ctx, const struct stale_journal *journal);

void journal_free_stale(struct stale_journals *stale);

/* What a journal's text says beside its actions, and what is true of it now. */
struct journal_text {
	pid_t target, tool;
	bool other_namespace; /* its pids mean nothing here */
	bool target_lives, tool_lives;
};

/*
 * Parse TEXT, which is changed, into ABOUT and JOURNAL (its entries, tool and applied). PATH is for
 * messages. -EBADMSG if it is no journal; JOURNAL may then hold some entries.
 */
int journal_parse(struct ocp_ctx *ctx, const char *path, char *text, struct journal_text *about,
		  struct stale_journal *journal);

#endif
