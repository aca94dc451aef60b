/* SPDX-License-Identifier: MIT */
/* Which probes are meant: by name, by regular expression, or all. */
#ifndef MEASURE_SELECTION_H
#define MEASURE_SELECTION_H

#include <stdbool.h>
#include <stddef.h>
#include "base/ctx.h"

struct selection_item;

struct selection {
	struct selection_item **items; /* in the order in which they were added */
	size_t n, n_regexps;
	void *names; /* those that are no regular expressions, see tsearch(3) */
	bool all;
};

void selection_free(struct selection *selection);

/* Strings are copied. A name that is there already is -EINVAL. */
int selection_add_name(struct ocp_ctx *ctx, struct selection *selection, const char *name);
int selection_add_regexp(struct ocp_ctx *ctx, struct selection *selection, const char *re);

/* Item number I: a name, or a regular expression; NULL behind the last. */
const char *selection_text(const struct selection *selection, size_t i, bool *is_name);

bool selection_is_empty(const struct selection *selection);
/* Is NAME meant? Remembers which items have been of use. */
bool selection_takes(struct selection *selection, const char *name);

/*
 * -ENOENT with a sentence for an item that has taken nothing so far. NAMES[0..N) are those there
 * are, WHERE says in what.
 */
int selection_check_used(struct ocp_ctx *ctx, const struct selection *selection,
			 const char *const *names, size_t n, const char *where);

/* The sentence for NAME, which is none of NAMES[0..N). Returns -ENOENT. */
int selection_unknown(struct ocp_ctx *ctx, const char *name, const char *const *names, size_t n,
		      const char *where);

#endif
