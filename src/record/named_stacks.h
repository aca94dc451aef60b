/* SPDX-License-Identifier: MIT */
/* The stacks of the waits and samples that a writer has met, each with its number and its names. */
#ifndef RECORD_NAMED_STACKS_H
#define RECORD_NAMED_STACKS_H

#include <stdbool.h>
#include <stddef.h>

#include "base/ctx.h"
#include "profile/formats/numbering.h"
#include "record/source.h"

struct named_stack_text {
	char *name;	 /* what the thread waits for, or the function that runs; NULL: not known */
	char *text;	 /* a line for each frame, the innermost first; NULL: not known */
	bool is_written; /* for the writer */
};

/* Initialise the struct with zeros. */
struct named_stacks {
	struct named_stack_text *stacks; /* by number, from 0 */
	size_t n;
	struct numbering numbers;
};

/* Return true if an event of CATEGORY has a stack. */
bool named_stacks_has(enum trace_category category);

/*
 * Set *NUMBER to the number of the stack of EVENT in STACKS, to which it is added if it is new.
 * Returns 0, or -ENOMEM with a message in CTX.
 */
int named_stacks_find(struct ocp_ctx *ctx, const struct trace_source *source,
		      struct named_stacks *stacks, const struct trace_event *event, size_t *number);
void named_stacks_free(struct named_stacks *stacks);

#endif
