/* SPDX-License-Identifier: MIT */
/*
 * The label of a target: the values of an argument by which hits and times are split, as texts for
 * metrics.
 *
 * A value gets a row of its own when it is seen for the first time, as long as there are fewer rows
 * than the limit; of the values that one reading finds first, the most frequent ones get rows. All
 * other values count in the row WATCH_OTHER. A row is never removed, and a value never changes its
 * row, so that no count decreases. Values whose texts are equal share a row: the string "5" and the
 * int 5, or long strings of which only the beginning is known. The string "other" shares the row of
 * the values without a row.
 *
 * The values come from the memory of other processes: a text may contain any characters, but it is
 * valid UTF-8 and has at most LABEL_TEXT_BYTES - 1 bytes.
 */
#ifndef WATCH_LABEL_H
#define WATCH_LABEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/ctx.h"
#include "measure/by_value.h"
#include "watch/watch.h"

/*
 * The size of the text of a value. Each byte of a string may become a replacement character, which
 * has 3 bytes; then there may be "...", and there is a zero byte.
 */
enum { LABEL_TEXT_BYTES = 3 * MEASURE_BY_TEXT + 4 };

/* The hits of a probe, by value: sorted by watch_value_hits.value. */
struct labelled_hits {
	struct watch_value_hits *list;
	size_t n;
};

/* What is known about the times of a pair with one value, besides struct watch_value_times. */
struct labelled_time {
	uint64_t base_count, base_sum_ns;
	uint64_t buckets[OCP_BUCKETS]; /* watch_value_times.buckets points here */
	uint64_t base_buckets[OCP_BUCKETS];
};

/* The times of a pair, by value. Both lists have N elements, sorted by watch_value_times.value. */
struct labelled_times {
	struct watch_value_times *list;
	struct labelled_time **records;
	size_t n;
};

/* A label with all members 0 is no label: nothing is split by it. */
struct label {
	struct watch_label view;
	char *name, *arg; /* the label's name, and the argument; NULL: no label */
	char **values;	  /* [WATCH_OTHER] is "other" */
	size_t n_values;
	size_t *sorted; /* the numbers of the values, sorted by text */
	/* Hits and times whose value could not be read, and those of them from ended sources. */
	uint64_t unreadable, base_unreadable;
};

/*
 * Set LABEL, which has all members 0, as SPEC and its argument ARG demand. Return 0 or -ENOMEM; in
 * both cases the caller frees LABEL with label_free().
 */
int label_set(struct ocp_ctx *ctx, struct label *label, const struct watch_label_spec *spec,
	      const char *arg);
/* Return true if LABEL is what SPEC and ARG demand. ARG is NULL if there is to be no label. */
bool label_is(const struct label *label, const struct watch_label_spec *spec, const char *arg);
void label_free(struct label *label);

/* Write the value of GROUP to TEXT. Return false if the value has no text: it counts as "other". */
bool label_text(const struct value_group *group, char text[LABEL_TEXT_BYTES]);

/* Values without a row, with the hits of each. If all members are 0, the list is empty. */
struct label_candidates {
	struct label_candidate {
		char *text;
		uint64_t hits;
	} * list;
	size_t n;
};

/* Add the values of GROUPS that have no row to CANDIDATES. Return 0 or -ENOMEM. */
int label_gather(struct ocp_ctx *ctx, const struct label *label, const struct value_groups *groups,
		 struct label_candidates *candidates);
/*
 * Give rows to as many of CANDIDATES as the limit permits, the most frequent ones first, and free
 * the list. Return 0 or -ENOMEM.
 */
int label_admit(struct ocp_ctx *ctx, struct label *label, struct label_candidates *candidates);
void label_candidates_free(struct label_candidates *candidates);

/* Return the number of the row in which GROUP counts. */
size_t label_value_of(const struct label *label, const struct value_group *group);

/*
 * Add N hits, or the times of GROUP, to the row VALUE. IS_FINAL: the numbers are those of a source
 * that ends; labelled_hits_reset() and labelled_times_reset() set all rows to the sums of such
 * numbers. Return 0 or -ENOMEM.
 */
int labelled_hits_add(struct ocp_ctx *ctx, struct labelled_hits *hits, size_t value, uint64_t n,
		      bool is_final);
int labelled_times_add(struct ocp_ctx *ctx, struct labelled_times *times, size_t value,
		       const struct value_group *group, bool is_final);
/* Add the row VALUE, without times, if there is none. Return 0 or -ENOMEM. */
int labelled_times_add_row(struct ocp_ctx *ctx, struct labelled_times *times, size_t value);
void labelled_hits_reset(struct labelled_hits *hits);
void labelled_times_reset(struct labelled_times *times);
void labelled_hits_free(struct labelled_hits *hits);
void labelled_times_free(struct labelled_times *times);

#endif
