/* SPDX-License-Identifier: MIT */
/*
 * The examiner: a child process that reads untrusted files first, to see whether reading them is
 * safe. It has limited time and memory for each file, no capability, and no other open files. It
 * returns its results in shared memory, file by file.
 */
#ifndef WATCH_EXAMINER_H
#define WATCH_EXAMINER_H

#include <stdbool.h>
#include <stddef.h>
#include "base/ctx.h"
#include "base/file_rules.h"

/* Limits for one file, besides the rules on sites. */
struct exam_limits {
	unsigned int cpu_ms, wall_ms;
	unsigned int memory_mib; /* above the initial use */
	bool all_runtimes;	 /* look for OCaml's runtime in programs without probes, too */
};

struct exam_file {
	int fd;
	struct file_origin origin;
};

enum exam_state {
	EXAM_NOT_BEGUN,
	EXAM_BEGUN,
	EXAM_WITHOUT_PROBES, /* the file has no probes, or no readable ones */
	EXAM_WITH_PROBES,
	EXAM_EXCEEDS, /* exceeds the limits */
};

struct exam_result {
	enum exam_state state;
	char why[256]; /* EXAM_EXCEEDS: the reason, without the file's name */
};

struct examiner;

/* Return ERROR, a message about the file of ORIGIN, without the file's name. */
const char *exam_reason(const char *error, const struct file_origin *origin);

/*
 * Start reading N FILES, which must outlive the examiner, with LIMITS and the limits on sites of
 * RULES. A file that exceeds a limit may end the examiner; the files after it remain
 * EXAM_NOT_BEGUN.
 */
int examiner_start(struct ocp_ctx *ctx, const struct exam_file *files, size_t n,
		   const struct file_rules *rules, const struct exam_limits *limits,
		   struct examiner **out);
/* Wait at most WAIT_MS for the end. Call this regularly, since it also kills a late child. */
bool examiner_has_ended(struct examiner *examiner, int wait_ms);
/* The current result of file number FILE. */
struct exam_result examiner_result(const struct examiner *examiner, size_t file);
/* Kill the child if it runs, and free EXAMINER, which may be NULL. */
void examiner_free(struct examiner *examiner);

#endif
