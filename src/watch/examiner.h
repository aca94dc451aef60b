/* SPDX-License-Identifier: MIT */
/*
 * A process that reads files of strangers as we would, to see whether that is safe: it has little
 * time and memory for each, no capability, and nothing open but them. What it finds out comes back
 * in shared memory, file by file.
 */
#ifndef WATCH_EXAMINER_H
#define WATCH_EXAMINER_H

#include <stdbool.h>
#include <stddef.h>
#include "base/ctx.h"
#include "base/file_rules.h"

/* For one file; an examiner's rules on sites come in addition. */
struct exam_limits {
	unsigned int cpu_ms, wall_ms;
	unsigned int memory_mib; /* more than it has at first */
};

struct exam_file {
	int fd;
	struct file_origin origin;
};

enum exam_state {
	EXAM_NOT_BEGUN,
	EXAM_BEGUN,
	EXAM_WITHOUT_PROBES, /* or none that could be read */
	EXAM_WITH_PROBES,
	EXAM_EXCEEDS, /* the limits */
};

struct exam_result {
	enum exam_state state;
	char why[256]; /* EXAM_EXCEEDS: how, without the file's name */
};

struct examiner;

/* ERROR, a sentence about the file of ORIGIN, without its name. */
const char *exam_reason(const char *error, const struct file_origin *origin);

/*
 * Begin to read N FILES, which outlive it, by LIMITS and the limits on sites of RULES. One file
 * that exceeds a limit may be the end of it: those behind remain EXAM_NOT_BEGUN.
 */
int examiner_start(struct ocp_ctx *ctx, const struct exam_file *files, size_t n,
		   const struct file_rules *rules, const struct exam_limits *limits,
		   struct examiner **out);
/* Wait for its end, WAIT_MS at most. To be called now and then: it may have to be brought about. */
bool examiner_has_ended(struct examiner *examiner, int wait_ms);
/* Of file number FILE by now. */
struct exam_result examiner_result(const struct examiner *examiner, size_t file);
/* Ends it. Takes NULL. */
void examiner_free(struct examiner *examiner);

#endif
