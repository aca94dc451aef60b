/* SPDX-License-Identifier: MIT */
/*
 * Hits and times by the value of an argument: a part of a sample. A pair belongs to the value at its
 * start. meter_group_by() (meter.h) asks for it.
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
	const char *probe; /* of hits; NULL: a pair */
	size_t number;	   /* of the probe or pair; that of a pair is its index in the sample */
	uint64_t hits;	   /* of a pair: how often it was completed */
	struct group_times *times; /* NULL: hits */
	struct measure_by value;
	enum ocp_arg_type type; /* of the argument, as far as it is known */
	bool is_others;		/* the values for which there was no room, in sum */
};

/*
 * Sorted: probes by name, then pairs by number; the groups of each by value, the others last. The hits
 * of its groups are those of the probe or pair. All 0: none.
 */
struct value_groups {
	struct value_group *list;
	size_t n;
	struct group_times *times;
	char arg[OCP_ARG_NAME_BYTES]; /* as the user has named it; "": nothing is grouped */
};

/* The caller frees OUT with value_groups_free(), also on failure (-ENOMEM). */
int value_groups_make(const struct ocp_meter *meter, const struct engine_reading *reading,
		      struct value_groups *out);
/* The same for the difference between EARLIER and LATER. Groups without hits are left out. */
int value_groups_subtract(struct ocp_ctx *ctx, const struct value_groups *later,
			  const struct value_groups *earlier, struct value_groups *out);
void value_groups_free(struct value_groups *groups);

/* Those of SAMPLE. */
const struct value_groups *sample_value_groups(const struct ocp_sample *sample);

/* The order of groups in the list, for qsort. */
int value_group_compare(const void *a, const void *b);

/* The times of GROUP as a pair, for ocp_pair_quantile_ns(); start and stop are "". */
struct ocp_pair value_group_pair(const struct value_group *group);

/* Is its value a string of which only the first MEASURE_BY_TEXT bytes are known and compared? */
bool value_group_is_cut(const struct value_group *group);

/*
 * The value of GROUP, which is not the others, as in OCaml: 42, "abc", 3.14, true, 'x'; "?" and the
 * reason for what is neither a number nor a string, or cannot be read. A string that was cut ends with
 * "...". The caller frees it; NULL: out of memory.
 */
char *value_group_text(const struct value_group *group);

#endif
