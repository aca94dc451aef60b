/* SPDX-License-Identifier: MIT */
/* Writing and parsing the file of a journal. See journal_format.c. */
#ifndef PROCESS_JOURNAL_FORMAT_H
#define PROCESS_JOURNAL_FORMAT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/types.h>
#include "base/ctx.h"
#include "process/journal_search.h"

struct process_id {
	pid_t pid;
	uint64_t start_time;
};

/* The boot and the pid namespace in which a pid is valid. */
struct surroundings {
	char boot[64];
	uint64_t pid_namespace;
};

/* The lines of a journal before its actions. */
struct journal_header {
	struct surroundings where;
	struct process_id process, tool;
	uint64_t program; /* journal_program_id() of the process */
	enum journal_kind kind;
};

void surroundings_read(struct surroundings *here);

/*
 * Return a number that identifies the program that process PID runs: an exec changes the number.
 * Return 0 if the number cannot be read.
 */
uint64_t journal_program_id(struct ocp_ctx *ctx, pid_t pid);

/*
 * Write a whole journal. Entries that change no counter are left out; of the entries written, the
 * first DONE are done and the first BEGUN are begun. *PROGRESS_AT is the offset of the progress
 * line.
 */
void journal_write(FILE *f, const struct journal_header *header,
		   const struct journal_entry *entries, size_t n, size_t done, size_t begun,
		   long *progress_at);

/*
 * Overwrite the progress at offset AT of FD. Returns 0 or -errno. The write lies within one page,
 * so that a signal cannot interrupt it half way.
 */
int journal_write_progress(int fd, off_t at, size_t done, size_t begun);

int journal_add_entry(struct ocp_ctx *ctx, struct journal_entry **entries, size_t *n,
		      const struct journal_entry *entry);
void journal_free_entries(struct journal_entry *entries, size_t n);

/* The contents of the lines before the actions, and whether the processes are still alive. */
struct journal_text {
	pid_t process, tool;
	uint64_t program;     /* 0: unknown */
	bool other_namespace; /* the journal's pids are not valid in the caller's namespace */
	bool process_lives, tool_lives;
};

/*
 * Parse TEXT, which is modified, into ABOUT and JOURNAL (its entries, tool, kind and progress).
 * PATH is for messages. Returns -EBADMSG if TEXT is not a journal; JOURNAL may then have some
 * entries.
 */
int journal_parse(struct ocp_ctx *ctx, const char *path, char *text, struct journal_text *about,
		  struct stale_journal *journal);

#endif
