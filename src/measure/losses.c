// SPDX-License-Identifier: MIT
#include "measure/losses.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "args.h"
#include "base/ctx.h"

void losses_free(struct ocp_losses *losses)
{
	free((char *)losses->filter_mismatch);
	losses->filter_mismatch = NULL;
}

/* Set *MISMATCH to the text for LAST, a value of measure_mismatch(). */
static int describe_mismatch(const struct site_table *table, const struct arg_requests *requests,
			     uint64_t last, const char **mismatch)
{
	static const char *const types[FILTER_TYPES] = {
		[FILTER_TYPE_UNREADABLE] = "cannot be read",
		[FILTER_TYPE_INT] = "is an int",
		[FILTER_TYPE_FLOAT] = "is a float",
		[FILTER_TYPE_STRING] = "is a string",
		[FILTER_TYPE_OTHER] = "is neither a number nor a string",
	};
	const uint32_t probe_index = (uint32_t)last, what = (uint32_t)(last >> 32);
	const uint32_t type = filter_mismatch_type(what), arg = filter_mismatch_arg(what);
	char name[OCP_ARG_NAME_BYTES];
	char *text;

	/* The maps of a pinned meter are input from outside: check the numbers. */
	if (probe_index >= table->n_probes || type >= FILTER_TYPES || arg >= ARGS_ALL)
		return 0;
	/* The names of arguments are not stored with a pinned meter. */
	if (arg < ARGS_MAX)
		snprintf(name, sizeof(name), "arg%u", arg);
	else
		snprintf(name, sizeof(name), "%s",
			 arg < ARGS_MAX + requests->asked.n ? requests->asked.names[arg - ARGS_MAX]
							    : "an argument");
	if (asprintf(&text, "%s of probe '%s' %s and is compared with a %s", name,
		     table->probes[probe_index].name, types[type],
		     filter_mismatch_with_string(what) ? "string" : "number") < 0)
		return ctx_no_memory(table->ctx);
	*mismatch = text;
	return 0;
}

int losses_make(const struct site_table *table, const struct arg_requests *requests,
		const struct measure_losses *read, struct ocp_losses *losses)
{
	*losses = (struct ocp_losses){
		.passed_over = read->passed_over,
		.rows_full = read->rows_full,
		.children_full = read->children_full,
		.filtered = read->filtered,
		.prints_dropped = read->prints_dropped,
		.prints_limited = read->prints_limited,
		.slow = read->slow,
		.slow_limited = read->slow_limited,
		.slow_dropped = read->slow_dropped,
		.slow_unkept = read->slow_unkept,
		.filter_mismatches = read->filter_mismatches,
	};
	return read->last_mismatch ? describe_mismatch(table, requests, read->last_mismatch,
						       &losses->filter_mismatch)
				   : 0;
}

int losses_subtract(struct ocp_ctx *ctx, const struct ocp_losses *later,
		    const struct ocp_losses *earlier, struct ocp_losses *losses)
{
	*losses = (struct ocp_losses){
		.passed_over = later->passed_over - earlier->passed_over,
		.rows_full = later->rows_full - earlier->rows_full,
		.children_full = later->children_full - earlier->children_full,
		.filtered = later->filtered - earlier->filtered,
		.prints_dropped = later->prints_dropped - earlier->prints_dropped,
		.prints_limited = later->prints_limited - earlier->prints_limited,
		.slow = later->slow - earlier->slow,
		.slow_limited = later->slow_limited - earlier->slow_limited,
		.slow_dropped = later->slow_dropped - earlier->slow_dropped,
		.slow_unkept = later->slow_unkept - earlier->slow_unkept,
		.filter_mismatches = later->filter_mismatches - earlier->filter_mismatches,
	};
	if (!losses->filter_mismatches || !later->filter_mismatch)
		return 0;
	losses->filter_mismatch = strdup(later->filter_mismatch);
	return losses->filter_mismatch ? 0 : ctx_no_memory(ctx);
}
