/* SPDX-License-Identifier: MIT */
/*
 * The examiner: a child process that reads untrusted files first, to find out whether reading them
 * is safe. The child has limited time and memory for each file, no capability, and no open files
 * except the files to read. The examiner returns its results in shared memory, file by file.
 */
#ifndef WATCH_EXAMINER_H
#define WATCH_EXAMINER_H

#include <stdbool.h>
#include <stddef.h>
#include "base/ctx.h"
#include "base/file_rules.h"

/* Limits for one file, in addition to the limits on sites in struct file_rules. */
struct exam_limits {
	unsigned int cpu_ms, wall_ms;
	unsigned int memory_mib; /* beyond what the child uses at its start */
	bool all_runtimes;	 /* look for OCaml's runtime also in programs without probes */
};

struct exam_file {
	int fd;
	struct file_origin origin;
};

enum exam_state {
	EXAM_NOT_BEGUN,
	EXAM_BEGUN,
	EXAM_WITHOUT_PROBES, /* the file has no probes, or cannot be read as a program */
	EXAM_WITH_PROBES,
	EXAM_EXCEEDS, /* the file exceeds the limits */
};

struct exam_result {
	enum exam_state state;
	char why[256]; /* with EXAM_EXCEEDS: the reason, without the file's name */
};

struct examiner;

/* Return ERROR, a message about the file of ORIGIN, without the file's name at its beginning. */
const char *exam_reason(const char *error, const struct file_origin *origin);

/*
 * Start a child that reads the N FILES, with LIMITS and the limits on sites of RULES. FILES must
 * outlive the examiner. A file that exceeds a limit may end the child; the files after it then
 * remain EXAM_NOT_BEGUN.
 */
int examiner_start(struct ocp_ctx *ctx, const struct exam_file *files, size_t n,
		   const struct file_rules *rules, const struct exam_limits *limits,
		   struct examiner **out);
/*
 * Wait at most WAIT_MS for the child to end. Return true if it has ended. Call this function
 * regularly, since it also kills a child that takes too long.
 */
bool examiner_has_ended(struct examiner *examiner, int wait_ms);
/* Return the current result of FILES[FILE]. */
struct exam_result examiner_result(const struct examiner *examiner, size_t file);
/* Kill the child if it still runs, and free EXAMINER, which may be NULL. */
void examiner_free(struct examiner *examiner);

#endif
