/* SPDX-License-Identifier: MIT */
/*
 * Hits and times, grouped by the value of an argument: a part of a sample. A pair belongs to the
 * group of the value that the argument has at its start. measure_request.by requests these groups.
 */
#ifndef MEASURE_BY_VALUE_H
#define MEASURE_BY_VALUE_H

#include "measure/engine/engine.h"
#include "ocaml_probes.h"

/* The completed pairs of a group. */
struct group_times {
	uint64_t sum_ns, min_ns, max_ns;
	uint64_t buckets[OCP_BUCKETS];
};

struct value_group {
	const char *probe;	   /* the probe of the hits; NULL: a pair */
	size_t number;		   /* number of the probe, or index of the pair in the sample */
	uint64_t hits;		   /* hits of a probe, or completed pairs */
	struct group_times *times; /* NULL for hits of a probe */
	struct measure_by value;
	enum ocp_arg_type type; /* type of the argument, as far as it is known */
	bool is_others;		/* the sum over all values for which there was no room */
};

/*
 * Groups, sorted: probes by name, then pairs by number; within each by value, is_others last. The
 * hits of the groups of a probe or pair add up to its hits. If all members are 0, there are no
 * groups.
 */
struct value_groups {
	struct value_group *list;
	size_t n;
	struct group_times *times;
	char arg[OCP_ARG_NAME_BYTES]; /* the argument as the user named it; "": no groups */
};

/*
 * Convert the groups in READING. The caller frees OUT with value_groups_free(), also on failure
 * (-ENOMEM).
 */
int value_groups_make(const struct ocp_meter *meter, const struct engine_reading *reading,
		      struct value_groups *out);
/*
 * Set *OUT to LATER minus EARLIER, without groups that have no hits. The caller frees OUT, also on
 * failure (-ENOMEM).
 */
int value_groups_subtract(struct ocp_ctx *ctx, const struct value_groups *later,
			  const struct value_groups *earlier, struct value_groups *out);
void value_groups_free(struct value_groups *groups);

/* Return the groups of SAMPLE. */
const struct value_groups *sample_value_groups(const struct ocp_sample *sample);

/* Compare two groups in the order of value_groups.list, for qsort(3). */
int value_group_compare(const void *a, const void *b);

/* Return the times of GROUP as a pair, for ocp_pair_quantile_ns(); start and stop are "". */
struct ocp_pair value_group_pair(const struct value_group *group);

/*
 * Return true if the value of GROUP is a string of which only the first MEASURE_BY_TEXT bytes are
 * known.
 */
bool value_group_is_cut(const struct value_group *group);

/*
 * Return the value of GROUP, which is not is_others, in OCaml syntax: 42, "abc", 3.14, true, 'x'.
 * For a value that is neither a number nor a string, or cannot be read, return "?" and the reason.
 * A string that was cut ends with "...". The caller frees the text; NULL: out of memory.
 */
char *value_group_text(const struct value_group *group);

#endif
