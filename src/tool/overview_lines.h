/* SPDX-License-Identifier: MIT */
/*
 * A report as lines for people. Both forms of the report, text and page, show these lines, so both
 * have the same words and numbers.
 */
#ifndef TOOL_OVERVIEW_LINES_H
#define TOOL_OVERVIEW_LINES_H

#include "tool/overview.h"

/* A row below a line: a function, a probe, a pair, or a note about the line. */
struct overview_row {
	char *number; /* "12.5%", "250.0/s" or ""; NULL: a note */
	char *text;
	char *command; /* NULL: none */
	double share;  /* of the whole, from 0 to 1; negative: the number is no share */
};

struct overview_line {
	const char *topic; /* an identifier for programs, such as "heap" */
	char *label;	   /* the text before the colon; NULL: the line has no label */
	char *text;
	char *command;	  /* shows more of the same; NULL: none */
	int number_width; /* columns of the numbers of the rows */
	struct overview_row *rows;
	size_t n_rows;
};

struct overview_lines {
	pid_t pid;
	struct overview_line *list;
	size_t n;
	bool is_short; /* memory was short: the lines are incomplete */
};

/*
 * Set LINES to the lines of OVERVIEW. The texts may contain any bytes, since names come from other
 * programs; in the commands, these names are quoted for a shell. Return 0 or -ENOMEM with a
 * message. The caller frees LINES, also after an error.
 */
int overview_lines_make(struct ocp_ctx *ctx, const struct overview *overview,
			struct overview_lines *lines);
void overview_lines_free(struct overview_lines *lines);

#endif
