/* SPDX-License-Identifier: MIT */
/* `annotate`: the text of a source file, and the counts of its lines beside it. */
#ifndef TOOL_ANNOTATION_H
#define TOOL_ANNOTATION_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/stat.h>
#include "base/ctx.h"
#include "code/line_places.h"
#include "tool/writer.h"

struct annotation {
	char *path; /* the source file that was read */
	struct stat st;
	char *text;	    /* ends with a newline, if it is not empty */
	const char **lines; /* pointers into text; lines[n_lines] is the end of the text */
	size_t n_lines;
	struct line_span *patterns;
	struct line_spans spans; /* `patterns` as a list with its length */
	struct line_places places;
	const char *exe;
	pid_t pid;
	bool is_quiet;
};

/*
 * Read the source FILE. If FILE does not exist and is a bare name, read COMPILED instead: the path
 * that the source had when the program was compiled (NULL: unknown).
 */
int annotation_read(struct ocp_ctx *ctx, const char *file, const char *compiled,
		    struct annotation *annotation);
void annotation_free(struct annotation *annotation);

/* Writers of the total. report.data must point to a struct annotation. */
extern const struct writer annotation_text_writer, annotation_json_writer;

#endif
