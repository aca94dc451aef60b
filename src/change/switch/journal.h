/* SPDX-License-Identifier: MIT */
/*
 * A record of what a tool is doing to a process, in a file that outlives the tool: see journal.c.
 */
#ifndef CHANGE_SWITCH_JOURNAL_H
#define CHANGE_SWITCH_JOURNAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/types.h>
#include "base/ctx.h"
#include "change/switch/actions.h"

enum { JOURNAL_UNKNOWN = -1 };

enum journal_kind {
	JOURNAL_PROMISE, /* the actions will be undone later; until then the journal stays */
	/* the actions will not be undone; the journal exists while the update runs */
	JOURNAL_UPDATE,
};

/* The action on one probe. */
struct journal_entry {
	char *name;
	enum action_verb verb;
	/*
	 * The value of the probe's counter before and after the action, or JOURNAL_UNKNOWN. If the
	 * probe has several counters, this is the highest.
	 */
	int count_before, count_after;
};

struct journal;

/*
 * Begin a journal of the actions of this tool on the process PROCESS. Writes no file yet. Returns
 * -EACCES if this user has no directory for journals that is closed to all other users.
 */
int journal_open(struct ocp_ctx *ctx, pid_t process, enum journal_kind kind, struct journal **out);

/* Append an entry. Entries are numbered from 0, in the order in which the actions will be done. */
int journal_append(struct journal *journal, enum action_verb verb, const char *name,
		   int count_before, int count_after);

/*
 * journal_has_counts() returns true if entry number ENTRY has these counts; journal_set_counts()
 * sets them.
 */
bool journal_has_counts(const struct journal *journal, size_t entry, int before, int after);
void journal_set_counts(struct journal *journal, size_t entry, int before, int after);

/*
 * Write the whole journal, in place of an earlier version. The progress is: the first DONE entries
 * are done, the first BEGUN entries are begun. For the entries that are begun but not done, doctor
 * compares the probe's counter with count_before and count_after.
 */
int journal_commit(struct journal *journal, size_t done, size_t begun);

/*
 * Change only the progress in the file of JOURNAL: the first DONE entries are done, the first BEGUN
 * entries are begun.
 */
int journal_progress(struct journal *journal, size_t done, size_t begun);

/*
 * Delete the file of JOURNAL, if it has one, and free JOURNAL, which may be NULL. Call this only if
 * nothing is left for doctor to undo or complete (all actions are done or undone, none was begun,
 * or the process has ended), or if an update continues without a journal.
 */
void journal_remove(struct journal *journal);

/* Free JOURNAL, which may be NULL, and leave its file for doctor. */
void journal_close(struct journal *journal);

/* ---- journals of killed tools ---------------------------------------------------------------- */

/* A journal whose tool is dead and whose process is alive. */
struct stale_journal {
	pid_t tool;
	enum journal_kind kind;
	/*
	 * The progress in the file: the first n_done entries are done; those from n_done up to
	 * n_begun may be done; the entries after these were not begun.
	 */
	size_t n_done, n_begun;
	struct journal_entry *entries;
	size_t n;
	char *dir, *file;
	uid_t owner;
	size_t progress_at; /* the offset of the progress line in the file */
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
 * of JOURNAL are undone or completed: if the tool is killed meanwhile, the next doctor judges all
 * entries by the counters.
 */
int journal_reopen_stale(struct ocp_ctx *ctx, const struct stale_journal *journal);

/*
 * Delete the file of JOURNAL. Call this when none of its actions is left to be undone or completed.
 */
int journal_remove_stale(struct ocp_ctx *ctx, const struct stale_journal *journal);

void journal_free_stale(struct stale_journals *stale);

/*
 * Return true if entry number ENTRY was done. The progress decides; if the entry was only begun,
 * the probe's counter, which is COUNT now, decides.
 */
bool journal_was_done(const struct stale_journal *journal, size_t entry, int count);

/* ---- the format ------------------------------------------------------------------------------ */

/* Writing and parsing the file of a journal. */

/*
 * Return a number that identifies the program that process PID runs now; each exec changes this
 * number. Return 0 if the number cannot be read.
 */
uint64_t journal_program_id(struct ocp_ctx *ctx, pid_t pid);

void journal_free_entries(struct journal_entry *entries, size_t n);

/* The lines of a journal before its actions, and whether the processes that they name are alive. */
struct journal_text {
	pid_t process, tool;
	uint64_t program; /* 0: unknown */
	/* the pids in the journal are of another pid namespace than the caller's */
	bool other_namespace;
	bool process_lives, tool_lives;
};

/*
 * Parse TEXT, which is modified, into ABOUT and JOURNAL (its entries, tool, kind and progress).
 * PATH is for messages. Returns -EBADMSG if TEXT is not a journal. The caller must free the entries
 * of JOURNAL, also after an error.
 */
int journal_parse(struct ocp_ctx *ctx, const char *path, char *text, struct journal_text *about,
		  struct stale_journal *journal);

#endif
