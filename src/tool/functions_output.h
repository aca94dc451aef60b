/* SPDX-License-Identifier: MIT */
/* The functions of a program as a table, or as JSON. */
#ifndef TOOL_FUNCTIONS_OUTPUT_H
#define TOOL_FUNCTIONS_OUTPUT_H

#include <stdbool.h>
#include <stddef.h>
#include "code/functions.h"

struct function_row {
	const struct function *function;
	const char *source; /* the file of the source; NULL: unknown */
	int line;	    /* 0: unknown */
	/* The cost of counting calls: "cheap", "expensive", "impossible"; NULL: unknown. */
	const char *cost;
	const char *reason; /* why calls cannot be counted; NULL: they can be, or it is unknown */
	const char *image;  /* the file that contains the function */
};

/* Print a table, with a column for the image if HAS_IMAGES. */
void functions_print_table(const struct function_row *rows, size_t n, bool has_images);

/* Print JSON. PROG is the executable of process PID, or if PID is 0 the examined file. */
void functions_print_json(const struct function_row *rows, size_t n, const char *prog, int pid);

#endif
