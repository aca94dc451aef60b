/* SPDX-License-Identifier: MIT */
/*
 * What is asked to be measured, before anything is known of where: the command line and the
 * configuration of `serve` fill a request in, a watch carries it, and a meter is told it.
 */
#ifndef MEASURE_REQUEST_H
#define MEASURE_REQUEST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "ocaml_probes.h"
#include "program/item.h"

/* What is timed: from a hit of START to one of STOP. Both are ITEM_PROBE. */
struct request_pair {
	struct item start, stop;
};

/* All 0: nothing is asked for. */
struct measure_request {
	struct items counted, printed;
	struct request_pair *pairs;
	size_t n_pairs;
	enum ocp_split split;	   /* of the counts */
	unsigned int depth;	   /* 0: not given */
	char *key, *filter, *hist; /* NULL: not given */
	uint64_t print_limit;
	bool has_print_limit;
	bool children;
	double budget; /* a share of one core; 0: not given */
};

void measure_request_free(struct measure_request *request);
/* Does it ask for nothing to be measured? Its other parts say how. */
bool measure_request_is_empty(const struct measure_request *request);

/* Both return 0 or -ENOMEM. TEXT takes the place of what *TO was before. */
int measure_request_add_pair(struct measure_request *request, const char *start, const char *stop);
int measure_request_set_text(char **to, const char *text);

/* To be freed by measure_request_drop, which takes NULL. NULL: memory is short. */
struct measure_request *measure_request_copy(const struct measure_request *request);
void measure_request_drop(struct measure_request *copy);
bool measure_request_equal(const struct measure_request *a, const struct measure_request *b);

/* What does not go together; each surface has its own sentence for it. */
enum request_fault {
	REQUEST_FINE,
	REQUEST_SPLIT_WITHOUT_COUNT,
	REQUEST_DEPTH_WITHOUT_PAIR,
	REQUEST_KEY_WITHOUT_PAIR,
	REQUEST_DEPTH_AND_KEY,
	REQUEST_HIST_WITHOUT_COUNT,
	REQUEST_LIMIT_WITHOUT_PRINT,
	REQUEST_FAULTS
};
enum request_fault measure_request_check(const struct measure_request *request);

/* meter_request.c: tell METER, which has not been opened. Returns a code of the library. */
int measure_request_apply(const struct measure_request *request, struct ocp_meter *meter);

#endif
