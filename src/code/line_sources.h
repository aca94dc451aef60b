/* SPDX-License-Identifier: MIT */
/* The source files that rows of a line table name, compared with the requested name. */
#ifndef CODE_LINE_SOURCES_H
#define CODE_LINE_SOURCES_H

#include <stdbool.h>
#include <stddef.h>
#include "code/line_places.h"
#include "elf/lines.h"

/* A file whose last path component equals the last component of the requested name. */
struct line_source {
	char *path;  /* with the folder of the compiler, if it is known */
	char *name;  /* as it was given to the compiler */
	bool is_own; /* the file of a unit; false: its code was inlined into a unit */
	/* number of path components at the end that are equal to those of the requested name */
	size_t n_equal;
};

struct line_sources {
	char *wanted;
	enum line_match match;
	struct line_source *list;
	size_t n;
	/*
	 * The file and the unit of the last row, and the index in `list` of that row's source; -1:
	 * it does not have the requested name.
	 */
	const char *last_file;
	size_t last_unit;
	ptrdiff_t last;
	char *nearest;
	size_t nearest_distance;
};

/* The choice among the sources. */
struct line_choice {
	ptrdiff_t chosen, other; /* -1: none */
	/* inlined code with the name of the chosen source belongs to the chosen source */
	bool takes_inlined;
	bool has_inlined;
};

int line_sources_open(struct ocp_ctx *ctx, const char *file, enum line_match match,
		      struct line_sources *sources);
void line_sources_close(struct line_sources *sources);

/*
 * Set *NUMBER to the index of the source of ROW; -1 if it does not have the requested name. Returns
 * 0, -ENOMEM or -EBADMSG.
 */
int line_sources_of(struct ocp_ctx *ctx, struct line_sources *sources, const struct line_row *row,
		    ptrdiff_t *number);

void line_sources_choose(const struct line_sources *sources, struct line_choice *choice);

/* Return true if the rows of source number I belong to the chosen source. */
bool line_sources_takes(const struct line_sources *sources, const struct line_choice *choice,
			size_t i);

#endif
