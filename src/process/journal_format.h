/* SPDX-License-Identifier: MIT */
/* What a journal's file says: writing and parsing it. See journal_format.c. */
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

/* What a pid means something in. */
struct surroundings {
	char boot[64];
	uint64_t pid_namespace;
};

/* What a journal says beside its actions. */
struct journal_header {
	struct surroundings where;
	struct process_id target, tool;
	uint64_t program; /* that TARGET ran: journal_program_id */
	enum journal_kind kind;
};

void surroundings_read(struct surroundings *here);

/*
 * A number that process PID has for as long as it runs one program: an exec changes it. 0 if that
 * cannot be read.
 */
uint64_t journal_program_id(struct ocp_ctx *ctx, pid_t pid);

/*
 * Write a whole journal: of the entries that change anything, DONE are done and BEGUN begun.
 * *PROGRESS_AT is where in the file its progress stands.
 */
void journal_write(FILE *f, const struct journal_header *header,
		   const struct journal_entry *entries, size_t n, size_t done, size_t begun,
		   long *progress_at);

/*
 * Overwrite the progress, which stands at AT in FD, and return 0 or -errno. The write lies within
 * one page: a signal takes effect before it or after it.
 */
int journal_write_progress(int fd, off_t at, size_t done, size_t begun);

int journal_add_entry(struct ocp_ctx *ctx, struct journal_entry **entries, size_t *n,
		      const struct journal_entry *entry);
void journal_free_entries(struct journal_entry *entries, size_t n);

/* What a journal's text says beside its actions, and what is true of it now. */
struct journal_text {
	pid_t target, tool;
	uint64_t program;     /* 0: it does not say */
	bool other_namespace; /* its pids mean nothing here */
	bool target_lives, tool_lives;
};

/*
 * Parse TEXT, which is changed, into ABOUT and JOURNAL (its entries, tool, kind and progress). PATH
 * is for messages. -EBADMSG if it is no journal; JOURNAL may then hold some entries.
 */
int journal_parse(struct ocp_ctx *ctx, const char *path, char *text, struct journal_text *about,
		  struct stale_journal *journal);

#endif
