/* SPDX-License-Identifier: MIT */
/* The source files that rows of a line table name, compared with the name that is asked for. */
#ifndef CODE_LINE_SOURCES_H
#define CODE_LINE_SOURCES_H

#include <stdbool.h>
#include <stddef.h>
#include "code/line_places.h"
#include "elf/lines.h"

/* A file whose last component is that of the name. */
struct line_source {
	char *path;	/* with the folder of the compiler, if it is known */
	char *name;	/* as the compiler was told */
	bool is_own;	/* it is the file of a unit; else its code was inlined into one */
	size_t n_equal; /* components at the end, in common with the name that is asked for */
};

struct line_sources {
	char *wanted;
	enum line_match match;
	struct line_source *list;
	size_t n;
	/* The file of the last row, and its number in the list, or -1. */
	const char *last_file;
	size_t last_unit;
	ptrdiff_t last;
	char *nearest;
	size_t nearest_distance;
};

/* What the sources come to. */
struct line_choice {
	ptrdiff_t chosen, other; /* -1: none */
	bool takes_inlined;	 /* what was inlined under the name of the chosen source is of it */
	bool has_inlined;
};

int line_sources_open(struct ocp_ctx *ctx, const char *file, enum line_match match,
		      struct line_sources *sources);
void line_sources_close(struct line_sources *sources);

/* The number of the source of ROW, or -1: it has another name. -ENOMEM, -EBADMSG */
int line_sources_of(struct ocp_ctx *ctx, struct line_sources *sources, const struct line_row *row,
		    ptrdiff_t *number);

void line_sources_choose(const struct line_sources *sources, struct line_choice *choice);

/* Is what has source number I code of the chosen source? */
bool line_sources_takes(const struct line_sources *sources, const struct line_choice *choice,
			size_t i);

#endif
