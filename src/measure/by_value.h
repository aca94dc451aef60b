/* SPDX-License-Identifier: MIT */
/*
 * Hits of probes and times of pairs, grouped by the value of an argument (measure_request.by). The
 * groups are a part of a sample. A pair belongs to the group of the value that the argument has at
 * the pair's start.
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
	const char *probe;	   /* name of the probe; NULL: the group is of a pair */
	size_t number;		   /* number of the probe, or index of the pair in the sample */
	uint64_t hits;		   /* hits of a probe, or completed pairs */
	struct group_times *times; /* NULL if the group is of a probe */
	struct measure_by value;
	enum ocp_arg_type type; /* type of the argument; OCP_ARG_ANY: unknown */
	bool is_others;		/* the group of all values for which there was no room */
};

/*
 * First the groups of probes, sorted by name, then the groups of pairs, sorted by number. The
 * groups of one probe or pair are sorted by value, with is_others last. The hits of these groups
 * add up to the hits of the probe or pair. If all members of this struct are 0, there are no
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

/*
 * Return true if METER groups the hits of PROBE: then the groups of PROBE have all its hits. A
 * probe that lacks the argument is counted without groups.
 */
bool value_groups_has_probe(const struct ocp_meter *meter, const char *probe);
/* Return the groups of SAMPLE. */
const struct value_groups *sample_value_groups(const struct ocp_sample *sample);

/* Compare two groups in the order of value_groups.list, for qsort(3). */
int value_group_compare(const void *a, const void *b);

/*
 * Return the times of GROUP as a struct ocp_pair, for ocp_pair_quantile_ns(). The names of its
 * start and stop are "".
 */
struct ocp_pair value_group_pair(const struct value_group *group);

/*
 * Return true if the value of GROUP is a string of which only the first MEASURE_BY_TEXT bytes are
 * known.
 */
bool value_group_is_cut(const struct value_group *group);

/*
 * Return the value of GROUP in OCaml syntax; GROUP must not have is_others. Examples: 42, "abc",
 * 3.14, true, 'x'. For a value that is neither a number nor a string, is not an int (engine
 * `inside`), or cannot be read, return "?" and the reason. A string that was cut ends with "...".
 * The caller frees the text. NULL means that memory is short.
 */
char *value_group_text(const struct value_group *group);

#endif
